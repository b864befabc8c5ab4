"""Made-up stores are valid, are what was asked for, and are the same for the same seed."""

import hashlib
import struct
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from flintmq.errors import ConfigError, UsageError
from flintmq.format import checkpoint, inner_batch, properties, record
from flintmq.format.compression import original_body
from flintmq.testing import Written, write_store
from flintmq.testing.messages import KINDS
from flintmq.testing.strategies import stores

SMALL = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 2000,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2000,
    "mapperFileSizeBatchConsumeQueue": 2300,
}


def log_files(written: Written) -> list[tuple[int, bytes]]:
    """(log offset, bytes) of each file."""
    return [(int(file.name), file.read_bytes()) for file in sorted((written.path / "commitlog").iterdir())]


def records_of(written: Written) -> list[record.Record]:
    """Every record, read by the reference codec; fails where files do not end as they should."""
    found = []
    files = log_files(written)
    for number, (start, data) in enumerate(files):
        at = 0
        while start + at < written.max_offset:
            if data[at + 4 : at + 8] == b"\xcb\xd4\x31\x94":
                assert struct.unpack_from(">i", data, at)[0] == len(data) - at >= 8
                assert number + 1 < len(files)
                break
            one = record.check(data, at, start + at, file_end=len(data))
            found.append(one)
            at += record.RECORD.size_of(one)
            assert at <= len(data) - 8
        else:
            assert not data[at:].strip(b"\0")
    return found


