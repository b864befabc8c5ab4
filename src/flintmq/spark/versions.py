"""Names the versions of Spark that this package was tried with, and refuses others."""

from __future__ import annotations

from flintmq.errors import UsageError

TRIED = ("4.0", "4.1", "4.2", "4.3")


def check_spark(version: str | None = None) -> None:
    """Raise UsageError unless PySpark, that of this process or a given version, is one of them."""
    if version is None:
        import pyspark

        version = pyspark.__version__
    if ".".join(version.split(".")[:2]) not in TRIED:
        raise UsageError(
            f"flintmq was tried with Spark {TRIED[0]} to {TRIED[-1]}, and this is {version}; "
            "`pip install 'flintmq[spark]'` brings one of them"
        )
