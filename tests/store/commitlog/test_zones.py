"""Walks that skip zones: the rows of a walk that does not, whatever the maps are."""

import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.format import record
from flintmq.message import StoredMessage, stored_message
from flintmq.store.commitlog import zone_maps
from flintmq.store.commitlog.end_of_log import NO_FACTS, StopFacts, read_facts
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.predicate import Predicate, Selector
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.commitlog.zones import MOST_NAMES, ZoneCondition, Zones, skips_of, zones_for
from tests.compat.stores import Golden
from tests.support.small_logs import log_of

ZONE = 2048
FILE = 16_384


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.delenv("FLINTMQ_ZONE_MAPS")
    monkeypatch.setattr(zone_maps, "LEAST_LOG", 0)
    return folder / "flintmq" / "zones"


def wanted_in(messages: Iterator[StoredMessage], predicate: Predicate) -> list[int]:
    """The log offsets of the messages that a caller wants, by the slow reference."""
    return [message.physical_offset for message in messages if predicate.wants(message) and keyed(message, predicate)]


def keyed(message: StoredMessage, predicate: Predicate) -> bool:
    """Whether a message has one of the keys of the hint."""
    keys = predicate.any_key
    return keys is None or bool(keys & {message.msg_id, *(message.keys or "").split(" ")})


def read(walk: LogWalk) -> Iterator[StoredMessage]:
    for piece in walk:
        yield from (stored_message(piece.data, at) for at in piece.positions[: piece.count])


class Count:
    """Counts the records that a walk reads."""

    def __init__(self) -> None:
        self.records = 0

    def of(self, walk: LogWalk) -> Iterator[StoredMessage]:
        for message in read(walk):
            self.records += 1
            yield message


def scan(log: LogFiles, predicate: Predicate, **how: object) -> tuple[list[int], int]:
    """(log offsets of the wanted rows, records read) of a walk with zones."""
    count, walk = Count(), LogWalk(log, **how)  # type: ignore[arg-type]
    wanted = ZoneCondition.of(predicate)
    walk.use_zones(None if wanted is None else Zones(wanted, zone_bytes=ZONE))
    return wanted_in(count.of(walk), predicate), count.records


