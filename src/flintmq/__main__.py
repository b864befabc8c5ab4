"""Runs the command line: the script `flintmq` and `python -m flintmq`.

Modules are loaded when they are needed: printing the version needs none.

Topics are UTF-8 in names of directories, in arguments and in output, whatever the locale says. Python decides on the
encoding when it starts, so in a locale with another one the process is replaced by the same command in UTF-8 mode. Its
number, standard streams, ignored signals and the bytes of its arguments stay. It costs a second start of Python, and
only there.

A signal in the first moment ends the process as it ends any program, without a traceback: until the command line takes
over, SIGINT has the system's own handling.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn


def main() -> NoReturn:
    """Run one command and leave the process with its exit code. Raises SystemExit: always."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.argv[1:] in (["--version"], ["-V"], ["version"]) and sys.stdout is not None:
        from flintmq import __version__

        try:
            print(f"flintmq {__version__}", flush=True)
            sys.exit(0)
        except BrokenPipeError:
            sys.stdout = None  # the reader is gone: leave nothing to flush at exit
            sys.exit(0)
        except OSError:
            pass  # the command line meets it again, and explains it
    if sys.getfilesystemencoding() != "utf-8":
        _start_again_in_utf8()
    _spare_libraries()
    from flintmq.cli.app import main

    main()


class _NoPandas:
    """A finder of modules that says of pandas that it is not installed.

    A None in `sys.modules` would say so to Python alone: compiled modules take it for the module.
    """

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("the question is answered without pandas", name=name)


def _spare_libraries() -> None:
    """Keep libraries from starting what no command needs.

    Only the command says so, whose own process it is. NumPy's OpenBLAS starts a thread for each processor when it is
    loaded, for algebra that nobody does here. pyarrow's datasets load pandas where it is installed, which takes longer
    than the whole question of `sql`; pyarrow then works as where pandas is not installed.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if next((word for word in sys.argv[1:] if not word.startswith("-")), "") == "sql":
        sys.meta_path.insert(0, _NoPandas())


def _start_again_in_utf8() -> None:
    """Replace this process by the same command in UTF-8 mode, if possible, and once.

    By the environment, not by `-X`: processes that the command starts get it too, Spark's among them. Where Python does
    not heed it (`-E`, `-X utf8=0`) the library refuses what it would misread.
    """
    if os.environ.get("PYTHONUTF8") == "1":
        return
    os.environ["PYTHONUTF8"] = "1"
    with suppress(OSError):  # no /proc, or no such file any more
        # The words as bytes: not in each encoding (EUC-JP) does decoded text lead back to them.
        with open("/proc/self/cmdline", "rb") as file:
            words = file.read().split(b"\0")[:-1]
        os.execv(os.readlink(b"/proc/self/exe"), words)


if __name__ == "__main__":
    main()
