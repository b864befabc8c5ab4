"""Makes a store a table of Spark's own catalog, without the jar.

Spark gives the options of a table in its own catalog to no Python source that reads it. So the table has a source of
its own name with the options in its class, and each program registers that class: `table` does both. It is the same
with and without the jar, as a table outlives the session that made it. The catalog of the jar needs no such call:
docs/spark/catalog.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flintmq.config.text import short
from flintmq.errors import UsageError
from flintmq.spark.source import FlintMQSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CATALOG = "spark_catalog"


def table(spark: SparkSession, name: str, path: str, **options: object) -> DataFrame:
    """Make a store a table of Spark's own catalog, unless it is one, and return the table.

    Afterwards SQL, permanent views, `spark.table` and `readStream.table` know it by its name. Spark keeps the name;
    path and options are bound to it in this session only, so each program that reads the table calls this.

    Args:
        spark: the session.
        name: `orders`, or `shop.orders` in another database than the current one.
        path: the store, or several by a pattern or a manifest.
        options: options of each read, as of `spark.read.format("flintmq")`, such as `subscribe="Orders"`.

    Returns:
        The table.

    Raises:
        UsageError: the name is none; an option is unknown; another table has the name, or the same one other columns.
        PySparkException: Spark cannot make the table, for instance because there is no such database.
    """
    database, short_name = _place(spark, name)
    bound = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}
    source = _bound(f"flintmq_{_escaped(database)}_t{_escaped(short_name)}", {**bound, "path": path})
    columns = source({}).schema()  # before anything is registered: it checks the options
    spark.dataSource.register(source)
    whole = f"{CATALOG}.`{database}`.`{short_name}`"
    spark.sql(f"CREATE TABLE IF NOT EXISTS {whole} USING {source.name()}")
    (told,) = spark.sql(f"SHOW TABLE EXTENDED IN {CATALOG}.`{database}` LIKE '{short_name}'").collect()
    if f"\nProvider: {source.name()}\n" not in told["information"]:
        raise UsageError(
            f"there is another table {short(name)}, which is none of flintmq.spark.table; choose another name"
        )
    found = spark.table(whole)
    if [(one.name, one.dataType) for one in found.schema] != [(one.name, one.dataType) for one in columns]:
        raise UsageError(
            f"table {short(name)} was made with other columns than these options have; DROP TABLE {whole} first"
        )
    return found


def _place(spark: SparkSession, name: str) -> tuple[str, str]:
    """Return database and name of a table, in lower case as Spark's own catalog keeps them."""
    *before, last = parts = name.lower().split(".")
    if not all(re.fullmatch(r"[a-z0-9_]+", part) for part in parts) or len(before) > 1:
        raise UsageError(f"{short(name)} is no name of a table: write orders, or shop.orders; letters, digits and _")
    if before:
        return before[0], last
    own = spark.catalog.currentCatalog() == CATALOG
    return (spark.catalog.currentDatabase() if own else "default"), last


def _escaped(name: str) -> str:
    """Return a name in which `_` is doubled, so that no two tables have one source."""
    return name.replace("_", "__")


def _bound(name: str, bound: dict[str, str]) -> type[FlintMQSource]:
    """Return a source of this name that has these options, whatever Spark gives it."""

    class BoundSource(FlintMQSource):
        def __init__(self, options: object) -> None:
            super().__init__(bound)

        @classmethod
        def name(cls) -> str:
            return name

    return BoundSource
