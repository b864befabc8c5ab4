"""How far queues and index are on disk, as the mark says it: what a start reads then, and that no key is missed."""

import os
import random
import shutil
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.format import flintmq_mark, index
from flintmq.message import Message
from flintmq.storage.files.filesystem import REAL
from flintmq.store.commitlog.end_of_log import read_facts
from flintmq.store.index.durable_point import DispatchPoint, IndexMark
from flintmq.store.index.reader import discover
from flintmq.store.message_store import MessageStore
from flintmq.testing import damage
from tests.support.crashed import Clock
from tests.support.engine import (
    FILE_SIZE,
    KEYS,
    check_derived,
    index_items,
    message,
    open_small,
    put_all,
    put_dispatched,
    records,
    stored,
    tree,
)

# No thread flushes, nor writes a newer mark than the test did: the index that it keeps aside would be older than that.
NEVER = {
    "flushIntervalCommitLog": 3_600_000, "flushCommitLogThoroughInterval": 3_600_000,
    "flushIntervalConsumeQueue": 3_600_000,
}  # fmt: skip
STOPS = ("kill", "power cut")


def put_plain(store: MessageStore, count: int, size: int = 200) -> None:
    """Messages without keys."""
    for _ in range(count):
        assert store.put(Message("T", bytes(size))).outcome.value == "ok"


def marked(store: MessageStore) -> None:
    """Everything put so far is flushed and dispatched, and the mark says so."""
    store.wait_dispatched(60)
    store.flush()
    store._parts.checkpointer.write()


def left(store: MessageStore, to: Path, stop: str) -> Path:
    """A copy of what a store that stops now leaves behind."""
    store.wait_dispatched(60)
    shutil.copytree(store.root, to)
    if stop == "power cut":
        process, boot = (to / "abort").read_text().split()
        (to / "abort").write_text(f"{process}\n{boot[::-1]}")
    elif stop == "java":
        (to / "abort").write_text("4711")
    return to


def again(store: MessageStore) -> int:
    """How many records a start dispatched again."""
    [line] = [line for line in store.recovered.decisions if "dispatched again" in line]
    return int(line.split()[0])


