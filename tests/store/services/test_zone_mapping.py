"""Zone maps of a running store's full files."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

import flintmq
from flintmq import Message, MessageStore
from flintmq.config.keys import StoreConfig
from flintmq.store.commitlog import zone_maps, zones
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.zones import skips_of
from flintmq.store.services import zone_mapping
from flintmq.store.services.zone_mapping import ZoneMapping
from tests.support.small_logs import full_file, log_of

NEVER = Predicate(since=10**15)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test, and zones for small logs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FLINTMQ_ZONE_MAPS")
    monkeypatch.setattr(zone_maps, "LEAST_LOG", 0)
    monkeypatch.setattr(zones, "ZONE_BYTES", 1024)
    return tmp_path / "cache" / "flintmq" / "zones"


def mapped(log: LogFiles) -> list[int]:
    """The numbers of the files that a scan could skip."""
    skips = skips_of(log, NEVER)
    return [
        number for number, file in enumerate(log.files) if any(file.start <= s.begin < file.start + 500 for s in skips)
    ]


def test_files_that_become_full_and_the_newest_that_was(tmp_path: Path) -> None:
    """A file a step; older ones of a large log are not read by its writer."""
    log = log_of(tmp_path / "log", *(full_file(4096 * n, 1000 * n)[0] for n in range(6)))
    files = 4
    mapping = ZoneMapping(lambda: replace(log, files=log.files[:files]))
    for expected in ([2], [2]):
        assert mapping.map_once() is False
        assert mapped(log) == expected
    files = 6
    for expected in ([2, 3], [2, 3, 4], [2, 3, 4]):
        assert mapping.map_once() is False
        assert mapped(log) == expected


def test_a_step_ends_when_the_store_stops(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", *(full_file(4096 * n, 1000 * n)[0] for n in range(2)))
    mapping = ZoneMapping(lambda: log)
    mapping.stopping = lambda: True
    mapping.map_once()
    assert mapped(log) == [0]  # the piece that was read is kept


def test_nothing_for_small_logs_and_where_maps_are_forbidden(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(tmp_path / "log", *(full_file(4096 * n, 1000 * n)[0] for n in range(3)))
    monkeypatch.setattr(zone_maps, "LEAST_LOG", 1 << 20)
    ZoneMapping(lambda: log).map_once()
    monkeypatch.setattr(zone_maps, "LEAST_LOG", 0)
    monkeypatch.setenv("FLINTMQ_ZONE_MAPS", "off")
    ZoneMapping(lambda: log).map_once()
    assert not cache.exists()


@pytest.mark.parametrize("home", ["a file", "of another user"])
def test_nothing_is_read_that_cannot_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    """A daemon may have no home of its own; its log is not read for nothing, again after each start."""
    log = log_of(tmp_path / "log", *(full_file(4096 * n, 1000 * n)[0] for n in range(3)))
    (tmp_path / "file").write_text("")
    if home == "a file":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    else:
        user = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    monkeypatch.setattr(zone_mapping, "LogWalk", None)
    assert ZoneMapping(lambda: log).map_once() is False


def test_a_running_store_maps_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store's directory gets nothing; a key of a full file is found by reading a part of it."""
    monkeypatch.setattr(zone_mapping, "INTERVAL_MS", 20)
    monkeypatch.setattr("flintmq.store.services.housekeeping.INTERVAL_MS", 20)
    config = StoreConfig.of(None, {"mappedFileSizeCommitLog": 65536})
    root = tmp_path / "store"
    with MessageStore(root, config) as store:
        for number in range(1000):
            store.put(Message("T", b"x" * 200, keys=f"k{number}"))
        log = LogFiles.discover([str(root / "commitlog")])
        assert len(log.files) >= 4
        limit = time.monotonic() + 20
        full = list(range(len(log.files) - 2))  # the last one or two are in use
        while mapped(log)[: len(full)] != full:
            assert time.monotonic() < limit
            time.sleep(0.02)
        assert not [path for path in root.rglob("*") if "zone" in path.name]
        skipped = sum(skip.end - skip.begin for skip in skips_of(log, Predicate(any_key=frozenset(["k7"]))))
        assert skipped > 0.8 * len(full) * 65536
        assert [row["keys"] for row in flintmq.scan_arrow(root).read_all().to_pylist() if row["keys"] == "k7"] == ["k7"]
