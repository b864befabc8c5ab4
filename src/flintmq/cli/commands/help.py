"""`flintmq help`: a command, the exit codes, or the format of times."""

from __future__ import annotations

from typing import Annotated

from flintmq.cli.declare import Argument
from flintmq.cli.help_topics import help_text
from flintmq.cli.options import examples
from flintmq.cli.output import output
from flintmq.cli.parser import run

EPILOG = examples("flintmq help exit-codes", "flintmq help scan")


def command(
    topic: Annotated[list[str] | None, Argument("TOPIC", "exit-codes, times, or a command's name.")] = None,
) -> int:
    """Explain a command, the exit codes, or the format of times."""
    text = help_text(" ".join(topic or ()))
    if text is None:
        return run([*(topic or ()), "--help"])
    output(False).lines(text.splitlines())
    return 0
