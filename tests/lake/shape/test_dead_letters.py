"""Dead letters: each message whose body does not decode is there once, through deaths, in every format of the table."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from flintmq import Message, MessageStore
from flintmq.errors import StoreAccessError, UnsupportedFormatError, UsageError
from flintmq.lake.shape import dead_letters
from flintmq.lake.shape.dead_letters import DeadLetters
from flintmq.version import OURS
from tests.support.exporting import Export, iceberg_table, whole

JSON: dict[str, Any] = {"body": "json", "body_schema": "n long"}


def put(store: Path, *bodies: bytes, topic: str = "Orders") -> None:
    with MessageStore(store) as opened:
        for number, body in enumerate(bodies):
            sent = Message(topic, body, queue_id=number % 2, tags="T", properties={"who": f"{number}"})
            assert opened.put(sent).status.name == "PUT_OK"


def letters(folder: Path) -> list[tuple[str, bytes, str]]:
    """(directory, body, reason) of each, by their place in the log."""
    found = []
    for path in sorted(folder.glob("export=*/*.parquet")):
        table = pq.ParquetFile(path).read()
        found += [(row["physical_offset"], (path.parent.name, row["body"], row["reason"])) for row in table.to_pylist()]
    return [letter for _, letter in sorted(found)]


def test_each_bad_body_of_each_run(tmp_path: Path, make: Export, to: str) -> None:
    store, out, dead = tmp_path / "store", tmp_path / "out", tmp_path / "dead"
    put(store, b'{"n": 1}', b"no", b'{"n": "x"}', b"\xff")
    done = make(store, out, to=to, dead_letters=str(dead), **JSON)
    assert (done.rows, done.bad_bodies) == (4, 3)
    assert done.bad_reasons == {"not JSON": 1, "not UTF-8": 1, "not of the schema": 1}
    first = [
        ("export=1", b"no", "not JSON"),
        ("export=1", b'{"n": "x"}', "not of the schema"),
        ("export=1", b"\xff", "not UTF-8"),
    ]
    assert letters(dead) == first
    put(store, b'{"n": 2}')
    assert make(store, out, to=to, dead_letters=str(dead), **JSON).rows == 1
    assert letters(dead) == first and not (dead / "export=2").exists()
    put(store, b"later")
    make(store, out, to=to, dead_letters=str(dead), **JSON)
    assert letters(dead) == [*first, ("export=3", b"later", "not JSON")]


def test_a_letter_says_where_its_message_is(tmp_path: Path) -> None:
    put(tmp_path / "store", b'{"n": 1}', b"no", topic="库存")
    whole(tmp_path / "store", tmp_path / "out", dead_letters=str(tmp_path / "dead"), **JSON)
    table = ds.dataset(str(tmp_path / "dead"), exclude_invalid_files=True).to_table()
    [row] = table.to_pylist()
    assert (row["topic"], row["queue_id"], row["queue_offset"], row["tags"]) == ("库存", 1, 0, "T")
    assert dict(row["properties"])["who"] == "1" and row["body"] == b"no" and row["reason"] == "not JSON"
    [there] = [each for each in _table_rows(tmp_path / "out") if each["body_raw"] is not None]
    assert {name: there[name] for name in ("physical_offset", "msg_id", "store_timestamp", "born_timestamp")} == {
        name: row[name] for name in ("physical_offset", "msg_id", "store_timestamp", "born_timestamp")
    }


def _table_rows(out: Path) -> list[dict[str, Any]]:
    return [row for path in out.glob("export=*/**/*.parquet") for row in pq.ParquetFile(path).read().to_pylist()]


class Died(Exception):
    """The run, before its export was published."""


def test_a_run_that_dies_between_its_letters_and_its_table(
    tmp_path: Path, make: Export, to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run replaces the letters; whether it has as many, more, or none."""
    store, out, dead = tmp_path / "store", tmp_path / "out", tmp_path / "dead"
    put(store, b"first")
    make(store, out, to=to, dead_letters=str(dead), **JSON)
    put(store, b"second")

    def dying(self: DeadLetters, *numbers: int) -> None:
        own(self, *numbers)
        raise Died

    own = DeadLetters.publish
    with monkeypatch.context() as patch:
        patch.setattr(DeadLetters, "publish", dying)
        with pytest.raises(Died):
            make(store, out, to=to, dead_letters=str(dead), **JSON)
    assert [body for _, body, _ in letters(dead)] == [b"first", b"second"]
    put(store, b"third")
    make(store, out, to=to, dead_letters=str(dead), **JSON)
    assert letters(dead) == [
        ("export=1", b"first", "not JSON"),
        ("export=2", b"second", "not JSON"),
        ("export=2", b"third", "not JSON"),
    ]


