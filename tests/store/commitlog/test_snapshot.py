import os
import shutil
import struct

import pytest

from flintmq import Message, MessageStore
from flintmq.config.keys import StoreConfig
from flintmq.errors import NotAStoreError
from flintmq.storage.files.filesystem import REAL
from flintmq.store.commitlog import resync
from flintmq.store.commitlog.end_of_log import Verdict
from flintmq.store.commitlog.records import record_at
from flintmq.store.commitlog.snapshot import Snapshot, list_log
from tests.support.makers import patch

PLAIN = StoreConfig()


def last_of(store):
    """Log offset behind the last record that a scan gives."""
    row = store.live[-1]
    return row["physical_offset"] + row["size"]


def test_the_end_of_every_log(golden_store):
    found = Snapshot(str(golden_store.path), PLAIN)
    beyond = golden_store.expect.get("beyond", 0)
    assert (found.end == last_of(golden_store)) == (beyond == 0)
    assert found.facts.clean == (golden_store.name not in ("crash", "crash540", "crash550", "crash-keys"))
    again = found.again()
    assert (again.end, again.log) == (found.end, found.log)


def test_stale_records_behind_the_end_do_not_count(golden):
    store = golden("stale")
    found = Snapshot(str(store.path), PLAIN)
    live, stale = store.live[-1], 37_694
    assert found.record(live["physical_offset"]).size == live["size"]
    assert record_at(found.log, stale) is not None and found.record(stale) is None
    # Nor when the search for the end goes on from an earlier snapshot.
    assert found.again().end == found.end == live["physical_offset"] + live["size"]


def test_records_below_the_last_file_need_no_search_for_the_end(golden, monkeypatch):
    store = golden("basic")
    found = Snapshot(str(store.path), PLAIN)
    monkeypatch.setattr("flintmq.store.commitlog.snapshot.find_end", lambda *_, **__: pytest.fail("searched"))
    assert found.record(store.rows[0]["physical_offset"]).topic == store.rows[0]["topic"]
    assert found.record(1) is None


def test_a_log_that_grew(golden, tmp_path):
    store = golden("basic")
    copy = store.copy(tmp_path)
    cut, whole = store.rows[2500]["physical_offset"], (copy / "commitlog" / f"{655360:020d}").read_bytes()
    assert cut > 655360 - 131072
    file = copy / "commitlog" / f"{655360:020d}"
    row = next(row for row in store.rows if row["physical_offset"] > 700_000)
    at = row["physical_offset"] - 655360
    file.write_bytes(whole[:at] + bytes(len(whole) - at))
    before = Snapshot(str(copy), PLAIN)
    assert before.end == row["physical_offset"]
    file.write_bytes(whole)
    assert before.again().end == last_of(store)
    file.write_bytes(bytes(len(whole)))  # what was known is gone: the search begins anew
    assert before.again().end <= 655360


@pytest.mark.parametrize(
    ("times", "start"),
    [
        ((0, 0), 0),
        ((None, None), 0),
        (("last", "last"), "last file"),
        (("last", "first"), 0),
    ],
)
def test_from_where_queues_may_lack_units_after_a_crash(golden, tmp_path, times, start):
    copy = golden("crash").copy(tmp_path)
    rows = golden("crash").rows
    moments = {"first": rows[0]["store_timestamp"], "last": rows[-1]["store_timestamp"] + 3000, 0: 0}
    if times == (None, None):
        (copy / "checkpoint").unlink()
    else:
        (copy / "checkpoint").write_bytes(struct.pack(">qq", *(moments[t] for t in times)).ljust(4096, b"\0"))
    files = [file for file in Snapshot(str(copy), PLAIN).log.files if file.start <= rows[-1]["physical_offset"]]
    assert Snapshot(str(copy), PLAIN).replay_start == (files[-1].start if start == "last file" else start)
    (copy / "abort").unlink()
    assert Snapshot(str(copy), PLAIN).replay_start is None