def newest_index(root: Path) -> Path:
    return sorted((root / "index").iterdir())[-1]


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("keys", ["none", "the first", "the first forty"])
def test_a_log_without_keys_is_not_read_again_after_an_unclean_stop(tmp_path: Path, stop: str, keys: str):
    """Forty keys are more than one index file has room for."""
    with open_small(tmp_path / "s", Clock(), **NEVER) as store:
        put_all(store, {"none": 0, "the first": 1, "the first forty": 40}[keys])
        put_plain(store, 200)
        marked(store)
        put_plain(store, 100)
        marked(store)
        put_plain(store, 5)
        root = left(store, tmp_path / "left", stop)
    for most in (5, FILE_SIZE // 200):  # a clean start looks at the last file
        with open_small(root, Clock()) as store:
            assert again(store) <= most
            assert len(store.query("T", "k0")) == (keys != "none")
            put_all(store, 1, first=77)
            assert len(store.query("T", "k77")) >= 1
        check_derived(root)


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("seed", range(6))
def test_d2_an_index_that_was_changed_after_the_mark_comes_back_as_it_was(tmp_path: Path, stop: str, seed: int):
    """After the mark come more keys, into the same file and the next ones. After a power cut each sector of the index
    may be of any moment since: slots lead to items that never arrived, items come after those that did not."""
    chance = random.Random(seed)
    with open_small(tmp_path / "s", Clock(), **NEVER) as store:
        put_all(store, chance.randrange(1, 60))
        marked(store)
        if chance.random() < 0.5:
            put_plain(store, 30)
            marked(store)
        before = tree(store.root, "index")
        put_all(store, chance.randrange(1, 60), first=100)
        if chance.random() < 0.5:
            store.flush()
        root = left(store, tmp_path / "left", stop)
    if stop == "power cut":
        for path in sorted((root / "index").iterdir()):
            old = before.get(f"index/{path.name}", bytes(path.stat().st_size))
            new = bytearray(path.read_bytes())
            for at in range(0, len(new), 512):  # the files have 700 bytes: tear finer than a disk does, too
                for place in range(at, min(at + 512, len(new)), chance.choice((4, 20, 512))):
                    if chance.random() < 0.5:
                        new[place : place + 4] = old[place : place + 4]
            path.write_bytes(new)
    open_small(root, Clock()).close()
    check_derived(root)
    assert index_items(root) == index_items(tmp_path / "s")
    wanted = tree(tmp_path / "s", "index")
    assert {n: d for n, d in tree(root, "index").items() if any(d)} == {n: d for n, d in wanted.items() if any(d)}


@pytest.mark.parametrize("how", ["gone", "another", "shorter", "the same name"])
def test_a_mark_that_is_stale_hides_no_key(tmp_path: Path, how: str):
    """What else may have become of the index while the mark stayed: RocketMQ removes it after an unclean stop (D2) and
    enters only the keys of the last log files again."""
    with open_small(tmp_path / "s", Clock(), **NEVER) as store:
        put_plain(store, 10)
        put_all(store, 20)
        put_plain(store, 100)
        marked(store)
        root = left(store, tmp_path / "left", "kill")
    newest = newest_index(root)
    if how == "gone":
        shutil.rmtree(root / "index")
    elif how == "shorter":
        newest.write_bytes(newest.read_bytes()[:60])
    else:
        stored(tmp_path / "other", 3, topic="U", effects=Clock())
        other_file = newest_index(tmp_path / "other")
        newest.unlink()
        shutil.copy(other_file, newest if how == "the same name" else root / "index" / "20991231235959999")
        damage.zero(newest if how == "the same name" else root / "index" / "20991231235959999", 0, 72 + 20 * 32)
    with open_small(root, Clock()) as store:
        assert again(store) == 130, "the whole log"
        assert [len(store.query("T", f"k{n}")) for n in range(20)] == [1] * 20
        marked(store)
        root = left(store, tmp_path / "second", "kill")
    with open_small(root, Clock()) as store:
        assert again(store) == 0, "now the mark tells again"
        assert [len(store.query("T", f"k{n}")) for n in range(20)] == [1] * 20


def test_after_rocketmq_neither_queues_nor_index_are_believed_to_be_as_the_mark_says(tmp_path: Path):
    """RocketMQ that was killed before it wrote a checkpoint leaves the mark valid, and its own `abort`."""
    with open_small(tmp_path / "s", Clock(), **NEVER) as store:
        put_plain(store, 100)
        marked(store)
        facts = read_facts(store.root)
        assert facts.mark.dispatched == facts.mark.flushed == store._parts.log.end and facts.mark.indexed is not None
        root = left(store, tmp_path / "left", "java")
    facts = read_facts(str(root))
    assert facts.mark.flushed is not None and (facts.mark.dispatched, facts.mark.indexed) == (-1, None)
    with open_small(root, Clock()) as store:
        assert again(store) == 100


def test_a_clean_start_whose_index_no_mark_proves_makes_none(tmp_path: Path):
    """As a store of RocketMQ, which may have lost keys before it stopped cleanly: an unclean start reads it all."""
    with open_small(tmp_path / "s", Clock()) as store:
        put_plain(store, 60)
    (tmp_path / "s" / "flintmq.mark").unlink()
    with open_small(tmp_path / "s", Clock(), **NEVER) as store:
        put_plain(store, 5)
        marked(store)
        assert read_facts(store.root).mark.indexed is None
        root = left(store, tmp_path / "left", "kill")
    with open_small(root, Clock()) as store:
        assert again(store) == 65
        marked(store)
        assert read_facts(store.root).mark.indexed is not None


def test_a_store_that_ran_without_an_index_makes_no_mark_of_it(tmp_path: Path):
    root = tmp_path / "s"
    with open_small(root, Clock()) as store:
        put_plain(store, 20)
    with open_small(root, Clock(), messageIndexEnable="false", **NEVER) as store:
        put_all(store, 20)
        marked(store)
        left(store, tmp_path / "left", "kill")
    with open_small(tmp_path / "left", Clock()) as store:
        assert [len(store.query("T", f"k{n}")) for n in range(20)] == [1] * 20
    check_derived(tmp_path / "left")


def test_the_mark_is_never_ahead_of_the_log_that_is_on_disk(tmp_path: Path):
    with open_small(tmp_path / "s", Clock(), **NEVER) as store:
        put_all(store, 10)
        marked(store)
        end = store._parts.log.end
        put_dispatched(store, 10, first=10)
        store._parts.checkpointer.write()
        facts = read_facts(store.root)
        assert facts.mark.flushed == facts.mark.dispatched == end < store._parts.log.end
        assert facts.mark.indexed is not None and facts.mark.indexed.offset <= end


def test_queues_of_a_power_cut_are_written_again_from_the_mark_on(tmp_path: Path):
    """D10: units after the mark never arrived, in the middle of a queue file too."""
    with open_small(tmp_path / "s", Clock(), **NEVER) as store:
        put_all(store, 12)
        marked(store)
        put_all(store, 20, first=12)
        store.flush()
        root = left(store, tmp_path / "left", "power cut")
    damage.zero(root / "consumequeue" / "T" / "0" / f"{200:020d}", 2 * 20, 100)
    with open_small(root, Clock()) as store:
        assert again(store) == 20
    check_derived(root)


def sync_count(effects: Clock, folder: Path) -> int:
    return sum(name == "sync" and os.path.dirname(path) == str(folder) for name, path in effects.calls)


def test_an_index_with_new_items_is_synced_once_for_a_file_of_log(tmp_path: Path):
    """A sync writes the pages of every slot in use: not once a second."""
    effects = Clock()
    (tmp_path / "index").mkdir()
    path = tmp_path / "index" / "20231114221320555"
    path.write_bytes(bytes(index.file_size(8, 32)))
    mark = IndexMark(str(tmp_path / "index"), StoreConfig.from_keys(KEYS), effects)

    def header(count: int) -> bytes:
        return index.HEADER.pack(index.Header(1, 2, 3, 4, 5, count))

    mark.settle(DispatchPoint(50), 50)
    assert mark.indexed is None, "there is no index, or none that is complete"
    for position, count, syncs, offset in ((100, 2, 1, 100), (1000, 2, 1, 1000), (2000, 3, 1, 1000), (5095, 3, 1, 1000),
                                           (5096, 3, 2, 5096), (9999, 3, 2, 9999)):  # fmt: skip
        mark.settle(DispatchPoint(position, str(path), header(count)), 1 << 40)
        assert (sync_count(effects, path.parent), mark.indexed.offset) == (syncs, offset), position
    mark.settle(DispatchPoint(10_000, str(path), header(4)), 9_999, closing=True)
    assert mark.indexed == flintmq_mark.Indexed(9_999, 20231114221320555, index.Header(1, 2, 3, 4, 5, 4))
    path.unlink()
    mark.settle(DispatchPoint(90_000, str(path), header(5)), 1 << 40)
    assert mark.indexed.offset == 9_999, "the file has expired: nothing new can be said"


@pytest.mark.parametrize(
    ("change", "stands"),
    [({}, True), ({"index_count": 4}, True), ({"index_count": 99}, False), ({"begin_timestamp": 7}, False),
     ({"begin_physical_offset": 7}, False), ({"end_physical_offset": 7}, False), ({"end_timestamp": 7}, True)],
)  # fmt: skip
def test_what_the_file_must_have_for_the_mark_to_count(tmp_path: Path, change: dict[str, int], stands: bool):
    stored(tmp_path, 6, effects=Clock())
    config = StoreConfig.from_keys(KEYS)
    found = discover(str(tmp_path), config, REAL)
    facts = read_facts(str(tmp_path))
    assert facts.mark.indexed is not None and facts.mark.indexed.header.next_item == 7
    if "index_count" in change and stands:  # the file went on since
        change = change | {"end_physical_offset": records(tmp_path)[2].physical_offset}
    mark = IndexMark(str(tmp_path / "index"), config, REAL)
    said = facts.mark.indexed._replace(header=facts.mark.indexed.header._replace(**change))
    mark.prove(said, found)
    assert mark.indexed == (said if stands else None)
    mark.prove(facts.mark.indexed._replace(name=1), found)
    assert mark.indexed is None


def test_a_message_is_found_by_its_key_from_the_first_on(tmp_path: Path):
    """Both stops, the mark being made while everything goes on."""
    with open_small(tmp_path / "s") as store:
        for n in range(300):
            store.put(message(n) if n % 50 == 0 else Message("T", bytes(100)))
            if n % 40 == 0:
                store._parts.checkpointer.write()
        roots = [left(store, tmp_path / stop, stop) for stop in STOPS]
    for root in roots:
        with open_small(root) as store:
            assert [len(store.query("T", f"k{n}")) for n in range(0, 300, 50)] == [1] * 6
        check_derived(root)
