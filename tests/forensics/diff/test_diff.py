"""Two stores are compared: what was planted is found, with its place, and nothing else."""

import json
import os
import random
import shutil
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from flintmq import Message, MessageStore
from flintmq.errors import NotAStoreError, UsageError
from flintmq.forensics.copy import copy_whole
from flintmq.forensics.diff import ranges
from flintmq.forensics.diff.run import Comparison, compare
from flintmq.testing.write_store import write_store
from tests.support.engine import log_files, open_small, records, stored

MIB = 1 << 20


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    write_store(tmp_path / "a", 5_000, 7, topics=["Orders", "库存"], commit_log_file_size=256 << 10)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    return tmp_path / "a", tmp_path / "b"


def whole_log(store: Path) -> bytes:
    return b"".join(path.read_bytes() for path in log_files(store))


def patch(store: Path, at: int, data: bytes) -> None:
    """Write bytes at a log offset; files are of one size and begin at 0."""
    size = log_files(store)[0].stat().st_size
    with open(log_files(store)[at // size], "r+b") as file:
        file.seek(at % size)
        file.write(data)


def all_records(store: Path) -> list[Any]:
    return records(store, log_files(store)[0].stat().st_size)


def found_in(a: Path, b: Path, **named: Any) -> Comparison:
    """Compare, and there and back the same."""
    there, back = compare(str(a), str(b), **named), compare(str(b), str(a), **named)
    swap = {"only-in-a": "only-in-b", "only-in-b": "only-in-a", "damaged-in-a": "damaged-in-b",
            "damaged-in-b": "damaged-in-a"}  # fmt: skip
    turned = Counter({swap.get(str(kind), str(kind)): count for kind, count in back.differences.counts.items()})
    assert turned == Counter({str(kind): count for kind, count in there.differences.counts.items()})
    assert there.exit_code == back.exit_code
    return there


def test_equal_stores(pair: tuple[Path, Path]) -> None:
    for by in ("auto", "offset", "message"):
        found = found_in(*pair, by=by)
        assert found.equal and found.exit_code == 0 and not found.one_sided
        assert found.way == ("message" if by == "message" else "offset")
    assert found.messages == (5_000, 5_000)


def test_equal_bytes_are_not_parsed(pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flintmq.forensics.diff.records.side", lambda *_: pytest.fail("records were read"))
    assert found_in(*pair).end == found_in(*pair).a.log_end > 500_000


def altered_body(raw: bytearray, at: int, length: int) -> None:
    """Change a byte of a body, and the checksum with it."""
    raw[at + length // 2] ^= 1
    raw[8:12] = (zlib.crc32(raw[at : at + length]) & 0x7FFFFFFF).to_bytes(4, "big")


def test_records_that_were_altered(pair: tuple[Path, Path]) -> None:
    """Bodies, properties and times of fifty records, each by itself."""
    a, b = pair
    wanted: dict[int, str] = {}
    everything, log = all_records(a), whole_log(a)
    for number, one in enumerate(random.Random(1).sample(everything, 50)):
        raw = bytearray(log[one.physical_offset : one.physical_offset + one.size])
        if number % 3 == 0 and one.body:
            altered_body(raw, raw.index(one.body), len(one.body))
            name = "body"
        elif number % 3 == 1 and one.properties:
            raw[-1] ^= 1
            name = "properties"
        else:
            raw[63] ^= 1  # of the store time
            name = "store_timestamp"
        patch(b, one.physical_offset, bytes(raw))
        wanted[one.physical_offset] = name
    found = found_in(a, b)
    assert found.exit_code == 1 and dict(found.differences.counts) == {"altered": 50}
    seen = {run.first.a_offset: run.fields for run in found.differences.runs if run.count == 1}
    assert len(seen) >= 40 and all(wanted[at] in fields for at, fields in seen.items() if at is not None)
    by_offset = {one.physical_offset: one for one in everything}
    for run in found.differences.runs:
        one = by_offset[run.first.a_offset]
        assert (run.first.topic, run.first.queue_id, run.first.queue_offset) == (
            one.topic.decode(), one.queue_id, one.queue_offset,
        )  # fmt: skip


def test_a_record_that_is_larger_than_a_step(tmp_path: Path) -> None:
    """The bytes that differ are a MiB after the begin of their record."""
    with MessageStore(tmp_path / "a", {"maxMessageSize": 4 * MIB, "mappedFileSizeCommitLog": 8 * MIB}) as store:
        for size in (100, 3 * MIB, 100):
            assert store.put(Message("T", random.Random(size).randbytes(size))).status.name == "PUT_OK"
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    one = all_records(tmp_path / "a")[1]
    with open(log_files(tmp_path / "a")[0], "rb") as file:
        file.seek(one.physical_offset)
        raw = bytearray(file.read(one.size))
    body = raw.index(random.Random(3 * MIB).randbytes(1000))
    raw[2 * MIB] ^= 1
    patch(tmp_path / "b", one.physical_offset, bytes(raw))
    damaged = found_in(tmp_path / "a", tmp_path / "b")
    assert dict(damaged.differences.counts) == {"only-in-a": 1, "damaged-in-b": 1}, "its checksum is wrong"
    raw[8:12] = (zlib.crc32(raw[body : body + 3 * MIB]) & 0x7FFFFFFF).to_bytes(4, "big")
    patch(tmp_path / "b", one.physical_offset, bytes(raw))
    found = found_in(tmp_path / "a", tmp_path / "b")
    assert [(run.first.a_offset, run.first.fields) for run in found.differences.runs] == [
        (one.physical_offset, ("body", "body_crc"))
    ]


def test_bytes_without_a_record(pair: tuple[Path, Path]) -> None:
    """A page of zeros amid one log: the records of the other side are named."""
    a, b = pair
    patch(b, 300 << 10, bytes(4096))
    end = (300 << 10) + 4096
    lost = [one for one in all_records(a) if one.physical_offset < end and one.physical_offset + one.size > 300 << 10]
    found = found_in(a, b)
    assert found.differences.counts == {"only-in-a": len(lost), "damaged-in-b": 1}


def test_one_side_ends_earlier_or_begins_later(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    stored(a, 100)
    copy_whole(str(a), str(b))
    stored(a, 10, 100)
    found = found_in(a, b)
    [part] = found.one_sided
    assert (part.side, part.where, part.messages) == ("a", "end", 10) and found.exit_code == 1
    first = log_files(b)[0]
    size = first.stat().st_size
    first.unlink()
    [begin, end] = found_in(a, b).one_sided
    gone = [one for one in records(a) if one.physical_offset < size]
    assert (begin.side, begin.where, begin.messages, begin.begin, begin.end) == ("a", "begin", len(gone), 0, size)
    assert end == part


def test_a_side_that_is_written(tmp_path: Path) -> None:
    """What it has not yet is no difference; a record that differs is one."""
    a, b = tmp_path / "a", tmp_path / "b"
    stored(a, 100)
    copy_whole(str(a), str(b))
    stored(a, 10, 100)
    with open_small(b):
        found = compare(str(a), str(b))
        assert found.equal and [part.growing for part in found.one_sided] == [True]
    assert compare(str(a), str(b)).exit_code == 1


def born(
    number: int, topic: str = "T", queue_id: int = 0, body: bytes | None = None, tags: str | None = None
) -> Message:
    """A message of which nothing but the store time depends on the clock."""
    return Message(
        topic,
        b"%06d" % number if body is None else body,
        tags=tags,
        queue_id=queue_id,
        keys=f"k{number}",
        born_timestamp=1_700_000_000_000 + number,
    )


def planted(seed: int, count: int) -> tuple[list[Message], list[Message], Counter[str]]:
    """Messages of two stores, and what differs: 1,200 differences in `count` messages."""
    chance = random.Random(seed)
    left = [born(number, f"T{number % 3}", number % 2) for number in range(count)]
    right: dict[int, Message] = dict(enumerate(left))
    wanted = Counter[str]()
    # Each queue has differences of one kind: where a message is missing, all after it are others.
    for place, kind in enumerate(("altered", "swapped", "other tags", "missing", "added", "none")):
        numbers = range(place, count, 6)
        topic, queue_id = left[place].topic, left[place].queue_id
        some = chance.sample(range(0, len(numbers) - 1, 2), 200)
        if kind in ("altered", "other tags"):
            for at in some:
                more = {"body": b"!"} if kind == "altered" else {"tags": "other"}
                right[numbers[at]] = born(numbers[at], topic, queue_id, **more)  # type: ignore[arg-type]
            wanted["altered"] += 200
        elif kind == "swapped":
            for at in some:
                one, other = numbers[at], numbers[at + 1]
                right[one], right[other] = right[other], right[one]
            wanted["moved"] += 400
        elif kind == "missing":
            for number in numbers[-200:]:
                del right[number]
            wanted["only-in-a"] += 200
        elif kind == "added":
            right |= {count + n: born(count + n, topic, queue_id) for n in range(200)}
            wanted["only-in-b"] += 200
    return left, list(right.values()), wanted


def written(folder: Path, some: Iterable[Message]) -> Path:
    with open_small(folder, mappedFileSizeCommitLog=1 << 20) as store:
        for one in some:
            assert store.put(one).status.name == "PUT_OK"
    return folder


def test_a_thousand_planted_differences(tmp_path: Path) -> None:
    left, right, wanted = planted(1, 6_000)
    found = found_in(written(tmp_path / "a", left), written(tmp_path / "b", right), by="message")
    assert sum(wanted.values()) == 1_200
    assert Counter({str(kind): count for kind, count in found.differences.counts.items()}) == wanted
    assert found.messages == (len(left), len(right))


def test_a_store_that_was_replayed(tmp_path: Path) -> None:
    """Other log offsets and store times, the same messages; one side has a topic more."""
    some = list(map(born, range(100)))
    a = written(tmp_path / "a", some)
    b = written(tmp_path / "b", [*(born(number, "Other") for number in range(40)), *some])
    found = found_in(a, b)
    assert found.way == "message"
    assert found.differences.counts == {"only-in-b": 40}
    [run] = found.differences.runs
    assert (run.first.topic, run.count, run.first.queue_offset, run.last.queue_offset) == ("Other", 40, 0, 39)


def test_what_is_kept_is_bounded(pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = pair
    for one in all_records(a)[::2]:
        log = bytearray(whole_log(a)[one.physical_offset : one.physical_offset + one.size])
        log[63] ^= 1
        patch(b, one.physical_offset, bytes(log))
    monkeypatch.setattr("flintmq.forensics.diff.differences.RUNS_KEPT", 10)
    monkeypatch.setattr("flintmq.forensics.diff.ranges.RANGE_MOST", 64 << 10)
    monkeypatch.setattr("flintmq.forensics.diff.ranges.PIECE", 16 << 10)
    found = compare(str(a), str(b))
    assert found.differences.counts == {"altered": 2_500}
    assert len(found.differences.runs) == 10 < found.differences.run_count


def test_no_stores(pair: tuple[Path, Path], tmp_path: Path) -> None:
    a, _ = pair
    os.symlink(a, tmp_path / "link")
    for other in (a, tmp_path / "link"):
        with pytest.raises(UsageError, match="are one store; give two"):
            compare(str(a), str(other))
    with pytest.raises(NotAStoreError):
        compare(str(a), str(tmp_path / "missing"))
    (tmp_path / "empty" / "commitlog").mkdir(parents=True)
    found = found_in(a, tmp_path / "empty")
    assert found.exit_code == 1 and [part.messages for part in found.one_sided] == [5_000]


def test_the_command(pair: tuple[Path, Path], tmp_path: Path) -> None:
    a, b = pair
    one = all_records(a)[10]
    raw = bytearray(whole_log(a)[one.physical_offset : one.physical_offset + one.size])
    raw[63] ^= 1
    patch(b, one.physical_offset, bytes(raw))
    run = [sys.executable, "-m", "flintmq", "diff", str(a), str(b)]
    text = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
    assert text.returncode == 1 and "differs  altered (store_timestamp)" in text.stdout
    assert text.stdout.splitlines()[-1].startswith("result   1 difference (altered 1); since ")
    lines = subprocess.run(
        [*run, "--json"], capture_output=True, text=True, timeout=60, check=False
    ).stdout.splitlines()
    difference, summary = map(json.loads, lines)
    assert difference["first_a_offset"] == one.physical_offset and summary["differences"] == 1


@pytest.mark.parametrize("sizes", [(100, 70), (64, 64), (1, 100)])
def test_files_of_other_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int]) -> None:
    """Bytes are compared by log offset, however they are divided into files; a missing file differs."""
    from flintmq.store.commitlog.files import LogFiles

    data = random.Random(3).randbytes(1000)
    logs = []
    for name, size in zip("ab", sizes, strict=True):
        folder = tmp_path / name
        folder.mkdir()
        for start in range(0, len(data), size):
            (folder / f"{start:020d}").write_bytes(data[start : start + size])
        logs.append(folder)
    monkeypatch.setattr(ranges, "PIECE", 32)
    lists = [LogFiles.discover([str(folder)]) for folder in logs]
    assert list(ranges.ranges_that_differ(lists[0], lists[1], 0, 1000)) == []
    if sizes == (64, 64):
        (logs[0] / f"{128:020d}").unlink()
        gap = LogFiles.discover([str(logs[0])])
        assert list(ranges.ranges_that_differ(gap, lists[1], 0, 1000)) == [(128, 192)]
        assert list(ranges.ranges_that_differ(lists[1], gap, 0, 1000)) == [(128, 192)]
        os.truncate(logs[1] / f"{960:020d}", 10)
        assert list(ranges.ranges_that_differ(lists[0], lists[1], 192, 1000)) == [(960, 1000)]
