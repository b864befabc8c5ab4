"""The commands for Typer.

Typer parses all lines that are not plain, and makes help, errors of use, and completions.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

import flintmq
from flintmq.cli.command import Command, SparkCommand, SqlCommand
from flintmq.cli.commands import NAMES, module_of, retention
from flintmq.cli.declare import for_typer
from flintmq.cli.help_topics import EXIT_INTERRUPTED, help_text
from flintmq.cli.options import examples
from flintmq.cli.output import PipeClosed
from flintmq.cli.plain import COMPLETE

spark = import_module(module_of("spark"))
app = typer.Typer(
    name="flintmq",
    add_completion=False,
    no_args_is_help=False,
    rich_markup_mode=None,  # plain help: quick to produce, the same on every terminal
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
spark_app = typer.Typer(
    name="spark",
    no_args_is_help=False,
    rich_markup_mode=None,
    help=spark.HELP,
)
for _name in NAMES:
    _module = import_module(module_of(_name))
    _cls = SqlCommand if _name == "sql" else Command
    app.command(_name, cls=_cls, epilog=_module.EPILOG)(for_typer(_module.command))
for _name, (_command, _epilog) in spark.COMMANDS.items():
    spark_app.command(_name, cls=SparkCommand, epilog=_epilog)(for_typer(_command))
app.add_typer(spark_app, name="spark", epilog=spark.EPILOG)
retention_app = typer.Typer(name="retention", no_args_is_help=False, rich_markup_mode=None, help=retention.HELP)
for _name, (_command, _epilog) in retention.COMMANDS.items():
    retention_app.command(_name, cls=Command, epilog=_epilog)(for_typer(_command))
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
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress bars; also after the command's name.")
    ] = False,
) -> None:
    """Inspect Apache RocketMQ message stores, and mend them: offline, without Java.

    STORE is the directory with commitlog/ in it. Begin with inspect (the content) and verify (is it sound?). Only put,
    salvage --in-place, recover, follow, spark dispatch, spark sink --forget, and spark replay (--into) write to an
    existing store. Output is escaped for terminals; --json gives exact values to programs. Exit codes: 0 fine, 1 damage
    or a mismatch found, 2 wrong use or not a store; `flintmq help exit-codes` lists the others, `flintmq help` the
    other topics.
    """


@app.command("version", cls=Command, epilog=examples("flintmq version", "flintmq -V"))
def version_command() -> None:
    """Print the version and exit."""
    _version(True)


class Shell(enum.StrEnum):
    """A shell that asks for completions."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


@app.command(
    "completion",
    cls=Command,
    epilog=examples("flintmq completion bash", "flintmq completion zsh > flintmq.zsh"),
)
def completion_command(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", show_default=False, help="bash, zsh or fish.")],
) -> None:
    """Print the shell script for completion by the Tab key.

    Put it into the shell's start-up file: ~/.bashrc, ~/.zshrc, or ~/.config/fish/config.fish.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    typer.echo(get_completion_script(prog_name="flintmq", complete_var=COMPLETE, shell=shell.value))


@app.command("help", cls=Command, epilog=examples("flintmq help exit-codes", "flintmq help scan"))
def help_command(
    topic: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", show_default=False, help="exit-codes, times, or a command's name."),
    ] = None,
) -> None:
    """Explain a command, the exit codes, or the format of times."""
    words = topic or []
    text = help_text(" ".join(words))
    if text is not None:
        typer.echo(text)
    elif code := dispatch([*words, "--help"]):
        raise typer.Exit(code)


def dispatch(words: Sequence[str]) -> int:
    """Run the command that the words name, and return its exit code.

    Raises:
        PipeClosed: the reader of the help has gone.
    """
    if COMPLETE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    try:
        args = list(words) or ["--help"]
        result = typer.main.get_command(app).main(args=args, prog_name="flintmq", standalone_mode=False)
    except typer.Abort:
        return EXIT_INTERRUPTED
    except SystemExit as leave:  # typer's answer to a broken pipe while it prints help
        raise PipeClosed from leave
    return result if isinstance(result, int) else 0
