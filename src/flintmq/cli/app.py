"""The command `flintmq`: its commands, and what becomes of errors.

Start-up is lean: a command module imports what it works with only when it runs, so `flintmq --help` costs little more
than Python itself. `main` owns the promises that hold for every command: an exit code from the table in docs/cli.md,
one line for an error, never a traceback (but with FLINTMQ_DEBUG=1), and silence where the reader of a pipe has gone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

import flintmq
from flintmq.cli import (
    copy,
    doctor,
    explain,
    get,
    inspect,
    put,
    query,
    rebuild,
    recover,
    retention,
    salvage,
    scan,
    spark,
    sql,
    tail,
    verify,
)
from flintmq.cli.options import examples
from flintmq.cli.output import PipeClosed, report_error, warnings_as_notes
from flintmq.errors import FlintError, StoreAccessError, UsageError

EXIT_INTERNAL = 10
"""A bug of FlintMQ itself."""
COMPLETE = "_FLINTMQ_COMPLETE"
"""Set by shells that ask what may come next, and to ask for what makes them do so; see docs/cli.md."""
EXIT_INTERRUPTED = 130
"""Ctrl-C, as shells count it."""

app = typer.Typer(
    name="flintmq",
    add_completion=False,
    no_args_is_help=False,
    rich_markup_mode=None,  # plain help: quick to make, the same on every terminal
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
spark_app = typer.Typer(
    name="spark",
    no_args_is_help=False,
    rich_markup_mode=None,
    help=spark.HELP,
)
for _module in (inspect, explain, scan, tail, get, query, sql, verify, rebuild, salvage, copy, put, recover, doctor):
    app.command(_module.__name__.rpartition(".")[2], epilog=_module.EPILOG)(_module.command)
for _name, (_command, _epilog) in spark.COMMANDS.items():
    spark_app.command(_name, epilog=_epilog)(_command)
app.add_typer(spark_app, name="spark", epilog=spark.EPILOG)
retention_app = typer.Typer(name="retention", no_args_is_help=False, rich_markup_mode=None, help=retention.HELP)
for _name, (_command, _epilog) in retention.COMMANDS.items():
    retention_app.command(_name, epilog=_epilog)(_command)
app.add_typer(retention_app, name="retention", epilog=retention.EPILOG)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"flintmq {flintmq.__version__}")
        raise typer.Exit


@app.callback(
    epilog=examples(
        "flintmq verify /var/rocketmq/store", "flintmq scan /var/rocketmq/store --topic Orders --since -15m"
    )
)
def _root(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Look into Apache RocketMQ message stores, and mend them: offline, without Java.

    STORE is the directory with commitlog/ in it. Begin with inspect (what is there?) and verify (is it sound?). No
    command writes to STORE but put, recover, and salvage --in-place. Output is escaped for terminals; --json gives
    exact values to programs. Exit codes: 0 fine, 1 damage or a mismatch found, 2 wrong use or not a store; docs/cli.md
    lists the others.
    """


@app.command("version", hidden=True)
def version_command() -> None:
    """Print the version and exit."""
    _version(True)


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command and leave the process with its exit code. The entry point of the script `flintmq`.

    Raises:
        SystemExit: always.
    """
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    """Run one command and give its exit code. Prints errors; raises none."""
    _open_missing_streams()
    words = list(argv)
    as_json = "--json" in words[: words.index("--")] if "--" in words else "--json" in words
    try:
        with warnings_as_notes(as_json):
            code = _dispatch(words)
        sys.stdout.flush()
        return code
    except (PipeClosed, BrokenPipeError):
        _discard_stdout()
        return 0
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:  # the last door: whatever it is, the user gets one line
        return _explain(error, as_json)


def _dispatch(words: list[str]) -> int:
    if COMPLETE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    try:
        result = typer.main.get_command(app).main(args=words or ["--help"], prog_name="flintmq", standalone_mode=False)
    except typer.Abort:
        return EXIT_INTERRUPTED
    except SystemExit as leave:  # typer's answer to a broken pipe while it prints help
        raise PipeClosed from leave
    return result if isinstance(result, int) else 0


def _explain(error: Exception, as_json: bool) -> int:
    """Print one line about an error; gives the exit code."""
    if os.environ.get("FLINTMQ_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    if isinstance(error, FlintError):
        code, text = error.exit_code, str(error)
    elif hasattr(error, "format_message") and hasattr(error, "exit_code"):  # a usage error, in any version of typer
        code, text = UsageError.exit_code, _usage(error)
    elif isinstance(error, OSError):
        code, text = StoreAccessError.exit_code, _system(error)
    else:
        code = EXIT_INTERNAL
        text = (
            f"internal error: {type(error).__name__}: {str(error)[:200]}; please report it with the output of "
            "the same command under FLINTMQ_DEBUG=1"
        )
    report_error(error, " ".join(text.splitlines()), code, as_json)
    return code


def _usage(error: Exception) -> str:
    message = error.format_message()  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "flintmq"
    return f"{message.rstrip('.')}; see '{where} --help'"


def _system(error: OSError) -> str:
    name = error.filename
    path = os.fsdecode(name) if isinstance(name, (str, bytes)) else ""
    reason = error.strerror or str(error) or type(error).__name__
    return (f"{path}: " if path else "") + f"{reason}; check permissions, free space and the disk"


def _open_missing_streams() -> None:
    """A process can be started with stdout or stderr closed; what is written there then goes nowhere."""
    if sys.stdout is None or sys.stderr is None:
        nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  (as long as the process)
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere


def _discard_stdout() -> None:
    """Point stdout at nothing, so that Python's own flush at exit does not complain about the broken pipe."""
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
    except (OSError, ValueError):  # stdout is no real file (a test's, or closed): nothing will be flushed to a pipe
        return
