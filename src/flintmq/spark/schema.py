"""The schema of the source `flintmq` as Spark has it, and what a user may make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flintmq.arrow.schema import SPARK_SCHEMA, narrow
from flintmq.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType


def spark_schema(columns: Sequence[str] | None = None) -> StructType:
    """The schema of a load.

    Args:
        columns: the columns wanted, in this order; None for all.

    Raises:
        UsageError: a name that is not in the schema, or one twice.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(narrow(columns, SPARK_SCHEMA))


def check_schema(schema: StructType, columns: Sequence[str] | None) -> pa.Schema:
    """The Arrow schema that Spark expects of a read with this schema.

    Args:
        schema: what Spark asks for: ours, or a narrower one that the user gave with `.schema(...)`.
        columns: the option `columns`.

    Returns:
        The same columns in the same order, nullable or not as Spark has them.

    Raises:
        UsageError: a column that is not ours, of another type than ours, or not what the option `columns` says.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    names = schema.fieldNames()
    ours = spark_schema(names)
    for field, right in zip(schema.fields, ours.fields, strict=True):
        if field.dataType != right.dataType:
            raise UsageError(
                f"column {field.name} is of type {right.dataType.simpleString()}, not {field.dataType.simpleString()}; "
                "correct .schema(...), and cast afterwards"
            )
    if columns is not None and tuple(names) != tuple(columns):
        raise UsageError("option columns and .schema(...) name different columns; give one of them")
    return to_arrow_schema(schema, timezone="UTC")
