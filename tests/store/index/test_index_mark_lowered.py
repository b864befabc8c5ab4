"""The mark says less before anything is undone that it names: a power cut amid or after recovery hides no key then."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flintmq.store.commitlog.end_of_log import read_facts
from flintmq.store.message_store import MessageStore
from flintmq.store.recovery.apply import Recovered, Recovery
from flintmq.testing import damage
from tests.store.index.test_durable_point import NEVER, again, left, marked, newest_index, put_plain
from tests.support.crashed import Clock
from tests.support.engine import FILE_SIZE, check_derived, open_small, put_all, tree


def found(store: MessageStore, numbers: range) -> list[int]:
    """How many messages each of these keys leads to."""
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
    with open_small(root, effects, **NEVER):
        pass
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
        put_all(store, 10, first=205)
        store.wait_dispatched(60)
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
        with newest_index(second).open("r+b") as file:
            file.seek(72 + 15 * 20)
            file.write(last)
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
    with open_small(second, effects):
        pass
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
    with open_small(second, effects):
        pass
    check_derived(second)


def test_nothing_is_said_of_what_others_write(tmp_path: Path):
    """Not even until the first mark of the new run."""
    with open_small(tmp_path, Clock()) as store:
        put_all(store, 20)
    facts = read_facts(str(tmp_path))
    assert facts.mark.dispatched == facts.mark.flushed and facts.mark.indexed is not None
    with open_small(tmp_path, Clock(), dispatch="external"):
        now = read_facts(str(tmp_path))
        assert (now.mark.flushed, now.mark.dispatched, now.mark.indexed) == (facts.mark.flushed, -1, None)
    with open_small(tmp_path, Clock()) as store:
        assert read_facts(str(tmp_path)).mark.dispatched == -1
    check_derived(tmp_path)
