"""The key index of a running store: continued, cut and filled up again to what one that never stopped holds."""

import mmap
import os
import random
import shutil
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.format import checkpoint, index
from flintmq.format.flintmq_mark import Indexed
from flintmq.storage.files.filesystem import REAL
from flintmq.store.commitlog.end_of_log import read_facts
from flintmq.store.index.index_service import KeyIndex, known_whole
from flintmq.store.index.reader import discover
from flintmq.store.index.writer import IndexFileWriter
from flintmq.store.layout.small_files import StoreFiles
from flintmq.store.message_store import MessageStore
from flintmq.store.recovery.apply import Recovered, Recovery
from flintmq.testing import damage
from tests.store.index.test_durable_point import NEVER, again, left, marked, newest_index, put_plain
from tests.support.crashed import BEGIN as BEGIN
from tests.support.crashed import Clock
from tests.support.engine import (
    FILE_SIZE,
    KEYS,
    check_derived,
    index_items,
    open_small,
    put_all,
    put_dispatched,
    records,
    stored,
    tree,
)
from tests.support.faults import Faulty, unclean
from tests.support.makers import patch

SLOTS, ITEMS = 8, 32
CONFIG = StoreConfig.from_keys({"maxHashSlotNum": SLOTS, "maxIndexNum": ITEMS})

Keys = list[tuple[int, int, int]]  # hash, log offset, store time


def keys_of(records: int, seed: int = 1) -> Keys:
    """One to three keys a record, of few hashes, so that chains are long."""
    chance = random.Random(seed)
    return [
        (chance.randrange(20), 100 * number, BEGIN + 700 * number)
        for number in range(1, records + 1)
        for _ in range(chance.randrange(1, 4))
    ]


def insert(found: KeyIndex, keys: Keys) -> None:
    hashes, offsets, times = (array(code, column) for code, column in zip("iqq", zip(*keys, strict=True), strict=True))
    found.insert(hashes, offsets, times, len(keys))
    found.check_invariants()


def opened(root: Path, log_end: int = 1 << 60) -> KeyIndex:
    found = KeyIndex(str(root), CONFIG, REAL)
    found.make_folder()
    found.recover(log_end, StoreFiles(str(root), REAL))
    found.check_invariants()
    return found


def never_stopped(root: Path, keys: Keys) -> dict[str, bytes]:
    """The files of an index that took these keys in one life."""
    found = opened(root)
    if keys:
        insert(found, keys)
    found.close()
    return files(root)


def files(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((root / "index").iterdir())}


def test_items_by_hand(tmp_path: Path):
    found = opened(tmp_path)
    assert found.end_offset == -1
    insert(found, [(3, 100, BEGIN), (11, 100, BEGIN), (4, 250, BEGIN + 2500)])
    assert found.end_offset == 250
    found.close()
    [data] = files(tmp_path).values()
    header = b"".join(n.to_bytes(8, "big") for n in (BEGIN, BEGIN + 2500, 100, 250)) + bytes([0, 0, 0, 2, 0, 0, 0, 4])
    slots = b"".join(n.to_bytes(4, "big") for n in (0, 0, 0, 2, 3, 0, 0, 0))
    items = [(0, 0, 0, 0), (3, 100, 0, 0), (11, 100, 0, 1), (4, 250, 2, 0)]
    body = b"".join(
        h.to_bytes(4, "big") + o.to_bytes(8, "big") + s.to_bytes(4, "big") + p.to_bytes(4, "big")
        for h, o, s, p in items
    )
    assert data == (header + slots + body).ljust(40 + 4 * SLOTS + 20 * ITEMS, b"\0")


