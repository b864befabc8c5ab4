"""`flintmq completion`: the script that lets a shell complete command lines."""

from __future__ import annotations

from typing import Annotated, Literal

from flintmq.cli.completion import SCRIPTS
from flintmq.cli.declare import Argument
from flintmq.cli.options import examples
from flintmq.cli.output import output

EPILOG = examples("flintmq completion bash", "flintmq completion zsh > flintmq.zsh")
Shell = Literal["bash", "zsh", "fish"]
"""A shell that asks for completions."""


def command(shell: Annotated[Shell, Argument("SHELL", "bash, zsh or fish.")]) -> int:
    """Print the shell script for completion by the Tab key.

    Put it into the shell's start-up file: ~/.bashrc, ~/.zshrc, or ~/.config/fish/config.fish.
    """
    output(False).lines(SCRIPTS[shell].splitlines())
    return 0
