"""Batches of a queue hold what `get` gives, on stores of Java and of our own, also where units mislead."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq import MessageNotFoundError, StoredMessage, StoreView, UsageError, open_store
from flintmq.storage.files.filesystem import Effects
from flintmq.store.dispatch.queue_positions import places
from flintmq.store.read import batch as module
from flintmq.testing import write_store
from flintmq.testing.damage import flip, zero
from tests.compat.stores import Golden

SMALL = {"mappedFileSizeCommitLog": 65536, "mappedFileSizeConsumeQueue": 2000, "mapperFileSizeBatchConsumeQueue": 2300}


def by_batches(view: StoreView, topic: str, queue_id: int, count: int) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    first = next(queue for queue in view.queues(topic) if queue.queue_id == queue_id).min_offset
    batch = view.read(topic, queue_id, first, count)
    while batch:
        messages = list(batch)
        assert len(messages) <= len(batch) <= max(count, 32)
        assert [message.raw for message in batch] == [message.raw for message in messages]
        found += messages
        batch = view.read(topic, queue_id, batch.next_offset, count)
    return found


def one_by_one(view: StoreView, topic: str, queue_id: int) -> list[StoredMessage]:
    queue = next(queue for queue in view.queues(topic) if queue.queue_id == queue_id)
    found: list[StoredMessage] = []
    offset = queue.min_offset
    while offset < queue.max_offset:
        try:
            message = view.get(topic, queue_id, offset)
        except MessageNotFoundError:
            offset += 1
            continue
        found.append(message)
        own = [place for place in places(message) if (place.topic, place.queue_id) == (topic, queue_id)]
        offset = max(place.offset + place.messages for place in own if place.offset <= offset)
    return found


@pytest.mark.parametrize("access", ["pread", "map"])
def test_every_queue_of_every_golden_store(golden_store: Golden, access: str) -> None:
    with open_store(golden_store.path, set=golden_store.config, access=access) as view:
        for queue in view.queues():
            expected = one_by_one(view, queue.topic, queue.queue_id)
            for count in (7, 1000):
                assert by_batches(view, queue.topic, queue.queue_id, count) == expected


@pytest.mark.parametrize("access", ["pread", "map"])
def test_bytes_and_offsets_are_known_before_the_log_is_read(tmp_path: Path, access: str) -> None:
    written = write_store(tmp_path / "s", 2000, config=SMALL)
    with open_store(written.path, access=access) as view:
        batch = view.read("Orders", 1, 10, 50)
        assert (len(batch), batch.offset, batch.next_offset) == (50, 10, 60)
        assert repr(batch).startswith("QueueBatch('Orders', 1, 10 to 60, ")
        messages = list(batch)
        assert batch.bytes == sum(message.size for message in messages)
        assert [message.queue_offset for message in messages] == list(range(10, 60))
        assert {(message.topic, message.queue_id) for message in messages} == {("Orders", 1)}


def test_the_ends_of_a_queue(tmp_path: Path) -> None:
    written = write_store(tmp_path / "s", 500, expired_files=2, config=SMALL)
    with open_store(written.path) as view:
        queue = view.queues("Orders")[1]
        assert queue.min_offset > 0
        assert view.read("Orders", queue.queue_id, 0, 5).offset == queue.min_offset
        assert len(view.read("Orders", queue.queue_id, 0, 5)) == min(5, queue.max_offset - queue.min_offset)
        end = view.read("Orders", queue.queue_id, queue.max_offset, 5)
        assert (len(end), list(end), end.bytes) == (0, [], 0)
        assert not view.read("Nothing", 0, 0, 5)
        assert not view.read("Orders", 0, 0, 0)
        with pytest.raises(UsageError, match="negative"):
            view.read("Orders", 0, 0, -1)
        view.close()
        with pytest.raises(UsageError, match="closed"):
            view.read("Orders", 0, 0, 1)


class Watched(Effects):
    """The real disk, and the bytes of each read."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def pread_into(self, fd: int, buffer: memoryview, position: int) -> int:
        self.asked.append(len(buffer))
        return super().pread_into(fd, buffer, position)