def made(count: int, seed: int = 1, begin: int = 0, time: int = 1000) -> tuple[list[bytes], int]:
    """(files, end) of a log of records with topics, keys and times of their own."""
    chance, files, data, at = random.Random(seed), [], b"", begin
    for number in range(count):
        unique = b"UNIQ_KEY\x01u%d-%d\x02" % (seed, number) if number % 3 else b""
        one = record.encode(
            record.Record(
                body_crc=record.crc(b"b" * (number % 90)),
                physical_offset=at,
                queue_offset=number,
                store_timestamp=time + number // 4,
                body=b"b" * (number % 90),
                topic=b"T%d" % (number // 60),
                properties=unique + b"KEYS\x01k%d-%d all\x02" % (seed, number),
                born_timestamp=chance.randrange(1000),
            )
        )
        if len(data) + len(one) + 8 > FILE:
            data += record.encode_blank(FILE - len(data))
            files.append(data)
            begin, data = begin + FILE, b""
            at = begin
            one = record.encode(record.decode(one)._replace(physical_offset=at))
        data, at = data + one, at + len(one)
    return [*files, data], at


PREDICATES = [
    Predicate(since=1100),
    Predicate(until=1030),
    Predicate(since=1060, until=1062),
    Predicate(topics=frozenset(["T3"])),
    Predicate(topics=frozenset(["T3", "T9"]), until=1040),
    Predicate(any_key=frozenset(["k1-301"])),
    Predicate(any_key=frozenset(["u1-302"])),
    Predicate(any_key=frozenset(["none"])),
    Predicate(any_key=frozenset(["k1-5", "u1-700"])),
    Predicate(queues=frozenset([("T4", 0)])),
]


@pytest.mark.parametrize("predicate", PREDICATES, ids=range(len(PREDICATES)))
@pytest.mark.parametrize("access", ["pread", "map"])
@pytest.mark.parametrize("how", [{}, {"piece_bytes": 700}, {"max_rows": 3}])
def test_the_same_rows_and_less_to_read(tmp_path: Path, predicate: Predicate, access: str, how: dict[str, int]) -> None:
    files, _ = made(800)
    log = log_of(tmp_path / "log", *files, file_size=FILE)
    expected = wanted_in(read(LogWalk(log)), predicate)
    assert scan(log, predicate, access=access, **how) == (expected, 800)
    rows, records = scan(log, predicate, access=access, **how)
    assert rows == expected
    assert records <= 450  # a zone holds some twelve records; the last zone of a log has no map yet


def test_a_walk_that_stops_early_keeps_what_it_read(tmp_path: Path) -> None:
    files, _ = made(800)
    log = log_of(tmp_path / "log", *files, file_size=FILE)
    never = Predicate(since=10**12)
    walk = LogWalk(log, max_rows=5)
    walk.use_zones(Zones(ZoneCondition(10**12, None, ()), zone_bytes=ZONE))
    messages = read(walk)
    for _ in range(300):
        next(messages)
    messages.close()  # type: ignore[attr-defined]
    del messages, walk
    assert 500 <= scan(log, never)[1] < 560
    assert scan(log, never)[1] < 30


def put(path: Path, data: bytes) -> None:
    """Write a log file as a broker does: in place."""
    with open(path, "r+b" if path.exists() else "x+b") as file:
        file.truncate(FILE)
        file.write(data)


def test_a_log_that_grows(tmp_path: Path) -> None:
    """Each scan reads what is new, and continues the maps; with a new file those of the last two are made again."""
    files, _ = made(800)
    log_of(tmp_path / "log", file_size=FILE)
    predicate = Predicate(any_key=frozenset(["none"]))
    before = 0
    for number, data in enumerate(files):
        half = data[: len(data.rstrip(b"\0")) // 2]
        for part, again in ((half, 240), (data, 0)):
            put(tmp_path / "log" / f"{number * FILE:020}", part)
            rows, records = scan(LogFiles.discover([str(tmp_path / "log")], FILE), predicate, strict=False)
            assert rows == []
            assert records < 90 + 20 * number + again
            before += records
    assert before > 800


def keys_of(folder: Path, key: str, facts: StopFacts = NO_FACTS) -> int:
    """How many rows a scan with maps has for a key."""
    log = LogFiles.discover([str(folder)])
    return len(scan(log, Predicate(any_key=frozenset([key])), strict=False, facts=facts)[0])


@pytest.mark.parametrize(
    ("how", "number"),
    [("new directory", 0), ("new directory", 3), ("new file", 0), ("new file", 3), ("in place", 0)],
)
def test_a_log_of_the_same_sizes_times_and_bodies(tmp_path: Path, how: str, number: int) -> None:
    """A store that is made again (a test's, a replay's) with another key or topic amid a zone."""
    files, _ = made(400)
    log_of(tmp_path / "log", *files, file_size=FILE)
    path = tmp_path / "log" / f"{number * FILE:020}"
    at = files[number].index(b"KEYS\x01k1-", 3000) + 5  # amid a zone: its first and last records stay as they are
    key = files[number][at : files[number].index(b" ", at)].replace(b"k1-", b"zz-").decode()
    changed = files[number][:at] + b"zz-" + files[number][at + 3 :]
    assert keys_of(tmp_path / "log", key) == 0
    if how == "in place":
        put(path, changed)
    else:
        if how == "new directory":
            shutil.rmtree(tmp_path / "log")
        else:
            path.unlink()
        log_of(tmp_path / "log", *[changed if n == number else data for n, data in enumerate(files)], file_size=FILE)
    assert [keys_of(tmp_path / "log", key) for _ in range(2)] == [1, 1]


def test_a_log_that_is_written_again_while_a_walk_waits(tmp_path: Path) -> None:
    """What a map says of a zone is what was read, also if other records of the same sizes lie there at its end."""
    files = [data for seed in (1, 2) for data in made(100, seed)[0][:1]]
    assert [len(data) for data in files] == [len(files[0])] * 2
    for wait in range(1, 20):
        folder = tmp_path / str(wait)
        log = log_of(folder, files[0], file_size=FILE)
        walk = LogWalk(log, max_rows=3, strict=False)
        walk.use_zones(Zones(ZoneCondition(10**12, None, ()), zone_bytes=ZONE))
        pieces = iter(walk)
        for _ in range(wait):
            next(pieces)
        put(folder / f"{0:020}", files[1])
        for _ in pieces:
            pass
        for key in ("k2-5", "k2-20", "k2-33", "k2-61"):
            assert keys_of(folder, key) == 1


def test_a_record_whose_properties_have_not_arrived(tmp_path: Path) -> None:
    """A reader of a live log may see zeros where the last record's properties will be: no map may rest on them."""
    live = StopFacts(clean=False, live=True)
    for count in range(40, 60):
        data = made(count)[0][0].rstrip(b"\0")
        log_of(tmp_path / str(count), data[: data.rindex(b"KEYS\x01")].ljust(FILE, b"\0"), file_size=FILE)
        assert keys_of(tmp_path / str(count), f"k1-{count - 1}", live) == 0
        put(tmp_path / str(count) / f"{0:020}", data)
        assert keys_of(tmp_path / str(count), f"k1-{count - 1}", live) == 1


def test_a_map_beyond_a_file_that_the_next_one_cuts_short(tmp_path: Path) -> None:
    """The part of a file after the next file's begin is not the log's; nothing of the next one is skipped for it."""
    files, _ = made(800)
    log = log_of(tmp_path / "log", *files, file_size=FILE)
    scan(log, Predicate(since=10**12))
    cut = next(at for at in offsets_of(log) if at > 2 * FILE + 6000) - 2 * FILE
    path = tmp_path / "log" / f"{2 * FILE + cut:020}"
    path.write_bytes(files[2][cut:])
    log = LogFiles.discover([str(tmp_path / "log")])
    for skip in skips_of(log, Predicate(since=10**12)):
        assert not skip.begin < 2 * FILE + cut < skip.end
    assert scan(log, Predicate(any_key=frozenset(["k1-301"])), strict=False)[0]


def test_a_log_that_was_cut_and_written_again(tmp_path: Path) -> None:
    """Other records lie where the map knows some: it must not be believed from there on."""
    files, _ = made(400)
    log = log_of(tmp_path / "log", *files, file_size=FILE)
    predicate = Predicate(any_key=frozenset(["k2-30"]))
    assert scan(log, predicate) == ([], 400)
    cut = len(files[1].rstrip(b"\0")) // 2
    first = next(at for at in offsets_of(log) if at >= FILE + cut)
    again, _ = made(40, seed=2, begin=first, time=5000)
    mixed = files[1][: first - FILE] + again[0]
    log = log_of(tmp_path / "log", files[0], mixed[:FILE], file_size=FILE)
    for path in sorted((tmp_path / "log").iterdir())[2:]:
        path.unlink()
    log = LogFiles.discover([str(tmp_path / "log")])
    expected = wanted_in(read(LogWalk(log)), predicate)
    assert len(expected) == 1
    assert scan(log, predicate)[0] == expected
    assert scan(log, predicate)[0] == expected


def offsets_of(log: LogFiles) -> list[int]:
    return [message.physical_offset for message in read(LogWalk(log))]


def test_another_log_at_the_same_path(tmp_path: Path) -> None:
    predicate = Predicate(any_key=frozenset(["k3-11", "k4-11"]))
    for seed in (3, 4):
        shutil.rmtree(tmp_path / "log", ignore_errors=True)
        log = log_of(tmp_path / "log", *made(300, seed)[0], file_size=FILE)
        expected = wanted_in(read(LogWalk(log)), predicate)
        assert len(expected) == 1
        assert scan(log, predicate) == (expected, 300)
        rows, records = scan(log, predicate)
        assert rows == expected and records < 100


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_whatever_happens_to_the_maps(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Flipped bits, cut maps, maps of other files, zeros: the rows are those of the log."""
    folder = tmp_path_factory.mktemp("hostile")
    log = log_of(folder / "log", *made(400, seed=data.draw(st.integers(1, 3)))[0], file_size=FILE)
    predicate = data.draw(st.sampled_from(PREDICATES))
    expected = wanted_in(read(LogWalk(log)), predicate)
    assert scan(log, predicate)[0] == expected
    maps = [path for file in log.files if (path := zone_maps.map_path(file)) is not None and path.exists()]
    assert maps
    before = {path: path.read_bytes() for path in maps}
    for path, sound in before.items():
        raw = bytearray(sound)
        match data.draw(st.sampled_from(["flip", "cut", "zeros", "other", "gone", "folder"])):
            case "flip":
                for at in data.draw(st.lists(st.integers(0, len(raw) - 1), min_size=1, max_size=20)):
                    raw[at] ^= 1 << data.draw(st.integers(0, 7))
            case "cut":
                del raw[data.draw(st.integers(0, len(raw))) :]
            case "zeros":
                at = data.draw(st.integers(0, len(raw)))
                raw[at:] = bytes(len(raw) - at)
            case "other":
                raw = bytearray(before[data.draw(st.sampled_from(maps))])
            case "gone":
                path.unlink()
                continue
            case "folder":
                path.unlink()
                path.mkdir()
                continue
        path.write_bytes(raw)
    for _ in range(2):
        assert scan(log, predicate)[0] == expected
    shutil.rmtree(folder)
    shutil.rmtree(maps[0].parent)


@pytest.mark.parametrize("strict", [True, False])
def test_every_golden_store(golden_store: Golden, strict: bool) -> None:
    log = LogFiles.discover([str(golden_store.path / "commitlog")])
    facts = read_facts(str(golden_store.path))
    messages = list(read(LogWalk(log, facts, strict=strict, report=Report())))
    times = sorted(message.store_timestamp for message in messages)
    middle = times[len(times) // 2]
    keys = frozenset(message.keys.split(" ")[0] for message in messages[-3:] if message.keys)
    for predicate in (
        Predicate(since=middle), Predicate(until=middle), Predicate(topics=frozenset([messages[0].topic])),
        Predicate(any_key=keys or frozenset(["none"])), Predicate(since=times[-1] + 1),
    ):  # fmt: skip
        expected = wanted_in(iter(messages), predicate)
        for _ in range(2):
            walk = LogWalk(log, facts, strict=strict, report=Report())
            wanted = ZoneCondition.of(predicate)
            walk.use_zones(None if wanted is None else Zones(wanted, zone_bytes=512))
            assert wanted_in(read(walk), predicate) == expected
            assert walk.verdict is not None


def test_a_clock_that_was_set_back(tmp_path: Path) -> None:
    """Zones are joined and skipped only while store times do not decrease; the walk judges the step itself."""
    first, end = made(100, time=9000)
    second, _ = made(100, seed=2, begin=end, time=1000)
    third, _ = made(100, seed=3, begin=end + len(second[0]), time=20_000)
    data = first[0] + second[0] + third[0]
    log = log_of(tmp_path / "log", data, file_size=len(data) + 1000)
    predicate = Predicate(since=20_010)
    expected = wanted_in(read(LogWalk(log)), predicate)
    assert expected
    for _ in range(3):
        report = Report()
        rows, _ = scan(log, predicate, report=report)
        assert rows == expected and report.note_counts["time_step"] == 1


def test_a_range_that_ends_within_a_skip(tmp_path: Path) -> None:
    files, _ = made(800)
    log = log_of(tmp_path / "log", *files, file_size=FILE)
    never = Predicate(since=10**12)
    scan(log, never)
    every = offsets_of(log)
    for begin, end in ((0, every[33]), (every[33], every[300]), (every[40], every[41]), (every[795], every[799])):
        walk = LogWalk(log, begin=begin, end=end)
        walk.use_zones(Zones(ZoneCondition(10**12, None, ()), zone_bytes=ZONE))
        assert wanted_in(read(walk), never) == [] and walk.position <= end


def test_no_map_without_checksums(tmp_path: Path, cache: Path) -> None:
    log = log_of(tmp_path / "log", *made(300)[0], file_size=FILE)
    scan(log, Predicate(since=5), check_crc=False)
    assert not cache.exists()
    scan(log, Predicate(since=5))
    assert cache.exists() and cache.stat().st_mode & 0o77 == 0


@pytest.mark.parametrize("off", ["off", "0", "No"])
def test_the_environment_forbids_maps(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, off: str) -> None:
    monkeypatch.setenv("FLINTMQ_ZONE_MAPS", off)
    log = log_of(tmp_path / "log", *made(300)[0], file_size=FILE)
    assert [scan(log, Predicate(since=10**12))[1] for _ in range(2)] == [300, 300]
    assert not cache.exists()


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    log = log_of(tmp_path / "log", *made(300)[0], file_size=FILE)
    assert [scan(log, Predicate(since=10**12))[1] for _ in range(2)] == [300, 300]


def test_a_cache_in_the_store_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The home of a broker may be its store."""
    log = log_of(tmp_path / "home" / "commitlog", *made(300)[0], file_size=FILE)
    for inside in ("home", "home/commitlog"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / inside))
        assert [scan(log, Predicate(since=10**12))[1] for _ in range(2)] == [300, 300]
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["commitlog"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "homes"))
    assert [scan(log, Predicate(since=10**12))[1] < 60 for _ in range(2)] == [False, True]


@pytest.mark.parametrize("planted", ["of another user", "writable by all", "pipe", "link to another's"])
def test_a_map_that_somebody_else_may_write(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    """It is not believed, however well it is made."""
    log = log_of(tmp_path / "log", *made(300)[0], file_size=FILE)
    never = Predicate(since=10**12)
    scan(log, never)
    assert scan(log, never)[1] < 60
    maps = [path for path in cache.rglob("*") if path.is_file()]
    user = os.geteuid()
    if "another" in planted:
        monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    for path in maps:
        if planted == "writable by all":
            path.chmod(0o666)
        elif planted == "pipe":
            path.unlink()
            os.mkfifo(path)
        elif planted == "link to another's":
            path.symlink_to(path.rename(tmp_path / path.name))
    assert scan(log, never)[1] == 300


def test_a_cache_of_another_user_gets_nothing(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With sudo HOME may be that of the caller, who could not use, nor delete, what root makes there."""
    log = log_of(tmp_path / "log", *made(300)[0], file_size=FILE)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    scan(log, Predicate(since=5))
    assert not cache.exists()
    cache.mkdir(parents=True)
    scan(log, Predicate(since=5))
    assert not list(cache.iterdir())


def test_only_maps_are_deleted(tmp_path: Path, cache: Path) -> None:
    """A link in the cache, or a file that somebody put there, is none of ours."""
    scan(log_of(tmp_path / "one", *made(300)[0], file_size=FILE), Predicate(since=5))
    (tmp_path / "mine").mkdir()
    (cache / ("a" * 32)).symlink_to(tmp_path / "mine")
    kept = [tmp_path / "mine" / ("0" * 20), cache / "notes" / "a", next(cache.iterdir()) / "readme"]
    (cache / "notes").mkdir()
    for path in kept:
        path.write_text("")
        os.utime(path, (0, 0))
    scan(log_of(tmp_path / "two", *made(300)[0], file_size=FILE), Predicate(since=5))
    assert all(path.exists() for path in kept)


@pytest.mark.parametrize("value", ["", "relative"])
def test_a_cache_of_no_use_is_that_of_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert zone_maps.cache_folder() == tmp_path / ".cache" / "flintmq" / "zones"
    monkeypatch.setenv("HOME", "nowhere")
    assert zone_maps.cache_folder() is None


def test_old_maps_are_deleted(tmp_path: Path, cache: Path) -> None:
    one = log_of(tmp_path / "one", *made(300)[0], file_size=FILE)
    scan(one, Predicate(since=5))
    old = [path for path in cache.rglob("*") if path.is_file()]
    assert old
    for path in old:
        os.utime(path, (0, 0))
    scan(log_of(tmp_path / "two", *made(300)[0], file_size=FILE), Predicate(since=5))
    assert not any(path.exists() for path in old) and not any(path.parent.exists() for path in old)
    assert any(path.is_file() for path in cache.rglob("*"))


def test_a_map_in_use_is_not_old(tmp_path: Path, cache: Path) -> None:
    log = log_of(tmp_path / "one", *made(300)[0], file_size=FILE)
    scan(log, Predicate(since=5))
    for path in cache.rglob("*"):
        os.utime(path, (0, 0))
    scan(log, Predicate(since=10**12))
    assert all(path.stat().st_mtime > 0 for path in cache.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "predicate",
    [
        Predicate(),
        Predicate(tags=frozenset("a")),
        Predicate(topic_pattern="T.*"),
        Predicate(topics=frozenset(["a\ufffd"])),
        Predicate(topics=frozenset(f"T{n}" for n in range(MOST_NAMES + 1))),
        Predicate(any_key=frozenset([""])),
        Predicate(any_key=frozenset(["\ud800"])),
        Predicate(queue_ids=frozenset([1])),
    ],
    ids=["all", "tags", "pattern", "malformed topic", "many topics", "no key", "lone surrogate", "queue id"],
)
def test_conditions_that_exclude_no_zone(predicate: Predicate) -> None:
    assert ZoneCondition.of(predicate) is None


def test_small_and_remote_logs_have_no_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(tmp_path / "log", *made(300)[0], file_size=FILE)
    predicate = Predicate(since=5)
    assert zones_for(log, predicate) is not None
    assert zones_for(replace(log, effects=type(log.effects)()), predicate) is None
    monkeypatch.setattr(zone_maps, "LEAST_LOG", 10 * FILE)
    assert zones_for(log, predicate) is None and skips_of(log, predicate) == []


def test_skips_for_planning(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", *made(800)[0], file_size=FILE)
    predicate = Predicate(any_key=frozenset(["k1-301"]))
    assert skips_of(log, predicate) == []
    scan(log, predicate)
    skips = skips_of(log, predicate)
    inside = [at for at in offsets_of(log) if any(skip.begin <= at < skip.end for skip in skips)]
    assert len(inside) > 700
    row = wanted_in(read(LogWalk(log)), predicate)
    assert len(row) == 1 and row[0] not in inside


def test_a_selector_ignores_the_hint(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", *made(50)[0], file_size=FILE)
    selector = Selector(Predicate(any_key=frozenset(["none"])))
    assert sum(selector.select(piece) for piece in LogWalk(log)) == 50
