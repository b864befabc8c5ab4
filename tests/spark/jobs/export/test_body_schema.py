"""Schemas of JSON bodies are read as Spark reads them."""

import pytest
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from flintmq.lake.bodies.ddl import read_schema, spark_text
from tests.support.spark_reading import SPARK

TEXTS = [
    "id long, name string",
    "id: bigint, name: STRING NOT NULL COMMENT 'it''s'",
    "struct<a:int,b:array<struct<x:double, y: real>>>",
    "`a b` map<string,timestamp>, `c``d` date",
    "a tinyint, b smallint, c integer, d byte, e short, f boolean, g float",
    "v array<struct<sku: string, count: int>>",
    "array array<int>, struct struct<map: int>",
]


@pytest.mark.skipif(SPARK < (4, 2), reason="Spark 4.0 and 4.1 read no colons in a schema, and no zones")
@pytest.mark.spark
@pytest.mark.parametrize("text", TEXTS)
def test_spark_reads_the_same(spark, text, tmp_path):
    theirs = StructType.fromDDL(text)
    ours = read_schema(text)
    assert spark_text(ours) == theirs.simpleString()
    path = tmp_path / "schema.json"
    path.write_text(theirs.json())
    assert read_schema(str(path)) == ours
    assert str(to_arrow_type(theirs, timezone="UTC")).replace(" not null", "") == str(ours)
