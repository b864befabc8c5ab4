"""A table of exports and its store on Spark: in batch, and as a stream with a checkpoint."""

import json
from collections import Counter

import pytest

from flintmq.errors import UsageError
from flintmq.spark.source import FlintMQSource
from tests.lake.history.test_history import SMALL, expire, put
from tests.support.exporting import once, whole
from tests.support.spark_reading import limited

pytestmark = pytest.mark.spark
EACH = [(whole, "parquet"), (once, "delta"), (whole, "iceberg")]  # all pairs: tests/lake/history


def bodies(frame):
    return Counter(int(bytes(row.body)[6:-1]) for row in frame.select("body").collect())


@pytest.mark.parametrize(("make", "to"), EACH)
def test_batch(spark, tmp_path, make, to):
    store, out = tmp_path / "store", tmp_path / "out"
    put(store, 0, 300, **SMALL)
    make(store, out, to=to)
    put(store, 300, 340, **SMALL)
    expire(store, 2)
    rows = spark.read.format("flintmq").option("history", str(out)).load(str(store))
    assert bodies(rows) == Counter(range(340))
    assert rows.where("topic = 'Orders' and queue_id = 1").count() == len([n for n in range(340) if n % 6 == 4])
    some = spark.read.format("flintmq").options(history=str(out), subscribe="Orders", columns="queue_id,body")
    assert some.load(str(store)).columns == ["queue_id", "body"]
    assert bodies(some.load(str(store))) == Counter(range(0, 340, 2))


@pytest.mark.parametrize("make", [whole, once])
def test_columns_are_the_tables(spark, tmp_path, make):
    data, out = tmp_path / "data", tmp_path / "out"
    for broker in ("a", "库存"):
        put(data / broker / "store", 0, 10)
    pattern = f"{data}/{{broker}}/store"
    make(pattern, out, body="json", body_schema="n long", properties=["n:n_text"])
    put(data / "a" / "store", 10, 15)
    rows = spark.read.format("flintmq").option("history", str(out)).load(pattern)
    found = rows.select("broker", "body.n", "n_text", "body_raw").collect()
    assert Counter((row.broker, row.n, row.n_text, row.body_raw) for row in found) == Counter(
        (broker, n, f"{n}", None) for broker, count in (("a", 15), ("库存", 10)) for n in range(count)
    )


@pytest.mark.parametrize(("make", "to"), EACH)
def test_a_stream_goes_on_from_its_checkpoint(spark, tmp_path, make, to):
    store, out, lake, checkpoint = (tmp_path / name for name in ("store", "out", "lake", "checkpoint"))

    def run():
        rows = (
            spark.readStream.format("flintmq")
            .options(history=str(out), **limited(maxOffsetsPerTrigger="100"))
            .load(str(store))
        )
        written = rows.writeStream.format("parquet").option("path", str(lake))
        query = written.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        return bodies(spark.read.parquet(str(lake)))

    for begin in (0, 100):
        put(store, begin, begin + 100, **SMALL)
        make(store, out, to=to)
    put(store, 200, 230, **SMALL)
    assert run() == Counter(range(230))
    put(store, 230, 260, **SMALL)
    make(store, out, to=to)
    put(store, 260, 270, **SMALL)
    assert run() == Counter(range(270))
    last = sorted((checkpoint / "offsets").iterdir(), key=lambda path: int(path.name) if path.name.isdigit() else -1)[
        -1
    ]
    assert set(json.loads(last.read_text().splitlines()[-1])) >= {"Orders/0", "库存/2"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"history": "nothing"}, "holds no table that an export made"),
        ({"view": "queues"}, "option history does not apply to view queues"),
        ({"pushdown": "true"}, "option pushdown does not apply to a read with history"),
        ({"catalog": "a:b.c"}, "cannot be opened"),
        ({"columns": "bodies"}, "no column 'bodies'; did you mean body"),
        ({"startingOffsets": '{"Orders": {"0": 5}}'}, "option startingOffsets does not apply"),
    ],
)
def test_refused(tmp_path, options, text):
    put(tmp_path / "store", 0, 10)
    whole(tmp_path / "store", tmp_path / "out")
    source = FlintMQSource({"path": str(tmp_path / "store"), "history": str(tmp_path / "out"), **options})
    with pytest.raises(Exception, match=text):
        source.reader(source.schema())
    with pytest.raises(UsageError, match="option catalog is for the option history"):
        FlintMQSource({"path": str(tmp_path / "store"), "catalog": "a:b.c"}).schema()


def test_a_wrong_type_is_told(tmp_path):
    from pyspark.sql.types import LongType, StructField, StructType

    put(tmp_path / "store", 0, 10)
    whole(tmp_path / "store", tmp_path / "out")
    source = FlintMQSource({"path": str(tmp_path / "store"), "history": str(tmp_path / "out")})
    with pytest.raises(UsageError, match="column topic is of type string, not bigint"):
        source.reader(StructType([StructField("topic", LongType())]))