@pytest.mark.parametrize(("window", "spare"), [(1 << 18, 1 << 14), (5000, 1 << 14), (1 << 18, 0), (0, 0)])
def test_what_is_read_at_once_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int, spare: int):
    monkeypatch.setattr(module, "WINDOW", window)
    monkeypatch.setattr(module, "SPARE", spare)
    written, disk = write_store(tmp_path / "s", 2000, config=SMALL), Watched()
    with open_store(written.path, effects=disk) as view:
        batch, found = view.read("Orders", 1, 0, 100), one_by_one(view, "Orders", 1)[:100]
        disk.asked.clear()
        assert list(batch) == found and len(found) == 100
    largest = max(message.size for message in found)
    assert max(disk.asked) <= max(window, largest)
    log_files = len({message.physical_offset // 65536 for message in found})
    assert len(disk.asked) == 100 if not window else len(disk.asked) < 100
    assert window < 1 << 18 or not spare or len(disk.asked) == log_files, "one for each of the files"


@pytest.mark.parametrize("access", ["pread", "map"])
def test_damage_leaves_out_one_message(tmp_path: Path, access: str) -> None:
    written = write_store(tmp_path / "s", 1000, config=SMALL)
    with open_store(written.path) as view:
        victim = view.get("Payments", 2, 20)
    file = written.path / "commitlog" / f"{victim.physical_offset // 65536 * 65536:020d}"
    flip(file, victim.physical_offset % 65536 + 100)
    with open_store(written.path, access=access) as view:
        offsets = [message.queue_offset for message in view.read("Payments", 2, 0, 40)]
        assert offsets == [*range(20), *range(21, 40)]


@pytest.mark.parametrize("access", ["pread", "map"])
def test_units_that_are_gone_are_no_loss(tmp_path: Path, access: str) -> None:
    written = write_store(tmp_path / "s", 1000, config=SMALL)
    zero(written.path / "consumequeue" / "Payments" / "2" / ("0" * 20), 20 * 10, 60)
    with open_store(written.path, access=access) as view:
        assert [m.queue_offset for m in by_batches(view, "Payments", 2, 1000)][:50] == list(range(50))


@pytest.mark.parametrize("access", ["pread", "map"])
def test_a_log_without_queues(tmp_path: Path, access: str) -> None:
    alone = write_store(tmp_path / "a", 1000, kinds="all", config=SMALL, queues_and_index=False)
    whole = write_store(tmp_path / "b", 1000, kinds="all", config=SMALL)
    with open_store(alone.path, access=access) as bare, open_store(whole.path, access=access) as full:
        for queue in full.queues():
            expected = by_batches(full, queue.topic, queue.queue_id, 100)
            assert by_batches(bare, queue.topic, queue.queue_id, 100) == expected
            assert expected


def test_messages_outlive_the_view_and_the_files(golden: Callable[[str], Golden], tmp_path: Path) -> None:
    path = golden("basic").copy(tmp_path)
    with open_store(path, access="map") as view:
        batch = view.read("Orders", 0, 0, 100)
        messages = list(batch)
        view.refresh()
    for file in (path / "commitlog").iterdir():
        file.unlink()
    twins = [copy.copy(message) for message in messages]
    assert pickle.loads(pickle.dumps(messages)) == messages == twins
    assert [message.queue_offset for message in messages] == list(range(100))


def test_a_vanished_file_is_left_out(golden: Callable[[str], Golden], tmp_path: Path) -> None:
    path = golden("basic").copy(tmp_path)
    for access in ("pread", "map"):
        with open_store(path, access=access) as view:
            batch = view.read("Orders", 0, 0, 1000)
            total = len(list(batch))
            view.refresh()
            batch = view.read("Orders", 0, 0, 1000)
            files = sorted((path / "commitlog").iterdir())
            files[2].rename(path / "away")
            assert 0 < len(list(batch)) < total
            (path / "away").rename(files[2])
