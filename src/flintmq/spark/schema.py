"""Converts the schema of the source `flintmq` to Spark's types, and checks that of a user."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

from flintmq.arrow.kafka_shape import kafka_schema
from flintmq.arrow.schema import SPARK_SCHEMA, narrow, of_many
from flintmq.errors import UsageError
from flintmq.lake.bodies.column import with_bodies

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from flintmq.lake.read.options import ReadOptions


def spark_schema(columns: Sequence[str] | None = None, all_columns: pa.Schema = SPARK_SCHEMA) -> StructType:
    """Return the schema of a load. `columns`: the columns wanted, in this order; None for all."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(narrow(columns, all_columns))


def columns_of(options: ReadOptions) -> pa.Schema:
    """Return all columns that a read with these options has."""
    if options.shape == "kafka":
        return kafka_schema(options.headers, options.many)
    columns = of_many(SPARK_SCHEMA, options.many)
    return columns if options.body is None else with_bodies(columns, options.body)


def check_schema(schema: StructType, columns: Sequence[str] | None, all_columns: pa.Schema = SPARK_SCHEMA) -> pa.Schema:
    """Check the schema of a read, and return the Arrow schema that Spark expects.

    Returns:
        The same columns in the same order, nullable or not as Spark has them.
    """
    check_same(schema, spark_schema(schema.fieldNames(), all_columns), columns)
    return arrow_schema(schema)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects, with times in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    named: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **named)


def check_same(schema: StructType, ours: StructType, columns: Sequence[str] | None) -> None:
    """Refuse a schema of the user whose types, or columns, are other ones than ours.

    Of a struct it may have some fields: Spark asks for those that a query uses.
    """
    for field, right in zip(schema.fields, ours.fields, strict=True):
        if not _is_part(field.dataType, right.dataType):
            raise UsageError(
                f"column {field.name} is of type {right.dataType.simpleString()}, not {field.dataType.simpleString()}; "
                "correct .schema(...), and cast afterwards"
            )
    if columns is not None and tuple(schema.fieldNames()) != tuple(columns):
        raise UsageError("option columns and .schema(...) name different columns; give one of them")


def _is_part(asked: Any, whole: Any) -> bool:
    """Return whether a type is `whole`, perhaps without some fields of structs."""
    if type(asked) is not type(whole):
        return False
    kind = whole.typeName()
    if kind == "struct":
        return all(one.name in whole.names and _is_part(one.dataType, whole[one.name].dataType) for one in asked)
    if kind == "array":
        return _is_part(asked.elementType, whole.elementType)
    if kind == "map":
        return bool(asked.keyType == whole.keyType) and _is_part(asked.valueType, whole.valueType)
    return bool(asked == whole)
