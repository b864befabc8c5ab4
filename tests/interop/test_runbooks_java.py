"""What docs/operations/runbooks/ say of Apache RocketMQ: which store it refuses, where it cuts one, what it serves once
mended."""

from pathlib import Path
from typing import Any

import pytest

from flintmq.forensics.salvage.in_place import plan_in_place
from flintmq.testing import damage
from tests.compat.stores import Golden
from tests.interop.java import Java
from tests.interop.running_broker import java_of
from tests.support.scenes import SCENES

pytestmark = pytest.mark.slow


@pytest.fixture
def java() -> Java:
    return java_of("5.3.3")


def opened(java: Java, root: Path, store: Golden) -> tuple[int, int]:
    """(where the log of a copy ends once RocketMQ has opened it, how many messages its queues serve)."""
    rows = java("dump", root, store.config, topics=sorted(store.topics), more={"topics": store.topics})
    served = sum(row["kind"] == "message" and row["message"] is not None for row in rows)
    return rows[0]["max_physical_offset"], served


def mend(root: Path) -> None:
    with plan_in_place(str(root)) as mending:
        mending.carry_out()


def test_a_file_of_a_wrong_size_stops_the_start_until_it_is_mended(golden: Any, tmp_path: Path, java: Java) -> None:
    store, root = golden("basic"), tmp_path / "store"
    SCENES["wont-start"](root)
    with pytest.raises(AssertionError):
        opened(java, root, store)
    mend(root)
    assert opened(java, root, store) == (737416, 3000)  # the lost message's unit leads to its neighbour


@pytest.mark.parametrize(("offset", "end"), [(171051, 737416), (700_000, None)])
def test_a_flipped_bit_costs_all_behind_it_where_the_start_checks(
    golden: Any, tmp_path: Path, java: Java, offset: int, end: int | None
) -> None:
    """After a clean stop that is the last log file; in an earlier one nobody notices."""
    store: Golden = golden("basic")
    root = store.copy(tmp_path)
    [row] = [row for row in store.rows if row["physical_offset"] <= offset < row["physical_offset"] + row["size"]]
    at = row["physical_offset"]
    damage.flip(root / "commitlog" / f"{at // 131072 * 131072:020d}", at % 131072 + 90)
    assert opened(java, root, store)[0] == (at if end is None else end)
    mend(root)
    assert opened(java, root, store) == (737416, 3000)


def test_a_power_cut_ends_the_log_where_recover_says(golden: Any, tmp_path: Path, java: Java) -> None:
    store, root = golden("crash"), tmp_path / "store"
    SCENES["power-cut"](root)
    assert opened(java, root, store) == (85502, 382)


def test_damage_after_a_power_cut_costs_all_behind_it_until_it_is_mended(
    golden: Any, tmp_path: Path, java: Java
) -> None:
    store, root = golden("crash"), tmp_path / "store"
    SCENES["power-cut-damage"](root)
    assert opened(java, root, store)[0] == 13217
    mend(root)
    end, served = opened(java, root, store)
    assert end == 85502 and served >= 379
