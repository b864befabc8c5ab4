"""The source on Spark, against what Java decodes: rows, splits, pruning, options, damage, filters."""

import base64
import hashlib
import ipaddress
import pickle
from collections import Counter

import pytest

from flintmq.store.commitlog.predicate import Predicate
from tests.support.makers import hurt_body
from tests.support.spark_reading import BY_THE_JVM, SPARK, by_python, offsets

pytestmark = pytest.mark.spark
kept_plan = pytest.mark.skipif(
    SPARK < (4, 1) and not BY_THE_JVM, reason="Spark 4.0 plans each action of a source in Python anew"
)

FIRST, END = -62135596800000, 253402300800000  # the years 1 to 9999 in ms


def load(spark, store, path=None, name="flintmq", **options):
    source = spark.read.format(name)
    keys = {key: value for key, value in store.config.items() if isinstance(value, (int, bool))}
    for key, value in {**keys, **options}.items():
        source = source.option(key, str(value).lower() if isinstance(value, bool) else str(value))
    return source.load(str(path or store.path))


def rows_of(frame):
    return sorted(frame.collect(), key=lambda row: (row.physical_offset, row.queue_offset))


def ms(time):
    return None if time is None else round(time.timestamp() * 1000)


def host(text):
    address, port = text.rsplit(":", 1)
    return ipaddress.ip_address(address.strip("[]")), int(port)


def difference(want, row):
    """The first field in which a row differs from what Java decoded."""
    got = row.asDict()
    got.update(body_length=len(row.body), body_sha1=hashlib.sha1(row.body).hexdigest())
    for name, value in want.items():
        if name in ("born_timestamp", "store_timestamp"):
            same = ms(got[name]) == (value if FIRST <= value < END else None)
        elif name.endswith("_host"):
            same = host(got[name]) == host(value)
        else:
            same = got[name] == value
        if not same:
            return f"{name}: {value!r} {got[name]!r}"
    return None


@pytest.mark.turn(2, of=["src/flintmq/spark/source.py", "src/flintmq/arrow/"])
@pytest.mark.parametrize("splits", [1, 7])
def test_every_row_is_what_java_decodes(spark, golden_store, splits):
    frame = load(spark, golden_store, minPartitions=splits)
    assert frame.rdd.getNumPartitions() == splits
    rows = rows_of(frame)
    assert len(rows) == len(golden_store.live) + golden_store.expect.get("beyond", 0)
    wrong = [d for want, row in zip(golden_store.live, rows, strict=False) if (d := difference(want, row))]
    assert wrong[:3] == []


def test_columns_and_schema_prune(spark, golden):
    frame = load(spark, golden("basic"), columns="queue_offset, topic")
    assert frame.columns == ["queue_offset", "topic"] and frame.count() == 3000
    frame = spark.read.format("flintmq").schema("body binary, queue_id int NOT NULL").load(str(golden("basic").path))
    lengths = sorted(len(row.body) for row in frame.collect())
    assert lengths == sorted(row["body_length"] for row in golden("basic").rows)


def test_sql(spark, golden):
    store = golden("basic")
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW v USING flintmq OPTIONS (path '{store.path}', subscribe '{topic_of(store)}')"
    )
    counted = spark.sql("SELECT count(*) FROM v").collect()[0][0]
    assert counted == sum(row["topic"] == topic_of(store) for row in store.rows)


def test_a_table_in_the_catalog_is_told_apart(spark, golden):
    """Spark gives a Python source none of the table's options when it reads: refused when it is made."""
    store = golden("basic")
    with pytest.raises(Exception, match="CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE t USING flintmq OPTIONS (path '{store.path}', columns 'topic,queue_id')")
    assert not spark.catalog.tableExists("t")
    assert (store.path / "commitlog").exists()


def topic_of(store):
    return next(row["topic"] for row in store.rows if row["topic"].isascii())


def matching(store, condition):
    return [row["physical_offset"] for row in store.rows if condition(row)]


