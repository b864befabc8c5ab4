"""The command `flintmq`: runs one command, and handles errors.

A command module is loaded only when it is named, and its libraries only when it runs.
`main` keeps the promises that hold for every command: an exit code from the table in docs/operations/cli.md, one line
for an error, never a traceback (but with FLINTMQ_DEBUG=1), and silence if the reader of a pipe has gone.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from flintmq.cli.completion import COMPLETE, complete
from flintmq.cli.help_topics import EXIT_INTERNAL
from flintmq.cli.output import PipeClosed, report_error, warnings_as_notes
from flintmq.cli.parser import run as run_command
from flintmq.cli.signals import stopping
from flintmq.cli.text import as_typed
from flintmq.errors import FlintError, StoreAccessError, UsageError

ADVICE = {
    errno.EACCES: "check the permissions of the file and of the directories above it",
    errno.EPERM: "check the permissions of the file, and whether it may be changed at all (lsattr)",
    errno.EROFS: "the file system is mounted read-only; give another place",
    errno.ENOSPC: "free some space on that disk, or give another place",
    errno.EDQUOT: "the quota of this user is used up; free some space, or give another place",
    errno.ENOTDIR: "a part of the path is a file; give a directory",
    errno.EISDIR: "it is a directory; give a file",
    errno.EEXIST: "give another name",
    errno.ENOTEMPTY: "give another name",
    errno.ENOENT: "check the path",
    errno.ENAMETOOLONG: "the name is too long for that file system; give a shorter one",
    errno.ELOOP: "links form a circle; check the path",
    errno.EMFILE: "too many files are open; raise the limit (ulimit -n)",
    errno.ENFILE: "too many files are open on this machine; close some programs",
    errno.ENOMEM: "memory is used up; close other programs",
    errno.EFBIG: "the file is larger than that file system or `ulimit -f` allows; give another place",
    errno.EBUSY: "something uses it; end that first",
    errno.EIO: "the disk fails; check the kernel's log (dmesg), and copy all readable files",
}
"""Advice for errors of the system."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit with its code; the entry point of the script `flintmq`."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    """Run one command and return its exit code. Prints errors; raises none."""
    words = list(argv)
    as_json = "--json" in words[: words.index("--")] if "--" in words else "--json" in words
    if _open_missing_streams():
        return _explain(StoreAccessError("standard output is closed; send it to a file, or > /dev/null"), as_json)
    with stopping() as stopped:
        try:
            with warnings_as_notes(as_json):
                code = complete(words) if COMPLETE in os.environ else run_command(words)
            sys.stdout.flush()
            return code if stopped.number is None else stopped.exit_code
        except (PipeClosed, BrokenPipeError):
            _discard_stdout()
            return 0
        except KeyboardInterrupt:
            return stopped.exit_code
        except Exception as error:  # the outermost handler: whatever the error, the user gets one line
            if stopped.number is not None:  # a library turned the signal into another error
                return stopped.exit_code
            return _explain(error, as_json, words)


def _explain(error: Exception, as_json: bool, words: Sequence[str] = ()) -> int:
    """Print one line about an error; return the exit code."""
    if os.environ.get("FLINTMQ_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    if isinstance(error, FlintError):
        code, text = error.exit_code, str(error)
    elif isinstance(error, OSError):
        code, text = StoreAccessError.exit_code, _system(error)
    elif isinstance(error, UnicodeEncodeError) and error.encoding == sys.getfilesystemencoding() != "utf-8":
        from flintmq.store.layout.queue_name import NO_UTF8

        code, text = UsageError.exit_code, f"{error.object}: names of files {NO_UTF8}"
    else:
        code = EXIT_INTERNAL
        text = (
            f"internal error: {type(error).__name__}: {str(error)[:200]}; please report it with the output of "
            "the same command under FLINTMQ_DEBUG=1"
        )
    line = " ".join(text.splitlines())
    report_error(error, line if as_json else as_typed(line, words), code, as_json)
    return code


def _system(error: OSError) -> str:
    name = error.filename
    path = os.fsdecode(name) if isinstance(name, (str, bytes)) else ""
    reason = error.strerror or str(error) or type(error).__name__
    return (f"{path}: " if path else "") + f"{reason}; {ADVICE.get(error.errno or 0, 'check the disk')}"


def _open_missing_streams() -> bool:
    """Replace closed standard streams; return whether stdout was closed.

    Output on the new ones disappears. Their numbers are taken, too: a library that prints to number 1 must not print
    into the next file that is opened.
    """
    closed = sys.stdout is None
    if closed or sys.stdin is None or sys.stderr is None:
        while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(number)
        nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  (as long as the process)
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    return closed


def _discard_stdout() -> None:
    """Redirect stdout to nothing, so that Python's flush at exit does not raise BrokenPipeError."""
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
    except (OSError, ValueError):  # stdout is no real file (a test's, or closed): nothing will be flushed to a pipe
        return
