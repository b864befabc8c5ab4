"""Log files: the records that Java exported, what covers a position, and what is wrong first."""

import os
import random
from pathlib import Path
from typing import Any

import pytest

from flintmq.forensics.explain.run import explain
from flintmq.format.batch_queue import BATCH_UNIT, COMPACTION_END, BatchUnit
from flintmq.format.message_id import parse_host
from flintmq.format.record import MAGIC_BLANK, Record, encode, encode_blank
from flintmq.message import Message
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.message_store import MessageStore
from tests.compat.stores import Golden
from tests.support.looks import Seen, look
from tests.support.makers import flip, patch

LOG = "00000000000000000000"


def log_of(store: Path) -> Path:
    return store / "commitlog" / LOG


def at_offset(store: Golden, offset: int, inside: int = 0) -> Seen:
    file = LogFiles.discover([str(store.path / "commitlog")]).find(offset)
    assert file is not None
    return look(Path(file.path), offset + inside - file.start)


def test_records_are_what_java_exported(golden_store: Golden) -> None:
    chance = random.Random(golden_store.name)
    for row in chance.sample(golden_store.live, min(12, len(golden_store.live))):
        seen = at_offset(golden_store, row["physical_offset"], chance.randrange(row["size"]))
        unit = f"record at {seen.field('body_crc').offset - 8}"
        fields = {line.name: line for line in seen.lines if line.unit == unit}
        assert sum(line.length for line in fields.values()) <= row["size"]  # a doubled name stands twice
        assert sum(line.length for line in seen.lines if line.unit == unit) == row["size"]
        for name in ("physical_offset", "size", "body_crc", "queue_id", "flag", "queue_offset", "sys_flag",
                     "born_timestamp", "store_timestamp", "reconsume_times",
                     "prepared_transaction_offset", "body_length"):  # fmt: skip
            assert fields[name].value == row[name], name
        for name in ("born_host", "store_host"):  # Java writes IPv6 in full
            assert parse_host(str(fields[name].value)) == parse_host(row[name])
        assert fields["topic"].value == row["topic"] or "�" in row["topic"]
        for name, value in row["properties"].items():
            assert f"property {name}" in fields, name
            assert len(value) > 200 or value in fields[f"property {name}"].text
        assert row["offset_msg_id"] in seen.found["record"]


def test_an_overview_counts_what_java_counts(golden) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic")
    for path in sorted((store.path / "commitlog").iterdir()):
        start, seen = int(path.name), look(path)
        mine = [row for row in store.live if start <= row["physical_offset"] < start + 131072]
        assert seen.found.get("holds") == f"{len(mine)} records"
        singles = [line.value for line in seen.named("record")]
        assert singles == [row["physical_offset"] for row in mine[:10]]
        assert sum(int(line.value or 0) for line in seen.named("records")) == len(mine) - len(singles)


def test_neighbours(golden) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic")
    rows = store.live
    seen = at_offset(store, rows[60]["physical_offset"], 3)
    assert [line.value for line in seen.named("record")] == [rows[n]["physical_offset"] for n in (59, 61, 62)]
    assert seen.field("before").value == 59 and seen.field("behind").meaning == "not looked at"
    first = at_offset(store, 0)
    assert [line.name for line in first.lines][:2] == ["size", "magic"] and not first.named("before")


def test_where_its_unit_stands(golden) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic")
    row = next(row for row in store.live if row["topic"] == "Orders" and row["queue_offset"] == 105)
    position = f"00000000000000002000, position {105 * 20 - 2000}: points here"
    seen = at_offset(store, row["physical_offset"])
    assert seen.found["unit"] == f"consumequeue/Orders/{row['queue_id']}/{position}"
    assert f"get {store.path} Orders {row['queue_id']} 105" in seen.explained.steps[-1]


def record_of(golden: Any, tmp_path: Path, number: int = 5) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    """A copy of a log file, one of its records, and the one behind it."""
    store = golden("basic")
    return log_of(store.copy(tmp_path)), store.live[number], store.live[number + 1]


