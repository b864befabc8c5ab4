"""Lets Spark find the source `flintmq` by its name.

Spark imports every top-level module `pyspark_*` and registers its `DefaultSource`. An exception here would hide the
sources of all packages, not only ours: so nothing is raised, and nothing optional is imported.
"""

import sys

try:
    from flintmq.spark.source import FlintMQSource as DefaultSource  # noqa: F401
except Exception as error:
    print(f"flintmq: the Spark source is not available: {error}", file=sys.stderr)
