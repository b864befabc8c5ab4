"""The job on Spark: the same figures as on threads, to the digit, and its errors."""

from pathlib import Path
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError, UsageError
from flintmq.lake.export.workers import Threads
from flintmq.lake.stats import run
from flintmq.spark.jobs.stats.job import stats
from flintmq.testing import write_store
from tests.compat.stores import Golden

pytestmark = pytest.mark.spark


def both(spark: Any, path: Path, config: StoreConfig | None = None, **more: Any) -> tuple[dict[str, Any], ...]:
    found = [stats(spark, path, None, config, **more).as_dict()]
    found.append(run.stats(path, None, config, workers=Threads(3), **more).as_dict())
    for one in found:
        del one["made"]
    return tuple(found)


def test_golden_stores_have_the_same_figures(spark: Any, golden_store: Golden) -> None:
    config = StoreConfig().with_keys(golden_store.config)
    there, here = both(spark, golden_store.path, config, fail_on_data_loss=False)
    assert there == here and (there["messages"] >= len(golden_store.live) > 0)


@pytest.mark.parametrize("seed", range(3))
def test_made_stores_have_the_same_figures(spark: Any, tmp_path: Path, seed: int) -> None:
    path = write_store(
        tmp_path / "s", 30_000, seed=seed, topics=1 + 20 * seed, keys=1 + seed, kinds="all", body_bytes=(10, 3000),
        duration_ms=3_600_000, waves=2,
    ).path  # fmt: skip
    there, here = both(spark, path)
    for one in (there, here):
        for name in ("keys", "ids"):  # the tables of the most frequent depend on who counted, within `missed`
            del one[name]["top"]
        del one["missed"]
    assert there == here and there["messages"] == 30_000 and not there["keys"]["exact"]


def test_several_stores_have_the_same_figures(spark: Any, golden: Any, tmp_path: Path) -> None:
    import shutil

    for broker, name in (("broker-a", "basic"), ("\u5e93\u5b58", "flags")):
        shutil.copytree(golden(name).path, tmp_path / "data" / broker / "store")
    there, here = both(spark, f"{tmp_path}/data/{{broker}}/store")  # type: ignore[arg-type]
    assert there == here and len(there["brokers"]) == 2


def test_an_error_of_a_task_is_that_of_the_store(spark: Any, golden: Any, tmp_path: Path) -> None:
    copy = golden("basic").copy(tmp_path)
    with (copy / "commitlog" / "00000000000000131072").open("rb+") as file:
        file.seek(40_000)
        file.write(b"\xff" * 300)
    with pytest.raises(CorruptStoreError, match="00000000000000131072"):
        stats(spark, copy)


def test_a_wrong_page_is_refused_before_spark_is_needed(golden: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory"):
        stats(None, str(golden("basic").path), str(tmp_path))  # type: ignore[arg-type]