def tree(root: Path) -> dict[str, str]:
    """Path -> SHA-1 of every file."""
    files = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): hashlib.sha1(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write_store(tmp_path_factory.mktemp("stores") / "all", 3000, kinds="all", config=SMALL)


def test_every_kind_is_there_and_counts(everything: Written) -> None:
    records = records_of(everything)
    assert len(records) == everything.records == 3000
    flags = [one.sys_flag for one in records]
    assert {flag & 0x30 for flag in flags} == {0, 0x10, 0x20, 0x30}
    assert {flag & 0xC for flag in flags} == {0, 4, 8, 12}
    assert {flag & 0x701 for flag in flags if flag & 1} == {1, 0x101, 0x201, 0x301}
    assert {flag & 2 for flag in flags} == {0, 2}
    assert {one.magic for one in records} == {record.MAGIC_V1, record.MAGIC_V2}
    assert {one.flag for one in records} >= {0, 1, -1, 2**31 - 1, -(2**31)}
    assert any(not one.body for one in records)
    topics = {one.topic.decode() for one in records}
    assert topics >= {"Orders", "Bulk", "Devices", "Größen-库存", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"}
    assert any(len(topic.encode()) > 127 for topic in topics)


def test_compressed_bodies_are_really_compressed(everything: Written) -> None:
    compressed = [one for one in records_of(everything) if one.sys_flag & 1]
    assert len(compressed) > 50
    for one in compressed:
        text = original_body(one.body, one.sys_flag)
        assert len(text) >= 200
        assert text.decode().isascii()


def test_queue_offsets_go_up_by_one(everything: Written) -> None:
    ends: dict[tuple[bytes, int], int] = defaultdict(int)
    light: dict[str, int] = defaultdict(int)
    for one in records_of(everything):
        pairs = properties.parse_bytes(one.properties)
        if one.sys_flag & 0xC in (0x4, 0xC):
            assert one.queue_offset == 0
            continue
        assert one.queue_offset == ends[one.topic, one.queue_id]
        count = int(pairs.get("INNER_NUM", 1))
        ends[one.topic, one.queue_id] += count
        if one.sys_flag & 0x80:
            assert int(pairs["INNER_BASE"]) == one.queue_offset
            assert len(list(inner_batch.iterate(one.body))) == count
        if "INNER_MULTI_DISPATCH" in pairs:
            offsets = map(int, pairs["INNER_MULTI_QUEUE_OFFSET"].split(","))
            for name, offset in zip(pairs["INNER_MULTI_DISPATCH"].split(","), offsets, strict=True):
                assert offset == light[name]
                light[name] += 1
    assert len(light) == 12


def test_a_commit_names_its_half_message(everything: Written) -> None:
    records = records_of(everything)
    halves = {one.physical_offset: one for one in records if one.topic == b"RMQ_SYS_TRANS_HALF_TOPIC"}
    commits = [one for one in records if one.sys_flag & 0xC == 8]
    ops = [one for one in records if one.topic == b"RMQ_SYS_TRANS_OP_HALF_TOPIC"]
    assert len(commits) > 20
    for one in commits:
        real = properties.parse_bytes(halves[one.prepared_transaction_offset].properties)
        assert (real["REAL_TOPIC"], real["REAL_QID"]) == (one.topic.decode(), str(one.queue_id))
    finished = {int(one.body.rstrip(b",")) for one in ops}
    assert len(finished) == len(ops)
    assert finished <= {one.queue_offset for one in halves.values()}


def test_batches_are_not_parted_by_the_end_of_a_file(tmp_path: Path) -> None:
    written = write_store(tmp_path / "s", 3000, kinds=["batches"], body_bytes=1000, commit_log_file_size=16384)
    records = records_of(written)
    batches, i = 0, 0
    while i < len(records):
        if b"CLUSTER" not in records[i].properties:
            i += 1
            continue
        j = i
        while j < len(records) and b"CLUSTER" in records[j].properties and records[j].queue_id == records[i].queue_id:
            j += 1
        # Two batches may stand side by side; one of 8 messages at most must lie in one file.
        files = {one.physical_offset // 16384 for one in records[i : min(j, i + 2)]}
        assert len(files) == 1, records[i].physical_offset
        batches, i = batches + 1, j
    assert batches > 100
    assert len(log_files(written)) > 150


@pytest.mark.parametrize("body_bytes", [0, 100, (0, 3000)])
def test_size_and_count_are_as_asked(tmp_path: Path, body_bytes: int | tuple[int, int]) -> None:
    written = write_store(
        tmp_path / "s", 777, topics={"A": 3, "B": 1}, queues=2, body_bytes=body_bytes, tags=(), config=SMALL, keys=2
    )
    records = records_of(written)
    assert len(records) == 777
    sizes = {len(one.body) for one in records}
    low, high = body_bytes if isinstance(body_bytes, tuple) else (body_bytes, body_bytes)
    assert low <= min(sizes) <= max(sizes) <= high
    count = sum(one.topic == b"A" for one in records)
    assert 500 < count < 660
    assert {one.queue_id for one in records} == {0, 1}
    pairs = [properties.parse_bytes(one.properties) for one in records]
    assert {len(pair["KEYS"].split()) for pair in pairs} == {2}
    assert len({pair["UNIQ_KEY"] for pair in pairs}) == 777
    assert not any("TAGS" in pair for pair in pairs)


def test_a_seed_gives_the_same_store_again(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_store(tmp_path / name, 500, seed=9, kinds="all", config=SMALL)
    write_store(tmp_path / "c", 500, seed=10, kinds="all", config=SMALL)
    a, b, c = (tree(tmp_path / name) for name in "abc")
    assert a == b
    first = "commitlog/" + "0" * 20
    assert a[first] != c[first]


def test_random_bodies_and_text_bodies(tmp_path: Path) -> None:
    text = records_of(write_store(tmp_path / "a", 50, bodies="text", body_bytes=200, config=SMALL))
    random = records_of(write_store(tmp_path / "b", 50, bodies="random", body_bytes=200, config=SMALL))
    assert all(one.body.isascii() for one in text)
    assert not any(one.body.isascii() for one in random)
    assert len({one.body for one in random}) == 50


def test_times_never_step_back_and_span_the_duration(tmp_path: Path) -> None:
    for waves in (0, 3):
        path = tmp_path / f"w{waves}"
        written = write_store(
            path, 20_000, start_ms=10**12, duration_ms=3_600_000, waves=waves, body_bytes=10, config=SMALL
        )
        times = [one.store_timestamp for one in records_of(written)]
        assert times == sorted(times)
        assert (times[0], times[-1]) == (written.first_ms, written.last_ms) == (10**12, times[-1])
        assert 3_590_000 < times[-1] - times[0] <= 3_600_000
        minutes = Counter((time - 10**12) // 60_000 for time in times)
        assert len(minutes) == 60
        assert (max(minutes.values()) > 3 * min(minutes.values())) == bool(waves)


def test_a_clean_stop_and_a_crash(tmp_path: Path) -> None:
    clean = write_store(tmp_path / "clean", 1000, config=SMALL)
    crash = write_store(tmp_path / "crash", 1000, config=SMALL, clean=False)
    assert not (clean.path / "abort").exists()
    assert (crash.path / "abort").read_bytes() == b"4242"
    assert (clean.path / "lock").read_bytes() == b"lock"
    at_stop = checkpoint.decode((clean.path / "checkpoint").read_bytes())
    at_crash = checkpoint.decode((crash.path / "checkpoint").read_bytes())
    assert at_stop.physic_timestamp == at_stop.logics_timestamp == clean.last_ms
    assert at_crash.physic_timestamp < crash.last_ms
    assert (clean.path / "checkpoint").stat().st_size == 4096
    spare = sorted((crash.path / "commitlog").iterdir())[-1]
    assert int(spare.name) > crash.max_offset
    assert not any(spare.read_bytes())
    assert [data for _, data in log_files(clean)] == [data for _, data in log_files(crash)][:-1]


def test_files_have_their_full_size(everything: Written) -> None:
    for folder, size in (("commitlog", 65536), ("consumequeue", 2000), ("batchconsumequeue", 2300), ("index", 42040)):
        sizes = {file.stat().st_size for file in (everything.path / folder).rglob("*") if file.is_file()}
        assert sizes == {size}, folder


def test_expired_files_leave_offsets_above_zero(tmp_path: Path) -> None:
    written = write_store(tmp_path / "s", 500, expired_files=3, config=SMALL)
    assert written.min_offset == 3 * 65536 == log_files(written)[0][0]
    assert min(one.queue_offset for one in records_of(written) if one.queue_id == 3) > 0


def test_several_log_directories(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("b", "a", "c")]
    written = write_store(tmp_path / "s", 2000, commit_log_paths=folders, config=SMALL)
    names = {folder.name: sorted(int(file.name) // 65536 for file in folder.iterdir()) for folder in folders}
    assert names["a"][:2] == [0, 3]
    assert names["b"][:2] == [1, 4]
    assert names["c"][:2] == [2, 5]
    assert written.keys["storePathCommitLog"] == ",".join(map(str, folders))


def test_the_log_alone(tmp_path: Path) -> None:
    written = write_store(tmp_path / "s", 100, queues_and_index=False, config_files=False, config=SMALL)
    assert sorted(path.name for path in written.path.iterdir()) == ["checkpoint", "commitlog", "lock"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"messages": 0},
        {"topics": 0},
        {"topics": []},
        {"queues": 0},
        {"body_bytes": (5, 4)},
        {"body_bytes": 70_000},
        {"bodies": "funny"},
        {"kinds": ["inner"]},
        {"expired_files": -1},
        {"kinds": "inner_batches", "config_files": False},
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        write_store(tmp_path / "s", **{"messages": 100, "config": SMALL} | wrong)  # type: ignore[arg-type]


def test_unknown_keys_and_existing_stores_are_refused(tmp_path: Path, everything: Written) -> None:
    with pytest.raises(ConfigError, match="maxIndexNum"):
        write_store(tmp_path / "s", 10, config={"maxIndexNumm": 5})
    before = tree(everything.path)
    with pytest.raises(UsageError, match="is there already"):
        write_store(everything.path, 10)
    assert tree(everything.path) == before


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arguments=stores(max_messages=120))
def test_any_shape_is_valid(tmp_path_factory: pytest.TempPathFactory, arguments: dict[str, object]) -> None:
    written = write_store(tmp_path_factory.mktemp("any") / "s", **arguments)  # type: ignore[arg-type]
    records = records_of(written)
    assert len(records) == arguments["messages"]
    if written.keys["enabledAppendPropCRC"]:
        assert all(one.properties[-20:-11] == b"__CRC32#\x01" for one in records)


def test_kinds_are_documented() -> None:
    assert write_store.__doc__ is not None
    assert [kind for kind in KINDS if f'"{kind}"' not in write_store.__doc__] == []


@pytest.mark.parametrize("kinds", [(), "batches"])
def test_there_are_as_many_queues_as_were_asked_for(tmp_path: Path, kinds: str | tuple[str, ...]) -> None:
    """By chance a cycle of 4,096 messages left two thirds of 10,000 queues without any."""
    topics = [f"T{n}" for n in range(200)]
    made = write_store(tmp_path, 5_000, topics=topics, queues=25, kinds=kinds, queues_and_index=False)
    found = {(one.topic, one.queue_id) for one in records_of(made)}
    assert found == {(topic.encode(), queue) for topic in topics for queue in range(25)}
