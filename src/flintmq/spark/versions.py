"""Names the versions of Spark that this package was tried with, and refuses others."""

from __future__ import annotations

from flintmq.errors import UsageError

TRIED = ("4.0", "4.1", "4.2", "4.3")


def check_spark() -> None:
    """Raise UsageError unless the PySpark of this process is one of them."""
    import pyspark

    if ".".join(pyspark.__version__.split(".")[:2]) not in TRIED:
        raise UsageError(
            f"flintmq was tried with Spark {TRIED[0]} to {TRIED[-1]}, and this is {pyspark.__version__}; "
            "`pip install 'flintmq[spark]'` brings one of them"
        )