def test_a_log_over_several_directories(golden, tmp_path):
    store = golden("basic")
    root, folders = tmp_path / "store", [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    shutil.copytree(store.path, root, ignore=shutil.ignore_patterns("commitlog"))
    for folder in folders:
        folder.mkdir()
    for number, file in enumerate(sorted((store.path / "commitlog").iterdir())):
        shutil.copy(file, folders[number % 3])
    config = StoreConfig.from_keys(
        {
            "storePathCommitLog": f"{folders[0]},{folders[1]}",
            "readOnlyCommitLogStorePaths": os.fspath(folders[2]),
        }
    )
    found = Snapshot(str(root), config)
    assert [file.start for file in found.log.files] == [131072 * n for n in range(len(found.log.files))]
    assert {os.path.dirname(file.path) for file in found.log.files} == set(map(str, folders))
    assert found.end == last_of(store)
    assert found.record(store.rows[1500]["physical_offset"]) is not None


def test_given_keys_reach_the_log(golden):
    root = str(golden("basic").path)
    log = list_log(root, StoreConfig.from_keys({"mappedFileSizeCommitLog": 131072, "maxMessageSize": 100 << 20}))
    assert (log.file_size, log.max_record) == (131072, (100 << 20) + 65536)
    assert list_log(root, PLAIN).file_size == 131072


def test_an_empty_log(tmp_path):
    (tmp_path / "commitlog").mkdir()
    found = Snapshot(str(tmp_path), PLAIN)
    assert (found.end, found.record(0), found.broker.topics, found.replay_start) == (0, None, {}, None)


def test_opening_a_path_checks_it_first(golden, tmp_path):
    store = golden("basic")
    found = Snapshot.open(store.path)
    assert (found.root, found.config, found.effects) == (str(store.path), PLAIN, REAL)
    assert (found.end, found.facts) == (last_of(store), Snapshot(str(store.path), PLAIN).facts)
    with pytest.raises(NotAStoreError, match="does not exist"):
        Snapshot.open(tmp_path / "nothing")
    with pytest.raises(NotAStoreError, match="commitlog"):
        Snapshot.open(tmp_path)


def end_of(result):
    return result.physical_offset + result.size


class Searches:
    """Counts the searches for a record after a stop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, search = 0, resync._Search.run

        def counted(searching, position, stop):
            self.count += position > 0  # at 0 it looks for the last file with records
            return search(searching, position, stop)

        monkeypatch.setattr(resync._Search, "run", counted)


def test_later_looks_at_a_live_store_do_not_search_the_zeros_again(tmp_path, monkeypatch):
    """Its writer has allocated tens of MiB of zeros, which a search reads."""
    searches = Searches(monkeypatch)
    with MessageStore(tmp_path / "store") as store:
        end = end_of(store.put(Message("T", b"x" * 100)))
        found = Snapshot(str(tmp_path / "store"), PLAIN)
        for _ in range(3):
            assert found.facts.live and found.end == end and found.log_end.verdict is Verdict.END
            assert searches.count == 1
            end = end_of(store.put(Message("T", b"x" * 100)))
            found = found.again()
        unused = found.again()
        assert unused.again().end == end and searches.count == 1, "what is known passes on through one that never asked"
        assert Snapshot(str(tmp_path / "store"), PLAIN).end == end and searches.count == 2
    again = found.again()
    assert not again.facts.live and again.end == end and searches.count == 3


def test_a_live_store_that_was_made_anew_is_searched_again(tmp_path, monkeypatch):
    searches = Searches(monkeypatch)
    with MessageStore(tmp_path / "store") as store:
        for _ in range(3):
            store.put(Message("T", b"x" * 100))
        found = Snapshot(str(tmp_path / "store"), PLAIN)
        assert found.end > 0 and searches.count == 1
    shutil.rmtree(tmp_path / "store")
    with MessageStore(tmp_path / "store") as store:
        end = end_of(store.put(Message("Another", b"y" * 100)))
        assert found.again().end == end and searches.count == 2


def test_damage_is_seen_when_a_live_store_is_looked_at_again(tmp_path, monkeypatch):
    """Only zeros at the end are known; a record that is no record is judged each time."""
    with MessageStore(tmp_path / "store") as store:
        store.put(Message("T", b"x" * 100))
        found = Snapshot(str(tmp_path / "store"), PLAIN)
        end = found.end
        path = tmp_path / "store" / "commitlog" / f"{0:020d}"
        patch(path, end, b"no record")
        assert found.again().log_end.verdict is Verdict.TORN_TAIL
        patch(path, end, bytes(9))
        assert found.again().log_end.verdict is Verdict.END


def test_records_that_were_flushed_need_no_search_for_the_end(tmp_path, monkeypatch):
    with MessageStore(tmp_path / "store") as store:
        places = [store.put(Message("T", b"x" * 100)).physical_offset for _ in range(3)]
    monkeypatch.setattr("flintmq.store.commitlog.snapshot.find_end", lambda *_, **__: pytest.fail("searched"))
    found = Snapshot(str(tmp_path / "store"), PLAIN)
    assert [found.record(place).physical_offset for place in places] == places
