"""What a table of exports holds and lacks: as many messages, and those places and times, as were put."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq import Message, MessageStore
from flintmq.errors import UsageError
from flintmq.lake.history.table_content import table_content
from tests.cli.conftest import Run, run  # noqa: F401
from tests.support.engine import put_messages
from tests.support.exporting import Export, once, whole

FILE = 1 << 16


def put(store: Path, *topics: str) -> list[Any]:
    """Put a message of each topic; the records, whose place and time the store itself tells."""
    with MessageStore(store, config={"mappedFileSizeCommitLog": FILE}) as opened:
        results = [opened.put(Message(topic, b"x")) for topic in topics]
        return [opened.get_at(result.physical_offset) for result in results]


@pytest.mark.parametrize("to", ["parquet", "delta", "iceberg"])
@pytest.mark.parametrize("export", [whole, once])
def test_it_holds_what_was_put_and_lacks_the_rest(tmp_path: Path, export: Export, to: str) -> None:
    store, table = tmp_path / "store", tmp_path / "table"
    first, *_, last = put(store, *["Orders", "Payments"] * 10)
    export(store, table, to=to)
    more = put(store, *["Orders"] * 5)
    for there in (20, 25):
        found = table_content(str(table), str(store))
        [one] = found.brokers
        assert (found.format, found.messages, one.messages, one.broker) == (to, there, there, "")
        assert (one.begin, one.first_time) == (first.physical_offset, first.store_timestamp)
        assert (one.end, one.last_time) == (last.physical_offset + last.size, last.store_timestamp)
        assert one.log_end == more[-1].physical_offset + more[-1].size and one.log_time == more[-1].store_timestamp
        assert (one.unread, one.lost) == (one.log_end - one.end, 0) and not found.lacks
        assert found.options == ({"stream": True} if export is once else {}) and found.number == (
            1 if there == 20 else 2
        )
        export(store, table, to=to)
        last = more[-1]
    alone = table_content(str(table))
    assert alone.messages == 25 and alone.brokers[0].unread is alone.brokers[0].log_end is None


def test_of_several_stores_each_by_itself(tmp_path: Path) -> None:
    pattern, table = f"{tmp_path}/{{broker}}/store", tmp_path / "table"
    put(tmp_path / "a" / "store", *["Orders"] * 3, "Payments")
    put(tmp_path / "b" / "store", *["Payments"] * 4)
    whole(pattern, table, topics=["Orders"])
    put(tmp_path / "c" / "store", "Orders")
    shutil.rmtree(tmp_path / "b")
    found = table_content(str(table), pattern)
    assert [(one.broker, one.messages, one.unread is None) for one in found.brokers] == [
        ("a", 3, False),
        ("b", 0, True),
        ("c", 0, False),
    ]
    assert found.brokers[2].unread and found.options == {"many": True, "topics": ["Orders"]}
    with pytest.raises(UsageError, match="is a table of several stores"):
        table_content(str(table), str(tmp_path / "a" / "store"))


def test_what_was_deleted_before_an_export_read_it_is_lost(tmp_path: Path, run: Run) -> None:  # noqa: F811
    store, table = tmp_path / "store", tmp_path / "table"
    flintmq.testing.write_store(store, 300, commit_log_file_size=FILE)
    whole(store, table)
    end = table_content(str(table)).brokers[0].end
    put_messages(store, (Message("Late", bytes(200)) for _ in range(1000)), {"mappedFileSizeCommitLog": FILE})
    files = sorted((store / "commitlog").iterdir())
    for file in files[:-1]:  # as retention does
        file.unlink()
    found = table_content(str(table), str(store))
    assert found.lacks and found.brokers[0].lost == int(files[-1].name) - end
    assert found.brokers[0].unread == (found.brokers[0].log_end or 0) - int(files[-1].name)
    told = run("inspect", store, "--history", table)
    assert told.code == 1 and "of log were deleted before an export had read them" in told.out


def test_the_command(tmp_path: Path, run: Run) -> None:  # noqa: F811
    store, table = tmp_path / "store", tmp_path / "table"
    put(store, *["Orders"] * 3)
    whole(store, table, topics=["Orders"])
    put(store, "Orders")
    told = run("inspect", store, "--history", table)
    assert told.code == 0 and f"table    {table}: parquet, export 1 of " in told.out
    lines = told.out.splitlines()
    assert lines[1:3] == ["messages 3 in 1 file", 'options  topics ["Orders"]'] and lines[4].startswith("waiting  ")
    alone = run("inspect", table)
    assert alone.code == 0 and alone.out.splitlines()[:4] == lines[:4] and "waiting" not in alone.out
    assert run("inspect", tmp_path).code == run("inspect", store, "--history", tmp_path).code == 2
    assert run("inspect", store, "--catalog", "a:b.c").code == 2
    put(tmp_path / "other", *["Others"] * 9)
    refused = run("inspect", tmp_path / "other", "--history", table)
    assert refused.code == 2 and "it is not the log of the table's last export" in refused.err
