"""Each key that describes bytes, at each of Spark's doors: see tests/cli/test_given_sizes.py."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq import StoreConfig
from flintmq.spark.jobs import diff, rebuild, verify
from flintmq.spark.jobs.dispatch.job import dispatch
from flintmq.spark.jobs.export.job import export
from flintmq.spark.jobs.replay.job import replay
from flintmq.spark.jobs.stats.job import stats
from tests.support.makers import tiny
from tests.support.sized_store import OTHERS, SIZES, digest, make_all_kinds, says_why


def keys(key: str, value: int) -> StoreConfig:
    return StoreConfig.from_keys({key: value})


def write(spark: Any, root: Path, key: str, value: int) -> None:
    frame = spark.createDataFrame([("T", b"x")], "topic string, body binary")
    frame.write.format("flintmq").option(key, value).mode("append").save(str(root))


def stream(spark: Any, root: Path, key: str, value: int) -> None:
    frame = spark.readStream.format("flintmq").option(key, value).load(str(root))
    write = frame.writeStream.format("noop").trigger(availableNow=True)
    write.option("checkpointLocation", f"{root}-checkpoint").start().awaitTermination()


Door = Callable[[Any, Path, str, int], object]
DOORS: dict[str, Door] = {
    "read": lambda spark, root, key, value: spark.read.format("flintmq").option(key, value).load(str(root)).count(),
    "view queues": lambda spark, root, key, value: (
        spark.read.format("flintmq").option("view", "queues").option(key, value).load(str(root)).count()
    ),
    "readStream": stream,
    "write": write,
    "verify": lambda spark, root, key, value: verify.verify(spark, str(root), keys(key, value)),
    "rebuild": lambda spark, root, key, value: rebuild.rebuild(spark, str(root), f"{root}-out", keys(key, value)),
    "diff": lambda spark, root, key, value: diff.compare(spark, str(root), str(root), keys(key, value)),
    "dispatch": lambda spark, root, key, value: dispatch(spark, str(root), f"{root}-out", keys(key, value), once=True),
    "dispatch into the store": lambda spark, root, key, value: (
        dispatch(spark, str(root), str(root), keys(key, value), once=True)
    ),
    "export": lambda spark, root, key, value: export(spark, str(root), f"{root}-out", keys(key, value)),
    "stats": lambda spark, root, key, value: stats(spark, str(root), None, keys(key, value)),
    "replay": lambda spark, root, key, value: (
        replay(spark, str(root.parent / "other"), str(root), keys(key, value), live=True)
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sizes")
    make_all_kinds(folder / "store")
    tiny(folder / "other", {"queue_offset": 0, "body": b"x"})
    return folder / "store"


IN_WORKERS = ("readStream", "write")  # a worker starts for each: two keys will do
PAIRS = [
    (door, *other)
    for door in DOORS
    for other in OTHERS[::2]
    if door not in IN_WORKERS or other in (OTHERS[2], OTHERS[10])
]


@pytest.mark.turn(3, of=["src/flintmq/store/layout/given_sizes.py", "src/flintmq/spark/"])
@pytest.mark.parametrize(("door", "key", "value"), PAIRS)
def test_spark_refuses_another_size_than_the_files_show(spark: Any, made: Path, door: str, key: str, value: int):
    before = digest(made)
    with pytest.raises(Exception, match=f"{key}={value}") as error:
        DOORS[door](spark, made, key, value)
    said = next(line for line in str(error.value).splitlines() if f"{key}={value}" in line)
    says_why(said, key, value, made)
    assert digest(made) == before and not Path(f"{made}-out").exists()


def test_what_the_files_show_is_no_other_size(spark: Any, made: Path):
    frame = spark.read.format("flintmq").options(**{key: str(value) for key, value in SIZES.items()})
    assert frame.load(str(made)).count() == 61
