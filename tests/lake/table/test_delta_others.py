"""A Delta table that others optimize, rename columns of, or change while an export commits."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from flintmq import Message, MessageStore
from flintmq.errors import StoreAccessError, UsageError
from flintmq.lake.export.export import Exported
from flintmq.lake.export.export_once import export
from flintmq.lake.history.diff_table import compare_table
from flintmq.lake.table.delta import DeltaTarget


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def again(store: Path, count: int = 4) -> Exported:
    with MessageStore(store, dev=True) as open_one:
        open_one.put_many([Message("A", b"%d" % number, queue_id=number % 2) for number in range(count)])
    return export(str(store), str(store.parent / "lake"), to="delta")


def shorten(lake: Path) -> None:
    """Optimize the table, and remove Delta's log before that, as Delta does after some weeks."""
    table = DeltaTable(str(lake))
    table.optimize.compact()
    DeltaTable(str(lake)).create_checkpoint()
    newest = DeltaTable(str(lake)).version()
    for path in (lake / "_delta_log").glob("*.json"):
        if path.name[:20].isdigit() and int(path.name[:20]) < newest:
            os.unlink(path)


def test_the_rows_show_that_a_table_whose_log_was_shortened_was_not_restored(store: Path) -> None:
    again(store), again(store)
    lake = store.parent / "lake"
    shorten(lake)
    assert again(store).rows == 4
    assert DeltaTable(str(lake)).to_pyarrow_table().num_rows == 12
    assert compare_table(str(store), str(lake)).equal


@pytest.mark.parametrize(("said", "rows"), [("2/2", 4), ("1/2", 8), (None, 0), ("1/1", 0), ("3/2", 0), ("2", 0)])
def test_without_a_row_of_the_newest_export_the_user_says_it(store: Path, said: str | None, rows: int) -> None:
    again(store), again(store)
    lake = store.parent / "lake"
    DeltaTable(str(lake)).delete("queue_offset >= 2")
    shorten(lake)
    if said is not None:
        DeltaTable(str(lake)).alter.set_table_properties({"flintmq.export": said}, raise_if_not_exists=False)
    if rows:
        assert again(store).rows == rows
    else:
        with pytest.raises(
            StoreAccessError, match=r"set its property flintmq.export to '2/2' if it was not, or to 'K/2'"
        ):
            again(store)


def test_column_mapping_of_the_older_protocol_is_refused(store: Path) -> None:
    again(store)
    lake = store.parent / "lake"
    first = (lake / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    meta = next(found["metaData"] for found in map(json.loads, first) if "metaData" in found)
    meta["configuration"] = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "99"}
    schema = json.loads(meta["schemaString"])
    for number, field in enumerate(schema["fields"], 1):
        field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": field["name"]}
    meta["schemaString"] = json.dumps(schema)
    actions = ({"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, {"metaData": meta})
    place = lake / "_delta_log" / f"{DeltaTable(str(lake)).version() + 1:020d}.json"
    place.write_text("\n".join(map(json.dumps, ({"commitInfo": {"operation": "X", "timestamp": 1}}, *actions))))
    doors: list[Callable[[], object]] = [lambda: again(store), lambda: compare_table(str(store), str(lake))]
    for door in doors:
        with pytest.raises(UsageError, match="uses column mapping by name, which is not read or written here"):
            door()


@pytest.mark.parametrize("times", [1, 4, 5])
def test_a_commit_is_tried_again_while_others_change_the_table(
    store: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    again(store)
    lake, kept, left = store.parent / "lake", DeltaTarget._add, [times]

    def commit(self: DeltaTarget, *given: Any) -> None:
        """Somebody else changes properties between the look at the table and the commit."""
        if left[0]:
            left[0] -= 1
            values = {"delta.logRetentionDuration": f"interval {left[0] + 30} days"}
            DeltaTable(str(lake)).alter.set_table_properties(values)
        kept(self, *given)

    monkeypatch.setattr(DeltaTarget, "_add", commit)
    if times == 5:
        with pytest.raises(StoreAccessError, match="the Delta table rejected the export"):
            again(store)
        monkeypatch.undo()
        assert export(str(store), str(lake), to="delta").rows == 4
    else:
        assert again(store).rows == 4
    assert DeltaTable(str(lake)).to_pyarrow_table().num_rows == 8