def test_letters_of_exports_that_were_undone_go(tmp_path: Path, make: Export) -> None:
    """A table that was put back has them to export again; by whatever number."""
    store, out, dead = tmp_path / "store", tmp_path / "out", tmp_path / "dead"
    names = {"to": "iceberg", "dead_letters": str(dead), **JSON}
    for body in (b"first", b"second", b"third"):
        put(store, body)
        make(store, out, **names)
    table = iceberg_table(out)
    table.manage_snapshots().rollback_to_snapshot(table.history()[0].snapshot_id).commit()
    put(store, b"fourth")
    make(store, out, **names)
    assert [body for _, body, _ in letters(dead)] == [b"first", b"second", b"third", b"fourth"]


def test_letters_of_several_stores_name_the_broker(tmp_path: Path, make: Export) -> None:
    for broker in ("a", "b"):
        put(tmp_path / broker / "store", b'{"n": 1}', f"no {broker}".encode())
    make(f"{tmp_path}/{{broker}}/store", tmp_path / "out", dead_letters=str(tmp_path / "dead"), **JSON)
    table = ds.dataset(str(tmp_path / "dead"), exclude_invalid_files=True).to_table()
    assert sorted(zip(table["broker"].to_pylist(), table["body"].to_pylist(), strict=True)) == [
        ("a", b"no a"),
        ("b", b"no b"),
    ]


def test_what_is_refused(tmp_path: Path, make: Export) -> None:
    store, out, dead = tmp_path / "store", tmp_path / "out", tmp_path / "dead"
    put(store, b"no")
    with pytest.raises(UsageError, match="dead letters are bodies that do not decode; give --body"):
        make(store, out, dead_letters=str(dead))
    for place in (out / "dead", tmp_path):
        with pytest.raises(UsageError, match="is in the other; give one beside it"):
            make(store, out, dead_letters=str(place), **JSON)
    with pytest.raises(UsageError, match="store"):
        make(store, out, dead_letters=str(store / "dead"), **JSON)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "export=1").mkdir()
    with pytest.raises(UsageError, match="holds other things"):
        make(store, out, dead_letters=str(tmp_path / "full"), **JSON)
    make(store, out, dead_letters=str(dead), **JSON)
    with pytest.raises(UsageError, match=f"belongs to {out}"):
        make(store, tmp_path / "other", dead_letters=str(dead), **JSON)
    assert json.loads((dead / "_flintmq.json").read_text()) == {"format": 1, "flintmq": OURS, "table": str(out)}


@pytest.mark.parametrize(("writer", "why"), [("9.0", "newer than this one"), (None, "another FlintMQ than this one")])
def test_a_mark_of_another_version_is_refused_by_name(tmp_path: Path, writer: str | None, why: str) -> None:
    dead, table = tmp_path / "dead", str(tmp_path / "table")
    assert DeadLetters.at(str(dead), table).table == table
    mark = json.dumps({"format": 1, "flintmq": writer, "table": table, "codec": "x"})
    (dead / "_flintmq.json").write_text(mark)
    with pytest.raises(UnsupportedFormatError, match=f"the key 'codec' is not known here: made by .*{why}"):
        DeadLetters.at(str(dead), table)
    (dead / "_flintmq.json").write_text(mark[:-9])
    with pytest.raises(StoreAccessError, match=r"does not name a table \(cut off\); give --dead-letters an empty"):
        DeadLetters.at(str(dead), table)
    assert (dead / "_flintmq.json").read_text() == mark[:-9]


def test_their_name_is_on_disk_when_the_table_gets_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory is synced last, with the new name in it."""
    (tmp_path / "dead").mkdir()
    (tmp_path / "letters").write_bytes(b"rows")
    calls = []
    rename = os.rename

    def renamed(old: Any, new: Any) -> None:
        calls.append(f"name {Path(new).name}")
        rename(old, new)

    monkeypatch.setattr(dead_letters, "sync_folder", lambda path: calls.append(f"sync {Path(path).name}"))
    monkeypatch.setattr(dead_letters.os, "rename", renamed)
    DeadLetters(tmp_path / "dead", "table", files=[(str(tmp_path / "letters"), "00000")]).publish(0, 1)
    assert calls == ["sync _staging", "name export=1", "sync dead"]
    assert (tmp_path / "dead" / "export=1" / "00000-dead.parquet").read_bytes() == b"rows"