def test_options_choose_rows(golden):
    """The reader without Spark, which gets its options as they are given."""
    store = golden("basic")
    topic, middle = topic_of(store), store.rows[1500]["store_timestamp"]
    tag = next(row["tags"] for row in store.rows if row["tags"])
    cases = [
        ({"subscribe": topic}, lambda r: r["topic"] == topic),
        ({"subscribePattern": topic[:2] + ".*"}, lambda r: r["topic"].startswith(topic[:2])),
        ({"assign": f'{{"{topic}": [0, 1]}}'}, lambda r: r["topic"] == topic and r["queue_id"] in (0, 1)),
        ({"subscribe": topic, "startingOffsets": f'{{"{topic}": {{"0": 5}}}}'},
         lambda r: r["topic"] == topic and (r["queue_id"] != 0 or r["queue_offset"] >= 5)),
        ({"endingOffsets": f'{{"{topic}": {{"0": 5, "1": -1}}}}'},
         lambda r: r["topic"] != topic or r["queue_id"] != 0 or r["queue_offset"] < 5),
        ({"startingTimestamp": middle}, lambda r: r["store_timestamp"] >= middle),
        ({"endingTimestamp": middle}, lambda r: r["store_timestamp"] < middle),
        ({"tags": f"{tag} || nothing"}, lambda r: r["tags"] == tag),
    ]  # fmt: skip
    for options, condition in cases:
        found = offsets(store.path, minPartitions=2, **options)
        assert found == matching(store, condition), options
        assert 0 < len(found) < 3000, options


def test_explode(spark, golden):
    store = golden("batch")
    rows = rows_of(load(spark, store, explode=True, minPartitions=3))
    assert len(rows) == sum(int(r["properties"]["INNER_NUM"]) if r["sys_flag"] & 128 else 1 for r in store.rows)


def test_decompress(spark, golden):
    store = golden("flags")
    stored = {row.physical_offset: bytes(row.body) for row in load(spark, store).collect()}
    given = {row.physical_offset: bytes(row.body) for row in load(spark, store, decompress=True).collect()}
    changed = [offset for offset in stored if stored[offset] != given[offset]]
    compressed = [row["physical_offset"] for row in store.rows if row["sys_flag"] & 1]
    assert sorted(changed) == sorted(compressed)


@kept_plan
def test_two_actions_see_the_same(spark, golden, tmp_path):
    """What is written after planning is not read, though the file has it by then."""
    store = golden("basic")
    path = store.copy(tmp_path)
    file = sorted((path / "commitlog").iterdir())[-1]
    data = file.read_bytes()
    last = store.rows[-20]["physical_offset"] - int(file.name)
    file.write_bytes(data[:last] + bytes(len(data) - last))
    frame = load(spark, store, path, columns="physical_offset", pushdown=False)
    assert frame.count() == 2980
    file.write_bytes(data)
    assert frame.count() == 2980
    assert load(spark, store, path, columns="physical_offset").count() == 3000


def test_damage_fails_the_job_or_is_passed_over(spark, golden, tmp_path):
    store = golden("basic")
    path = store.copy(tmp_path)
    offset = next(row["physical_offset"] for row in store.rows[1000:] if row["body_length"] > 8)
    file, position = hurt_body(path, offset)
    with pytest.raises(Exception, match="CorruptStoreError") as caught:
        load(spark, store, path, minPartitions=3).count()
    assert f"{file.name}, position {position}: body CRC is wrong" in str(caught.value)
    rows = rows_of(load(spark, store, path, minPartitions=3, failOnDataLoss=False))
    assert [row.physical_offset for row in rows] == matching(store, lambda r: r["physical_offset"] != offset)


@kept_plan
def test_a_file_deleted_meanwhile(spark, golden, tmp_path):
    """Between planning and reading: lost messages are an error, unless the user says otherwise."""
    store = golden("basic")
    path = store.copy(tmp_path)
    strict = load(spark, store, path, columns="physical_offset", pushdown=False)
    lenient = load(spark, store, path, columns="physical_offset", pushdown=False, failOnDataLoss=False)
    assert strict.rdd.getNumPartitions() == lenient.rdd.getNumPartitions() == 1  # planned
    files = sorted((path / "commitlog").iterdir())
    files[0].unlink()
    with pytest.raises(Exception, match="was deleted while the log was read"):
        strict.count()
    assert lenient.count() == len(matching(store, lambda r: r["physical_offset"] >= int(files[1].name)))


def test_filters_are_pushed_where_the_session_allows_it(spark, golden, tmp_path):
    """With pushdown a damaged record of another topic's neighbour still fails; rows are the same with and without."""
    store = golden("basic")
    topic, middle = topic_of(store), store.rows[1500]["store_timestamp"]
    from datetime import UTC, datetime

    from pyspark.sql.functions import col, lit

    moment = lit(datetime.fromtimestamp(middle / 1000, UTC))
    conditions = (col("topic") == topic) & (col("store_timestamp") >= moment) & col("queue_id").isin(0, 2)
    want = matching(store, lambda r: r["topic"] == topic and r["store_timestamp"] >= middle and r["queue_id"] in (0, 2))
    for allowed in ("true", "false"):
        spark.conf.set("spark.sql.python.filterPushdown.enabled", allowed)
        for pushdown in (True, False):
            frame = load(spark, store, pushdown=pushdown).where(conditions)
            assert [row.physical_offset for row in rows_of(frame)] == want
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def predicates(frame):
    """What the tasks of a DataFrame will ask of each record: from the partitions that Spark got from planning."""
    leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().apply(0)
    found = leaf.inputPartitions()
    parts = [pickle.loads(found.apply(n).pickedPartition()) for n in range(found.size())]
    return [part.rows.args[1].args[0].options.predicate for part in parts]  # the plan in the scan of a member