@pytest.mark.parametrize(
    ("field", "inside", "what"),
    [
        ("magic", 5, "magic 0x"),
        ("body_crc", 8, "body CRC "),
        ("physical_offset", 35, "physical offset "),
        ("size", 2, "size "),
        ("topic", -1, "topic needs"),
    ],
)
def test_the_first_thing_that_is_wrong(field: str, inside: int, what: str, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path, row, behind = record_of(golden, tmp_path)
    at = row["physical_offset"]
    if field == "topic":
        patch(path, at + 88 + row["body_length"], b"\xfe")
    else:
        flip(path, at + inside, 0x40)
    seen = look(path, at + 20)
    [line] = seen.problems
    assert line.name == field and what in (line.problem or ""), line
    assert f"records go on at position {behind['physical_offset']}" in (line.problem or "")
    overview = look(path)
    assert overview.explained.first is not None and overview.explained.first[0] == at
    assert f"--at {at}" in overview.explained.steps[0] and overview.explained.steps[1].startswith("flintmq verify ")
    [bad] = overview.problems
    assert (bad.offset, bad.offset + bad.length) == (at, behind["physical_offset"])


def test_a_flipped_body_keeps_its_other_fields(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path, row, _ = record_of(golden, tmp_path)
    flip(path, row["physical_offset"] + 90)
    seen = look(path, row["physical_offset"])
    assert seen.field("topic").value == row["topic"] and seen.field("queue_offset").value == row["queue_offset"]
    assert f"body CRC {row['body_crc']}, computed " in (seen.field("body_crc").problem or "")


def test_a_hole_of_zeros_between_records(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path, row, behind = record_of(golden, tmp_path)
    patch(path, row["physical_offset"], bytes(row["size"]))
    seen = look(path)
    [line] = seen.problems
    assert (line.name, line.offset) == ("zeros", row["physical_offset"])
    # The next record begins with zeros, too: its size is less than 2^24.
    assert line.offset + line.length == behind["physical_offset"]
    assert f"records follow at position {behind['physical_offset']}" in (line.problem or "")


def test_many_gaps_stay_a_bounded_answer(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = log_of(golden("basic").copy(tmp_path))
    for row in golden("basic").live[1:500:2]:
        flip(path, row["physical_offset"] + 8)
    seen = look(path)
    assert len(seen.lines) < 100 and seen.lines[-1].name == "rest"
    assert seen.lines[-1].text.endswith("20 gaps are listed above")


def test_blank_zeros_and_torn_ends(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = log_of(golden("basic").copy(tmp_path))
    whole = look(path)
    [magic] = [line for line in whole.lines if line.unit.startswith("blank") and line.name == "magic"]
    assert magic.value == MAGIC_BLANK and not whole.problems
    patch(path, magic.offset - 4, (9).to_bytes(4, "big"))
    assert "9 where 18 bytes are left" in (look(path).problems[0].problem or "")
    last = golden("basic").live[533]
    patch(path, last["physical_offset"] + 50, bytes(131072 - last["physical_offset"] - 50))  # torn: zeros to the end
    torn = look(path)
    assert not torn.problems, "where the log may end is no problem by itself"
    assert "no intact record follows in this file" in torn.field("no record").text
    assert torn.lines[-1].name == "zeros" and look(path, last["physical_offset"]).problems


def test_a_stale_tail_is_told_as_one(golden) -> None:  # type: ignore[no-untyped-def]
    path = golden("stale").path / "commitlog" / "00000000000000032768"
    [line] = look(path).problems
    assert "a stale tail if the store stopped cleanly" in line.text


def test_a_time_that_steps_back(golden) -> None:  # type: ignore[no-untyped-def]
    store = golden("stale-aligned")
    beyond = store.rows[189]
    assert "a stale tail begins" in at_offset(store, beyond["physical_offset"]).field("store_timestamp").text


def test_a_file_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    path = log_of(tmp_path)
    path.touch()
    os.truncate(path, 1 << 30)  # as RocketMQ makes its next file: sparse, and nothing in it
    [line] = look(path).lines
    assert (line.name, line.length, line.problem) == ("zeros", 1 << 30, None)
    assert len(look(path, 1 << 29).lines) == 1


def test_a_log_file_without_its_name(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "saved"
    path.write_bytes((golden("basic").path / "commitlog" / "00000000000000131072").read_bytes())
    seen = look(path)
    assert seen.explained.place.how == "by its content" and not seen.problems
    assert look(path, 0).field("physical_offset").value == 131072
    assert not look(path, kind="commitlog").problems


def test_a_store_in_use(tmp_path: Path) -> None:
    with MessageStore(tmp_path) as store:
        for number in range(3):
            store.put(Message("Orders", b"body %d" % number))
        seen = look(log_of(tmp_path))
        assert seen.found["holds"] == "3 records" and not seen.problems
        assert look(log_of(tmp_path), 5).field("body").text == "6 bytes: body 0"


def test_a_quarantined_record(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic")
    row = store.live[40]
    offset, size = row["physical_offset"], row["size"]
    data = log_of(store.path).read_bytes()[offset : offset + size]
    path = tmp_path / "quarantine" / f"{offset:020d}-{row['store_timestamp']}.record"
    path.parent.mkdir()
    path.write_bytes(data)
    seen = look(path, 10)
    assert seen.field("topic").value == row["topic"] and not seen.problems
    path.write_bytes(data[:-1])
    assert look(path).problems


def test_a_compaction_log(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Its records have their place in this log as physical offset; its queue points there."""
    log, queue = (tmp_path / "compaction" / name / "T" / "0" / LOG for name in ("compactionLog", "compactionCq"))
    for path in (log, queue):
        path.parent.mkdir(parents=True)
    made = [Record(topic=b"T", queue_offset=number) for number in (3, 9)]
    made[1] = made[1]._replace(physical_offset=made[0].size)
    log.write_bytes(b"".join(map(encode, made)) + encode_blank(8))
    units = [BatchUnit(one.physical_offset, one.size, 0, 0, one.queue_offset, 1) for one in made]
    queue.write_bytes(b"".join(map(BATCH_UNIT.pack, [*units, COMPACTION_END])))
    assert not look(log).problems and look(log, made[0].size).field("queue_offset").value == 9
    seen = look(queue)
    assert not seen.problems and "T/0/9" in seen.lines[1].text and seen.lines[2].meaning.startswith("closes a file")
    assert look(queue, 50).field("base_offset").text == "9: is the record's"


def test_a_log_that_is_written_and_cut_between_walk_and_look(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Walk and lines read apart from each other; whatever comes between, every byte is told, nothing is raised."""
    whole = log_of(golden("basic").path).read_bytes()
    path = tmp_path / "commitlog" / LOG
    path.parent.mkdir()
    for cut, at in ((171, None), (600, None), (171, 300), (0, 5)):
        path.write_bytes(whole[:171] + bytes(131072 - 171))
        with explain(path, at, limit=20) as explained:
            lines = [next(explained.lines)] if at is None else []
            with path.open("r+b") as file:
                file.write(whole if at is None else whole[:cut] + bytes(131072 - cut))
            lines += explained.lines
        assert sum(line.length for line in lines) == 131072
    path.write_bytes(whole)
    with explain(path, limit=20) as explained:
        lines = [next(explained.lines)]
        with path.open("r+b") as file:
            file.write(whole[:400] + bytes(131072 - 400))
        lines += explained.lines
    assert sum(line.length for line in lines) == 131072