def test_full_files_are_followed_by_new_ones(tmp_path: Path):
    keys = keys_of(60)
    assert len(never_stopped(tmp_path, keys)) == -(-len(keys) // (ITEMS - 1))
    assert index_items(tmp_path) == [(h, o) for h, o, _ in keys]


@pytest.mark.parametrize("stops", [1, 7, 30, 31, 32, 59])
def test_an_index_that_was_stopped_goes_on_as_if_it_had_not(tmp_path: Path, stops: int):
    keys = keys_of(60)
    whole = never_stopped(tmp_path / "whole", keys)
    cut = next(n for n, key in enumerate(keys) if key[1] > 100 * stops)
    found = opened(tmp_path / "stopped")
    insert(found, keys[:cut])
    found.close()
    found = opened(tmp_path / "stopped")
    assert found.end_offset <= keys[cut - 1][1]
    insert(found, [key for key in keys if key[1] > found.end_offset])
    found.close()
    assert files(tmp_path / "stopped") == whole


def test_d2_keys_behind_a_cut_are_taken_back_and_all_others_stay(tmp_path: Path):
    """Every cut of the log, in a middle file too: what is left is what a log of that length gives."""
    keys = keys_of(60)
    never_stopped(tmp_path / "origin", keys)
    for log_end in range(50, 6200, 100):
        root = tmp_path / f"cut{log_end}"
        (root / "index").mkdir(parents=True)
        for name, data in files(tmp_path / "origin").items():
            (root / "index" / name).write_bytes(data)
        kept = [key for key in keys if key[1] < log_end]
        found = opened(root, log_end)
        assert found.end_offset < log_end
        again = [key for key in kept if key[1] > found.end_offset]
        if again:
            insert(found, again)
        found.close()
        wanted = never_stopped(tmp_path / f"wanted{log_end}", kept)
        assert {n: d for n, d in files(root).items() if any(d)} == {n: d for n, d in wanted.items() if any(d)}, log_end


def test_the_last_record_keeps_its_keys_where_retention_has_taken_it(tmp_path: Path):
    """Found by the state machine: its keys were taken back, to be entered again from a log that had it no more."""
    keys = keys_of(20)
    before = never_stopped(tmp_path, keys)
    for begin in (keys[-1][1], keys[-1][1] + 1):  # its last record is the log's first, and is gone
        found = KeyIndex(str(tmp_path), CONFIG, REAL)
        recovered = found.recover(1 << 60, StoreFiles(str(tmp_path), REAL), begin)
        assert recovered.removed_from == (None if begin > keys[-1][1] else keys[-1][1])
        if recovered.removed_from is not None:
            insert(found, keys)
        found.close()
        assert files(tmp_path) == before


def test_keys_that_are_in_are_not_entered_twice(tmp_path: Path):
    keys = keys_of(8)
    found = opened(tmp_path)
    insert(found, keys)
    insert(found, keys[-3:])
    insert(found, keys)
    found.close()
    assert index_items(tmp_path) == [(h, o) for h, o, _ in keys]


@pytest.mark.parametrize("seed", range(30))
def test_a_kill_amid_an_insertion_costs_nothing(tmp_path: Path, seed: int):
    """The map's bytes as a kill may leave them: the item, its slot and the header written, or some of them."""
    keys = keys_of(9, seed)
    whole = never_stopped(tmp_path / "whole", keys)
    [(name, after)] = whole.items()
    [before] = never_stopped(tmp_path / "before", keys[:-1]).values()
    chance = random.Random(seed)
    half = bytearray(before)
    number = len(keys)
    item = index.item_position(number, SLOTS)
    slot = index.slot_position(keys[-1][0] % SLOTS)
    parts = {"item": slice(item, item + 20), "slot": slice(slot, slot + 4), "header": slice(0, 40)}
    for part in list(parts)[: chance.randrange(4)]:  # in the order of stores: item, slot, header
        half[parts[part]] = after[parts[part]]
    folder = tmp_path / "killed" / "index"
    folder.mkdir(parents=True)
    (folder / name).write_bytes(half)
    found = opened(tmp_path / "killed")
    insert(found, [key for key in keys if key[1] > found.end_offset])
    found.close()
    assert files(tmp_path / "killed") == whole


def test_a_kill_amid_the_creation_of_a_file_leaves_a_name_that_can_be_used(tmp_path: Path):
    whole = never_stopped(tmp_path / "whole", keys_of(60))
    (tmp_path / "killed" / "index").mkdir(parents=True)
    for name in whole:
        (tmp_path / "killed" / "index" / name).touch()
    assert never_stopped(tmp_path / "killed", keys_of(60)) == whole


@pytest.mark.parametrize("call", ["create", "allocate", "map_write"])
def test_d28_a_file_that_can_not_be_made_is_not_tried_without_end(tmp_path: Path, call: str):
    """Upstream makes another half file with every key. Here dispatch stops in words, and the next start goes on."""
    effects = Faulty()
    store = open_small(tmp_path, effects)
    put_dispatched(store, 10)
    effects.refuse(call, "/index/")
    put_all(store, 60, first=10)
    assert not store.wait_dispatched(60) and isinstance(store._parts.dispatch.stopped_at, OSError)
    assert len(list((tmp_path / "index").iterdir())) <= 2
    effects.rules.clear()
    store.close()
    open_small(tmp_path).close()
    check_derived(tmp_path)


def test_d2_an_index_that_a_power_cut_may_have_spoilt_is_made_anew(tmp_path: Path):
    """After another boot than that of `abort` no unsynced file is trusted; after a mere kill every byte is there."""
    stored(tmp_path, 100)
    first, *_, last = sorted((tmp_path / "index").iterdir())
    assert len(list((tmp_path / "index").iterdir())) == 4
    damage.zero(last, 40 + 4 * 8 + 20, 60)  # items that never arrived, while the count did
    damage.flip(last, 47)
    (tmp_path / "abort").write_text(f"{os.getpid()}\nanother boot")
    kept = first.stat().st_ino
    with open_small(tmp_path) as store:
        assert [m.keys for m in store.query("T", "k99")] == ["k99"]
        assert any("index files that were not synced" in line for line in store.recovered.decisions)
    check_derived(tmp_path)
    assert first.stat().st_ino == kept, "what the checkpoint says is on disk stays"


def test_full_files_are_synced_and_the_checkpoint_says_so(tmp_path: Path):
    effects = Faulty()
    with open_small(tmp_path, effects) as store:
        put_dispatched(store, 100)
        store._parts.checkpointer.write()
        full = sorted((tmp_path / "index").iterdir())[:-1]
        assert [effects.count("sync", str(path)) for path in full] == [1, 1, 1]
        time = checkpoint.decode((tmp_path / "checkpoint").read_bytes()).index_timestamp
        assert time == index.HEADER.unpack(full[-1].read_bytes()[:40]).end_timestamp > 0


def test_an_empty_file_is_taken_away(tmp_path: Path):
    never_stopped(tmp_path, keys_of(2))
    (tmp_path / "index" / "20300101000000000").write_bytes(bytes(40 + 4 * SLOTS + 20 * ITEMS))
    found = opened(tmp_path)
    assert found.end_offset >= 0
    found.close()
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize("stores", range(6))
@pytest.mark.parametrize("stops", [1, 2, 5, 12])
def test_a_kill_between_any_two_stores_of_an_insertion(tmp_path: Path, stops: int, stores: int):
    """Hash, offset, seconds, number before, slot: so many of them came into the file; the count did not."""
    keys = keys_of(20, seed=3)
    whole = never_stopped(tmp_path / "whole", keys)
    cut = next(n for n, key in enumerate(keys) if key[1] > 100 * stops)
    found = opened(tmp_path / "killed")
    insert(found, keys[:cut])
    found.close()
    [path] = (tmp_path / "killed" / "index").iterdir()
    data, number, (hash_, offset, time) = bytearray(path.read_bytes()), cut + 1, keys[cut]
    slot = index.slot_position(hash_ % SLOTS)
    before = index.SLOT.unpack(data, slot).item
    at = index.item_position(number, SLOTS)
    parts = [
        (at, hash_.to_bytes(4, "big")),
        (at + 4, offset.to_bytes(8, "big")),
        (at + 12, ((time - keys[0][2]) // 1000).to_bytes(4, "big")),
        (at + 16, before.to_bytes(4, "big")),
        (slot, number.to_bytes(4, "big")),
    ]
    for place, part in parts[:stores]:
        data[place : place + len(part)] = part
    path.write_bytes(data)
    found = opened(tmp_path / "killed")
    insert(found, [key for key in keys if key[1] > found.end_offset])
    found.close()
    assert list(files(tmp_path / "killed").values()) == list(whole.values())


class _Killed(BaseException):
    """No code of the engine goes on after it."""


class _MortalMap:
    """A map that takes so many stores; at the next one the process is killed."""

    def __init__(self, whole: mmap.mmap, stores: int) -> None:
        self.whole, self.left = whole, stores

    def __getitem__(self, part: slice) -> bytes:
        return self.whole[part]

    def __setitem__(self, part: slice, data: bytes) -> None:
        if not self.left:
            raise _Killed
        self.left -= 1
        self.whole[part] = data


@pytest.mark.parametrize("log_end", [1050, 1150, 1250])
def test_a_kill_between_any_two_stores_of_a_removal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log_end: int
) -> None:
    """Of a log whose first records have expired. The header counted items that were zero: the index went on from
    offset 0, and later keys were entered twice."""
    keys, log_begin, kills = keys_of(12, seed=3), 100, 0
    [(name, before)] = never_stopped(tmp_path / "origin", keys).items()
    whole = never_stopped(tmp_path / "whole", [key for key in keys if key[1] < log_end])
    remove = KeyIndex._remove_items
    for stores in range(100):
        root = tmp_path / str(stores)
        (root / "index").mkdir(parents=True)
        (root / "index" / name).write_bytes(before)

        def killed(writer: IndexFileWriter, low: int, newest: int, stores: int = stores) -> int | None:
            with monkeypatch.context() as patch:
                patch.setattr(writer, "map", _MortalMap(writer.map, stores))
                return remove(writer, low, newest)

        with monkeypatch.context() as patch:
            patch.setattr(KeyIndex, "_remove_items", staticmethod(killed))
            found = KeyIndex(str(root), CONFIG, REAL)
            try:
                found.recover(log_end, StoreFiles(str(root), REAL), log_begin)
            except _Killed:
                kills += 1
        found.close_without_flush()
        again = KeyIndex(str(root), CONFIG, REAL)
        again.recover(log_end, StoreFiles(str(root), REAL), log_begin)
        again.check_invariants()
        if rest := [key for key in keys if again.end_offset < key[1] < log_end]:
            insert(again, rest)
        again.close()
        assert files(root) == whole, f"killed at store {stores}"
        if kills == stores:
            break
    assert kills > 5, "the removal has more steps than that"


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("length", [1, 39, 60, 71, 72, 92, 112, 300, 711])
@pytest.mark.parametrize("which", [0, -1])
def test_a_file_that_was_cut_short_is_made_again(tmp_path: Path, which: int, length: int, clean: bool):
    """At 92 bytes and below there is no room for an item, and a start that took the length for its own never ended."""
    stored(tmp_path, 45)
    files = sorted((tmp_path / "index").iterdir())
    whole = [path.read_bytes() for path in files]
    damage.cut(files[which], length)
    if not clean:
        (tmp_path / "abort").touch()
    with open_small(tmp_path) as store:
        assert [m.keys for m in store.query("T", "k44")] == ["k44"] and store.query("T", "k3")[0].keys == "k3"
        put_all(store, 1, first=45)
    if which == -1 and length < 711:  # else it goes on as it is, with a place less
        check_derived(tmp_path)
        assert sorted((tmp_path / "index").iterdir())[0].read_bytes() == whole[0]


def with_header(found: KeyIndex, **changed: int) -> None:
    file = found.writer.current
    assert isinstance(file, IndexFileWriter)
    file._write(file.header()._replace(**changed))


def with_item(found: KeyIndex, number: int, **changed: int) -> None:
    file = found.writer.current
    assert isinstance(file, IndexFileWriter)
    place = index.item_position(number, SLOTS)
    file.map[place : place + index.ITEM.size] = index.ITEM.pack(file.item(number)._replace(**changed))


def with_slot(found: KeyIndex, number: int) -> None:
    """Item 4, the newest, is of the hash 5."""
    place = index.slot_position(5)
    found.writer.current.map[place : place + index.SLOT.size] = index.SLOT.pack(index.Slot(number))


def with_mark(found: KeyIndex, offset: int, name: int, items: int) -> None:
    header = found.writer.current.header()._replace(index_count=items)
    found.mark.indexed = Indexed(offset, name or int(os.path.basename(found.writer.current.path)), header)


BROKEN: list[tuple[str, Callable[[KeyIndex], object]]] = [
    ("no item counts", lambda i: setattr(i.writer.current, "count", 0)),
    ("more than fit", lambda i: setattr(i.writer.current, "count", ITEMS + 1)),
    ("header counts one more", lambda i: with_header(i, index_count=6)),
    ("header begins elsewhere", lambda i: with_header(i, begin_physical_offset=99)),
    ("header ends elsewhere", lambda i: with_header(i, end_physical_offset=501)),
    ("no blocks for the items", lambda i: setattr(i.writer.current, "reserved", 50)),
    ("more blocks than bytes", lambda i: setattr(i.writer.current, "reserved", 1 << 20)),
    ("an item leads to itself", lambda i: with_item(i, 4, previous=4)),
    ("an item leads before all", lambda i: with_item(i, 4, previous=-1)),
    ("the newest is hidden", lambda i: with_slot(i, 3)),
    ("something behind the last", lambda i: with_item(i, 5, physical_offset=500)),
    ("end of another record", lambda i: setattr(i.writer, "end_offset", 300)),
    ("names out of order", lambda i: setattr(i.writer, "names", {"9": 0, **i.writer.names})),
    ("not the newest is written", lambda i: i.writer.names.update({"9" * 17: 0})),
    ("the mark names a later file", lambda i: with_mark(i, 1000, 10**17 - 1, 5)),
    ("the mark counts more items", lambda i: with_mark(i, 1000, 0, 6)),
]


@pytest.mark.parametrize(("what", "spoil"), BROKEN, ids=[what for what, _ in BROKEN])
def test_the_invariants_notice_a_broken_index(tmp_path: Path, what: str, spoil: Callable[[KeyIndex], object]):
    found = opened(tmp_path)
    insert(found, [(number + 1, 100 * number, BEGIN) for number in range(1, 5)])
    with_mark(found, 401, 0, 5)
    found.check_invariants()
    spoil(found)
    with pytest.raises(AssertionError):
        found.check_invariants()


# -- The mark says less before anything is undone that it names: a power cut amid or after recovery hides no key then


def found(store: MessageStore, numbers: range) -> list[int]:
    return [len(store.query("T", f"k{number}")) for number in numbers]


def as_synced(root: Path, index: dict[str, bytes]) -> None:
    """The index as it was when it was synced last: nothing that was stored since has arrived."""
    shutil.rmtree(root / "index")
    (root / "index").mkdir()
    for name, data in index.items():
        (root / name).write_bytes(data)


def amid(monkeypatch: pytest.MonkeyPatch, root: Path, to: Path, effects: Clock) -> Path:
    """What a power cut at the end of a recovery leaves, if everything but the last mark has arrived."""
    run = Recovery.run

    def copied(self: Recovery, **more: bool) -> Recovered:
        outcome = run(self, **more)
        shutil.copytree(root, to)
        return outcome

    monkeypatch.setattr(Recovery, "run", copied)
    open_small(root, effects, **NEVER).close()
    monkeypatch.undo()
    process, boot = (to / "abort").read_text().split()
    (to / "abort").write_text(f"{process}\n{boot[::-1]}")
    return to


def ahead_of_the_log(tmp_path: Path, effects: Clock) -> Path:
    """A power cut took the log's last ten records, whose keys were on disk already: the mark counts them."""
    with open_small(tmp_path / "s", effects, **NEVER) as store:
        put_all(store, 5, first=200)
        store.flush()
        end = store._parts.log.end
        put_dispatched(store, 10, first=205)
        store._parts.checkpointer.write()
        facts = read_facts(store.root)
        assert (
            facts.mark.flushed == end and facts.mark.indexed is not None and facts.mark.indexed.header.next_item == 16
        )
        root = left(store, tmp_path / "left", "power cut")
    damage.zero(root / "commitlog" / f"{0:020d}", end, FILE_SIZE - end)
    return root


@pytest.mark.parametrize("arrived", ["nothing", "the last item"])
def test_items_that_were_taken_back_do_not_come_back_for_others(tmp_path: Path, arrived: str):
    """The new records stand where the lost ones stood, so their items have the same log offsets."""
    effects = Clock()
    root = ahead_of_the_log(tmp_path, effects)
    synced = tree(root, "index")
    with open_small(root, effects, **NEVER) as store:
        put_all(store, 10, first=105)
        store.flush()
        second = left(store, tmp_path / "second", "power cut")
    last = newest_index(second).read_bytes()[72 + 15 * 20 : 72 + 16 * 20]
    as_synced(second, synced)
    if arrived == "the last item":
        patch(newest_index(second), 72 + 15 * 20, last)
    with open_small(second, effects) as store:
        assert found(store, range(105, 115)) == [1] * 10
    check_derived(second)


def test_a_power_cut_amid_the_taking_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Some of the zeros that were written over the items have arrived; not those over the last one."""
    effects = Clock()
    root = ahead_of_the_log(tmp_path, effects)
    synced = tree(root, "index")
    second = amid(monkeypatch, root, tmp_path / "second", effects)
    as_synced(second, synced)
    damage.zero(newest_index(second), 72 + 8 * 20, 4 * 20)
    open_small(second, effects).close()
    check_derived(second)


@pytest.mark.parametrize("when", ["amid", "after"])
@pytest.mark.parametrize("who", ["java", "kill"])
def test_an_index_that_is_made_again_is_not_taken_for_the_one_that_was_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str, when: str
):
    """RocketMQ (or a person) removed it. It is made again under its name; then the power fails, not all is there."""
    effects = Clock()
    with open_small(tmp_path / "s", effects, **NEVER) as store:
        put_all(store, 20)
        put_plain(store, 100)
        marked(store)
        root = left(store, tmp_path / "left", who)
    name = newest_index(root).name
    shutil.rmtree(root / "index")
    if when == "amid":
        second = amid(monkeypatch, root, tmp_path / "second", effects)
    else:
        with open_small(root, effects, **NEVER) as store:
            second = left(store, tmp_path / "second", "power cut")
    assert newest_index(second).name == name
    damage.zero(newest_index(second), 72 + 3 * 20, 10 * 20)
    with open_small(second, effects) as store:
        assert found(store, range(20)) == [1] * 20
    check_derived(second)


@pytest.mark.parametrize("when", ["amid", "after"])
def test_units_that_are_made_again_are_not_taken_for_those_that_were_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
):
    """A queue lost a file in its middle. It is made again; then the power fails, and the file arrived without units."""
    effects = Clock()
    with open_small(tmp_path / "s", effects, **NEVER) as store:
        put_all(store, 35)
        marked(store)
        effects.clock += 3_600_000  # so that the checkpoint's times do not ask for the last records again
        put_all(store, 5, topic="U")
        marked(store)
        root = left(store, tmp_path / "left", "kill")
    lost = Path("consumequeue", "T", "0", f"{200:020d}")
    (root / lost).unlink()
    if when == "amid":
        second = amid(monkeypatch, root, tmp_path / "second", effects)
    else:
        with open_small(root, effects, **NEVER) as store:
            assert again(store) >= 25
            second = left(store, tmp_path / "second", "power cut")
    damage.zero(second / lost, 0, 200)
    open_small(second, effects).close()
    check_derived(second)


def test_nothing_is_said_of_what_others_write(tmp_path: Path):
    """Not even until the first mark of the new run."""
    stored(tmp_path, 20, effects=Clock())
    facts = read_facts(str(tmp_path))
    assert facts.mark.dispatched == facts.mark.flushed and facts.mark.indexed is not None
    with open_small(tmp_path, Clock(), dispatch="external"):
        now = read_facts(str(tmp_path))
        assert (now.mark.flushed, now.mark.dispatched, now.mark.indexed) == (facts.mark.flushed, -1, None)
    with open_small(tmp_path, Clock()):
        assert read_facts(str(tmp_path)).mark.dispatched == -1
    check_derived(tmp_path)


# -- Which index files are known to be on disk as a whole, also where the clock was set back while they were filled ----

SMALL_FILES = StoreConfig.from_keys(KEYS)
FULL = 32
Times: TypeAlias = "tuple[int, int, int]"  # store times of the first and the last item, count
SOUND: list[Times] = [(10, 20, FULL), (20, 30, FULL), (31, 40, FULL), (40, 45, 7)]


def header(begin: int, end: int, count: int) -> index.Header:
    return index.Header(begin, end, 0, 100, 8, count)


def whole(root: Path, files: list[Times], on_disk: int, named: int | None = None) -> int:
    """How many of these files are known to be whole; `named` is the number of the one that the mark names."""
    (root / "index").mkdir()
    for number, times in enumerate(files):
        data = index.HEADER.pack(header(*times))
        path = root / "index" / f"{20231114221320000 + number}"
        path.write_bytes(data.ljust(index.file_size(8, 32), b"\0"))
    indexed = None if named is None else Indexed(100, 20231114221320000 + named, header(0, 0, 1))
    return known_whole(discover(str(root), SMALL_FILES, REAL), on_disk, indexed)


@pytest.mark.parametrize(
    ("files", "on_disk", "known"),
    [
        (SOUND, 0, 0),
        (SOUND, 20, 0),  # the second one may end in this millisecond, too
        (SOUND, 21, 1),
        (SOUND, 31, 2),
        (SOUND, 1000, 3),  # the last one is not full
        ([*SOUND[:3], (40, 45, FULL)], 1000, 4),
        ([(10, 20, FULL), (20, 30, 7), (31, 40, FULL)], 1000, 3),  # made when files were shorter
        ([(0, 0, 0)], 1000, 0),
        ([(10, 20, FULL), (20, 5, FULL), (31, 40, FULL)], 1000, 1),  # the clock was set back in the second one
        ([(10, 20, FULL), (19, 30, FULL), (31, 40, FULL)], 1000, 1),  # between the first and the second one
        ([(10, 9, FULL), (11, 12, FULL)], 1000, 0),
        ([], 1000, 0),
    ],
)
def test_times_tell_which_files_were_synced_as_long_as_they_go_up(
    tmp_path: Path, files: list[Times], on_disk: int, known: int
):
    assert whole(tmp_path, files, on_disk) == known


@pytest.mark.parametrize(("named", "known"), [(0, 0), (1, 1), (3, 3), (4, 0), (9, 0)])
def test_the_mark_tells_it_whatever_the_times_say(tmp_path: Path, named: int, known: int):
    assert whole(tmp_path, SOUND, 31, named) == known


def set_back(root: Path, to: Path, clock: Clock, stop: str) -> tuple[Path, Path]:
    """A store whose second index file was filled after the clock was set back, as a stop leaves it; its two first index
    files. The mark and the checkpoint are older than that file's items."""
    with open_small(root, clock, **NEVER) as store:
        put_all(store, 40)
        marked(store)
        clock.clock = BEGIN - 10_000_000
        put_all(store, 40, first=40)
        left(store, to, stop)
    first, second, _ = sorted((to / "index").iterdir())
    ends = [index.HEADER.unpack(path.read_bytes()).end_timestamp for path in (first, second)]
    assert ends[1] < ends[0]
    return first, second


def test_a_file_that_was_filled_after_the_clock_was_set_back_is_not_taken_for_one_that_was_synced(tmp_path: Path):
    """Found by the explorer, seed 47597: it was full, and ended before a file that was synced long ago."""
    clock, copy = Clock(), tmp_path / "copy"
    _, second = set_back(tmp_path / "s", copy, clock, "power cut")
    damage.zero(second, index.item_position(20, 8), 200)  # items that never arrived
    with open_small(copy, clock) as store:
        assert store.wait_dispatched(60) and len(records(copy)) == 80
        assert [len(store.query("T", f"k{n}")) for n in range(80)] == [1] * 80
    check_derived(copy)


def test_after_a_kill_such_a_file_is_synced_before_the_mark_goes_on(tmp_path: Path):
    clock, copy = Clock(), tmp_path / "copy"
    first, second = set_back(tmp_path / "s", copy, clock, "kill")
    with open_small(copy, clock, **NEVER) as store:
        put_all(store, 5, first=80)
        marked(store)
        assert [clock.count("sync", str(path)) for path in (first, second)] == [0, 1]


@pytest.mark.parametrize("when", ["at a checkpoint", "at the close"])
def test_what_could_not_be_synced_is_asked_of_the_disk_by_the_next_start(tmp_path: Path, when: str):
    """Found by the explorer, seed 1073742223: the page cache showed the items, no later sync wrote them, and a power
    cut took what the mark then counted."""
    disk = Clock()
    with unclean(), open_small(tmp_path, disk, **NEVER) as store:
        put_all(store, 10)
        marked(store)
        disk.refuse("sync", "index", times=1)
        put_dispatched(store, 10, first=10)
        if when == "at a checkpoint":
            store.flush()
            with pytest.raises(OSError, match="Input/output"):
                store._parts.index.mark.settle(store._parts.dispatch.reached, store._parts.log.end, closing=True)
            store._parts.failure.set("as the checkpoint does")
    [newest] = (tmp_path / "index").iterdir()
    assert disk.refused == [("sync", str(newest))]
    disk.calls.clear()
    with open_small(tmp_path, disk) as store:
        assert any("10 records were dispatched again" in line for line in store.recovered.decisions)
        asked = {path for call, path in disk.calls if call == "drop_cache"}
        assert asked >= {disk.refused[0][1], str(tmp_path / "consumequeue" / "T" / "0" / f"{200:020d}")}
    check_derived(tmp_path)