@pytest.mark.skipif(SPARK < (4, 1), reason="Spark 4.0 pushes no filters to Python")
def test_what_is_pushed_reaches_the_scan(spark, golden):
    store, name = golden("basic"), by_python(spark)
    frame = load(spark, store, name=name, pushdown=True).where(
        "topic IN ('A', 'B') AND queue_id = 1 AND tags = 'x' AND queue_offset > 5"
    )
    (found,) = predicates(frame)
    assert found == Predicate(frozenset("AB"), queue_ids=frozenset({1}), tags=frozenset("x"))
    (found,) = predicates(
        load(spark, store, name=name, pushdown=True).where(
            "store_timestamp >= timestamp_millis(5) AND store_timestamp < '1970-01-02'"
        )
    )
    assert (found.since, found.until) == (5, 86_400_000)
    (found,) = predicates(load(spark, store, name=name).where("topic = 'A'"))
    assert found.everything


def test_queries_of_one_dataframe_do_not_see_filters_of_each_other(spark, golden):
    store = golden("basic")
    frame = load(spark, store, columns="topic,queue_id,physical_offset")
    orders, others = frame.where("topic = 'Orders'"), frame.where("topic <> 'Orders'")
    want = len(matching(store, lambda r: r["topic"] == "Orders"))
    assert 0 < want < len(store.live)
    assert orders.count() == want and frame.count() == len(store.live)
    assert orders.union(frame.where("topic = 'Payments' AND queue_id = 1")).where("topic = 'Orders'").count() == want
    assert orders.union(others).count() == len(store.live)
    assert frame.where("queue_id = 1").join(frame.where("topic = 'Orders'"), "physical_offset").count() == len(
        matching(store, lambda r: r["topic"] == "Orders" and r["queue_id"] == 1)
    )


@pytest.mark.skipif(SPARK < (4, 1), reason="Spark 4.0 pushes no filters to Python")
def test_spark_still_keeps_pushed_filters(spark, golden):
    """Why filters are pushed on request only. Once this fails, Spark is mended: `pushdown` may be the default then."""
    store = golden("basic")
    frame = load(spark, store, name=by_python(spark), columns="topic", pushdown=True)
    want = len(matching(store, lambda r: r["topic"] == "Orders"))
    assert frame.where("topic = 'Orders'").count() == want
    assert frame.count() == want < len(store.live), "of all its rows only those of the query before"


def test_wrong_options_are_told(spark, golden):
    with pytest.raises(Exception) as caught:
        load(spark, golden("basic"), colums="topic")
    told = str(caught.value).replace("\\'", "'")
    assert "'colums' is not an option of the source flintmq; did you mean columns?" in told
    assert str(caught.value).count("site-packages") + str(caught.value).count("/flintmq/") <= 6, "a short stack"


def test_queues_as_a_table(spark, golden):
    """Counts without a look at a message."""
    store = golden("basic")
    rows = load(spark, store, view="queues").collect()
    want = Counter((row["topic"], row["queue_id"]) for row in store.live)
    assert {(row.topic, row.queue_id): row.messages for row in rows} == want
    assert load(spark, store, view="queues", subscribe="Orders").where("min_offset = 0").count() == 4


def test_a_path_that_is_no_store(spark, tmp_path):
    with pytest.raises(Exception, match="NotAStoreError"):
        spark.read.format("flintmq").load(str(tmp_path)).count()
    (tmp_path / "commitlog").mkdir()
    assert spark.read.format("flintmq").load(str(tmp_path)).count() == 0


def test_limit_ends_a_read_early(spark, golden):
    assert len(load(spark, golden("basic")).limit(1).collect()) == 1


def test_bodies_survive(spark, golden):
    """A column by itself, through Spark's own functions."""
    frame = load(spark, golden("flags"), columns="body").selectExpr("base64(body) AS text")
    lengths = sorted(len(base64.b64decode(row.text)) for row in frame.collect())
    assert lengths == sorted(row["body_length"] for row in golden("flags").rows)
