"""`flintmq version`: the version of this installation."""

from __future__ import annotations

from flintmq.cli.options import examples
from flintmq.cli.output import output

EPILOG = examples("flintmq version", "flintmq -V")


def command() -> int:
    """Print the version and exit."""
    from flintmq import __version__

    output(False).lines([f"flintmq {__version__}"])
    return 0
