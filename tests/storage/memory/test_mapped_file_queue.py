"""Files of one size in a row: found by offset, read across nothing that is not written, flushed oldest first."""

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.storage.memory.mapped_file_queue import MappedFileQueue
from tests.support.faults import Faulty

SIZE = 4096


def queue_of(folder: Path, files: int, first: int = 0, effects: Faulty | None = None) -> MappedFileQueue:
    """Full files whose bytes are their number, the last one half written."""
    queue = MappedFileQueue([str(folder)], SIZE, effects or Faulty())
    for number in range(files):
        file = queue.append_file(first + number * SIZE)
        file.wrote = SIZE if number < files - 1 else SIZE // 2
        file.reserve(file.wrote)
        file.view[: file.wrote] = bytes([number + 1]) * file.wrote
    return queue


def test_files_are_named_by_their_first_offset(tmp_path: Path):
    effects = Faulty()
    queue = queue_of(tmp_path / "log", 3, first=8 * SIZE, effects=effects)
    assert effects.count("advise_random") == 0, "unless it is asked for"
    names = [f"{start:020d}" for start in (32768, 36864, 40960)]
    assert sorted(path.name for path in (tmp_path / "log").iterdir()) == names
    assert (queue.min_offset, queue.last.start) == (32768, 40960)
    queue.close()


def test_an_empty_queue(tmp_path: Path):
    queue = MappedFileQueue([str(tmp_path)], SIZE, Faulty())
    assert (queue.files, queue.last, queue.min_offset, queue.find(0), queue.read(0, 1)) == ((), None, 0, None, None)
    queue.flush(100)
    assert queue.flushed_where == 0
    queue.close()


def test_a_file_is_found_by_any_offset_in_it(tmp_path: Path):
    queue = queue_of(tmp_path, 3, first=SIZE)
    for offset, start in [(SIZE, SIZE), (2 * SIZE - 1, SIZE), (2 * SIZE, 2 * SIZE), (4 * SIZE - 1, 3 * SIZE)]:
        assert queue.find(offset).start == start
    for offset in (-1, 0, SIZE - 1, 4 * SIZE, 1 << 60):
        assert queue.find(offset) is None
    queue.close()


def test_a_file_in_use_whose_name_is_gone_is_noticed(tmp_path: Path):
    queue = MappedFileQueue([str(tmp_path)], SIZE, Faulty())
    assert queue.gone() is None, "there is none"
    queue.append_file(0)
    queue.append_file(SIZE)
    first, last = (tmp_path / f"{start:020d}" for start in (0, SIZE))
    first.unlink()
    assert queue.gone() is None, "retention removes old ones"
    last.rename(tmp_path / "away")
    assert queue.gone() == str(last)
    last.write_bytes(bytes(SIZE))
    assert queue.gone() == str(last), "another file by that name"
    (tmp_path / "away").rename(last)
    assert queue.gone() is None
    last.unlink()
    queue.close()
    assert queue.gone() is None, "nobody writes it any more"


def test_a_file_is_full_between_two_offsets_where_they_lie_in_different_ones(tmp_path: Path):
    queue = MappedFileQueue([str(tmp_path)], SIZE, Faulty())
    for begin, end, rolled in ((0, SIZE - 1, False), (SIZE - 1, SIZE, True), (SIZE, SIZE, False), (0, 9 * SIZE, True)):
        assert queue.rolled_since(begin, end) is rolled


def test_reading_gives_what_is_written_and_nothing_else(tmp_path: Path):
    queue = queue_of(tmp_path, 2)
    assert queue.read(10, 5) == b"\1" * 5
    assert queue.read(SIZE, SIZE // 2) == b"\2" * (SIZE // 2)
    assert queue.read(SIZE, SIZE // 2 + 1) is None, "behind what is written"
    assert queue.read(SIZE - 1, 2) is None, "across the end of a file"
    assert queue.read(2 * SIZE, 1) is None
    assert queue.read(-1, 1) is None
    queue.close()
    assert queue.read(10, 5) is None


def test_files_go_to_several_directories_in_turn(tmp_path: Path):
    folders = [str(tmp_path / name) for name in "bac"]
    for folder in folders:  # a queue makes no directory: one that is missing may be a disk that is not mounted
        Path(folder).mkdir()
    queue = MappedFileQueue(folders, SIZE, Faulty())
    for number in range(4, 9):
        queue.append_file(number * SIZE)
    found = {name: sorted(int(p.name) // SIZE for p in (tmp_path / name).iterdir()) for name in "abc"}
    assert found == {"a": [6], "b": [4, 7], "c": [5, 8]}
    queue.close()


def test_load_sets_the_positions_from_the_end(tmp_path: Path):
    queue_of(tmp_path, 3).close()
    effects = Faulty()
    queue = MappedFileQueue([str(tmp_path)], SIZE, effects)
    queue.load([(str(tmp_path / f"{n * SIZE:020d}"), n * SIZE) for n in range(3)], 2 * SIZE + 7)
    assert [(f.wrote, f.flushed) for f in queue.files] == [(SIZE, SIZE), (SIZE, SIZE), (7, 7)]
    assert queue.flushed_where == 2 * SIZE + 7 and queue.last.end == 2 * SIZE + 7
    assert queue.read(2 * SIZE, 7) == b"\3" * 7
    queue.flush(2 * SIZE + 7)
    assert effects.count("sync") == 0 and all(file.effects is effects for file in queue.files)
    queue.close()
    queue.load([(str(tmp_path / f"{n * SIZE:020d}"), n * SIZE) for n in range(3)], SIZE)
    assert [(f.wrote, f.flushed) for f in queue.files] == [(SIZE, SIZE), (0, 0), (0, 0)]
    queue.close()


def test_a_flush_syncs_every_file_that_has_something_new_oldest_first(tmp_path: Path):
    effects = Faulty()
    queue = queue_of(tmp_path, 4, effects=effects)
    effects.calls.clear()
    queue.flush(SIZE + 10)
    assert [path[-5:] for name, path in effects.calls if name == "sync"] == ["00000", "04096"]
    assert queue.flushed_where == SIZE + 10
    effects.calls.clear()
    queue.flush(3 * SIZE + 5)
    assert [path[-5:] for name, path in effects.calls if name == "sync"] == ["04096", "08192", "12288"]
    assert queue.flushed_where == 3 * SIZE + 5
    effects.calls.clear()
    queue.flush(3 * SIZE + 5)
    assert effects.count("sync") == 0
    queue.close()


def test_a_refused_flush_tells_how_far_it_is_certain(tmp_path: Path):
    effects = Faulty()
    queue = queue_of(tmp_path, 3, effects=effects)
    effects.refuse("sync", f"{SIZE:020d}")
    with pytest.raises(OSError):
        queue.flush(2 * SIZE + 10)
    assert queue.flushed_where == SIZE
    queue.close()


def test_a_file_that_cannot_be_made_is_not_in_the_queue(tmp_path: Path):
    effects = Faulty()
    queue = queue_of(tmp_path, 1, effects=effects)
    effects.refuse("allocate", times=1)
    with pytest.raises(OSError):
        queue.append_file(SIZE)
    assert len(queue.files) == 1 and queue.last.start == 0
    assert queue.append_file(SIZE).start == SIZE
    queue.close()


def test_a_reader_s_list_of_files_does_not_change_under_it(tmp_path: Path):
    queue = queue_of(tmp_path, 1)
    seen = queue.files
    queue.append_file(SIZE)
    assert len(seen) == 1 and len(queue.files) == 2
    queue.close()


def test_advice_that_the_kernel_refuses_is_told_and_the_file_is_as_good(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, "flintmq.files")
    effects = Faulty()
    effects.refuse("advise_random", error=errno.EINVAL)
    queue = MappedFileQueue([str(tmp_path)], SIZE, effects, random=True)
    file = queue.append_file(0)
    assert effects.count("advise_random") == 1 and queue.files == (file,)
    assert [r.getMessage() for r in caplog.records] == [
        f"{file.path}: the kernel refuses advice on its pages (Invalid argument)"
    ]
    queue.close()


def test_the_oldest_file_goes_and_who_holds_it_keeps_its_bytes(tmp_path: Path):
    queue = queue_of(tmp_path, 3)
    first = queue.files[0]
    assert first.hold()
    assert queue.drop_first() is first
    assert [f.start for f in queue.files] == [SIZE, 2 * SIZE] and queue.min_offset == SIZE
    assert queue.find(0) is None and queue.read(0, 5) is None
    assert bytes(first.view[:3]) == b"\1\1\1"
    first.release()
    assert not first.is_held
    queue.close()


def test_flush_and_commit_stop_at_their_target(tmp_path: Path):
    effects = Faulty()
    queue = queue_of(tmp_path, 3, effects=effects)
    queue.files[-1].wrote, before = SIZE, effects.count("sync")
    queue.commit(SIZE)
    queue.flush(SIZE)
    assert (queue.flushed_where, effects.count("sync")) == (SIZE, before + 1), "exactly one file"
    queue.commit(3 * SIZE)
    queue.flush(3 * SIZE)
    assert (queue.flushed_where, effects.count("sync")) == (3 * SIZE, before + 3)
    queue.close()


def queue_with(folder: Path, effects: Faulty, **keys: str) -> MappedFileQueue:
    """As the commit log of a store with these keys has it."""
    config = StoreConfig.from_keys({"mappedFileSizeCommitLog": "8192", **keys})
    return MappedFileQueue.of([str(folder)], config, effects)


def test_what_the_defaults_ask_for(tmp_path: Path):
    effects = Faulty()
    queue = queue_with(tmp_path, effects)
    allocation = queue.allocation
    assert (queue.directories, queue.file_size, queue.effects, queue.pool) == ([str(tmp_path)], 8192, effects, None)
    assert allocation is not None and allocation.make == queue.make_file
    assert (allocation.file_size, allocation.effects, allocation.pool) == (8192, effects, None)
    assert allocation.warm is None
    assert allocation.ahead is not None
    assert (allocation.ahead.effects, allocation.ahead.populate) == (effects, True)
    queue.append_file(0)
    assert effects.count("advise_random") == 0
    queue.close()


@pytest.mark.parametrize("keys", [{"flushDiskType": "SYNC_FLUSH"}, {"dataReadAheadEnable": "false"}])
def test_pages_are_not_read_ahead_where_the_configuration_says_so(tmp_path: Path, keys: dict[str, str]):
    effects = Faulty()
    queue = queue_with(tmp_path, effects, **keys)
    queue.append_file(0)
    assert effects.count("advise_random") >= 1
    assert queue.allocation is not None and queue.allocation.ahead is not None
    assert queue.allocation.ahead.populate == ("flushDiskType" not in keys)
    queue.close()


@pytest.mark.parametrize(("sync", "pages"), [("SYNC_FLUSH", 7), ("ASYNC_FLUSH", 0)])
def test_new_files_are_warmed_where_the_configuration_says_so(tmp_path: Path, sync: str, pages: int):
    """Upstream syncs every so many pages while it warms, with SYNC_FLUSH alone."""
    effects = Faulty()
    keys = {"flushDiskType": sync, "warmMapedFileEnable": "true", "flushLeastPagesWhenWarmMapedFile": "7"}
    queue = queue_with(tmp_path, effects, **keys)
    assert queue.allocation is not None and queue.allocation.warm is not None
    assert (queue.allocation.warm.sync_pages, queue.allocation.warm.effects) == (pages, effects)
    queue.close()


@pytest.mark.parametrize(("role", "has"), [("ASYNC_MASTER", True), ("SLAVE", False)])
def test_a_pool_is_a_master_s(tmp_path: Path, role: str, has: bool):
    effects = Faulty()
    keys = {"transientStorePoolEnable": "true", "transientStorePoolSize": "3", "brokerRole": role}
    queue = queue_with(tmp_path, effects, fastFailIfNoBufferInStorePool="true", **keys)
    allocation = queue.allocation
    assert allocation is not None and allocation.pool is queue.pool
    assert allocation.ahead is not None and allocation.ahead.populate is not has
    assert (queue.pool is not None) == has
    if queue.pool is not None:
        assert (queue.pool.count, queue.pool.ring.size, queue.pool.effects) == (3, 32768, effects)
        assert queue.pool.fast_fail is True
    queue.close()


def test_the_newest_file_is_copied_from_its_map_and_older_ones_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    effects = Faulty()
    queue, reads, pread = queue_of(tmp_path, 2, effects=effects), [], effects.pread
    monkeypatch.setattr(effects, "pread", lambda *of: reads.append(of) or pread(*of))
    assert queue.read(SIZE + 3, 5) == b"\2" * 5 and reads == []
    assert queue.read(3, 5) == b"\1" * 5 and reads == [(queue.files[0].fd, 5, 3)]
    queue.close()


def test_a_file_in_use_is_never_made_again(tmp_path: Path):
    """Only what an interrupted call may have left is removed first."""
    queue = queue_with(tmp_path, Faulty())
    for start in (0, 8192):
        file = queue.append_file(start)
        file.view[:5] = b"hello"
        with pytest.raises(FileExistsError):
            queue.make_file(start)
        assert (tmp_path / f"{start:020d}").read_bytes()[:5] == b"hello"
    queue.close()


def test_a_file_made_ahead_that_somebody_replaced_is_left_to_them(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    queue = queue_with(tmp_path, Faulty())
    queue.append_file(0)
    assert queue.allocation is not None and queue.allocation.step()
    path = tmp_path / f"{8192:020d}"
    path.unlink()
    path.write_bytes(b"another's")
    with pytest.raises(FileExistsError):
        queue.append_file(8192)
    assert path.read_bytes() == b"another's"
    path.unlink()
    assert queue.append_file(8192).start == 8192
    told = [r.getMessage() for r in caplog.records]
    assert told == [f"{path} was removed by another program and is created again"], (
        "the one that was removed is forgotten"
    )
    queue.close()


def test_a_file_made_again_is_in_the_ring_as_the_others(tmp_path: Path):
    """Else the ring's writer would take the files before it for ones that are not in the ring."""
    queue = queue_with(tmp_path, Faulty(), transientStorePoolEnable="true", transientStorePoolSize="3")
    first = queue.append_file(0)
    assert queue.allocation is not None and queue.allocation.step()
    first.wrote = 8192
    (tmp_path / f"{8192:020d}").unlink()
    again = queue.append_file(8192)
    again.wrote = 100
    assert (first.in_ring, again.in_ring) == (True, True)
    queue.commit(8192 + 100)
    assert (first.committed, again.committed) == (8192, 100)
    queue.close()


def test_the_writer_of_every_file_is_followed(tmp_path: Path):
    queue = queue_with(tmp_path, Faulty())
    assert queue.allocation is not None and queue.append_file(0).asked == queue.allocation.asked
    queue.close()


def test_a_commit_brings_no_more_than_was_asked_for(tmp_path: Path):
    queue = queue_with(tmp_path, Faulty(), transientStorePoolEnable="true", transientStorePoolSize="3")
    first, second = queue.append_file(0), queue.append_file(8192)
    first.wrote = second.wrote = 8192
    queue.commit(8192 + 10)
    assert (first.committed, second.committed) == (8192, 10)
    queue.close()


def test_a_put_that_needs_room_has_a_piece_of_the_oldest_file_written(tmp_path: Path):
    queue = queue_with(tmp_path, Faulty(), transientStorePoolEnable="true", transientStorePoolSize="3")
    first, second = queue.append_file(0), queue.append_file(8192)
    first.wrote, second.wrote = 8192, 100
    queue.commit_piece()
    assert (first.committed, first.in_ring, second.committed) == (8192, False, 0)
    queue.commit_piece()
    assert second.committed == 100
    queue.close()


def test_the_oldest_file_is_followed_for_the_time_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Of several each would take that time."""
    queue = queue_with(tmp_path, Faulty(), transientStorePoolEnable="true", transientStorePoolSize="3")
    queue.follow(77)
    first, second = queue.append_file(0), queue.append_file(8192)
    first.wrote, second.wrote = 8192, 100
    asked: list[tuple[object, int, int]] = []
    monkeypatch.setattr(type(queue.pool), "follow", lambda self, *more: asked.append(more))
    queue.follow(77)
    assert asked == [(first, first.fd, 77)]
    queue.close()


def test_what_the_log_has_is_not_removed_at_the_end_whenever_it_comes(tmp_path: Path):
    """After an interrupt between taking a file and saying so, and when the file was dropped meanwhile."""
    queue = queue_with(tmp_path / "interrupted", Faulty())
    assert queue.allocation is not None
    said = 0

    def used(below: int, real: Callable[[int], None] = queue.allocation.used) -> None:
        nonlocal said
        said += 1
        if said == 2:
            raise KeyboardInterrupt
        real(below)

    queue.allocation.used = used  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        queue.append_file(0)
    queue.close()
    assert [path.name for path in (tmp_path / "interrupted").iterdir()] == [f"{0:020d}"]
    queue = queue_with(tmp_path / "dropped", Faulty())
    assert queue.append_file(0).hold()
    (dropped,), queue.files = queue.files, ()
    dropped.close()
    queue.close()
    assert [path.name for path in (tmp_path / "dropped").iterdir()] == [f"{0:020d}"], "that is its cleaner's to do"
    assert dropped.is_held
    dropped.release()


def test_who_makes_files_ahead_makes_no_directory(tmp_path: Path):
    """The thread may be late: the log's directory may have gone since the first file was asked for."""
    queue = MappedFileQueue([str(tmp_path / "log")], SIZE, Faulty())
    with pytest.raises(FileNotFoundError):
        queue.make_file(0)
    assert not (tmp_path / "log").exists()
    queue.append_file(0)
    assert (tmp_path / "log" / f"{0:020d}").stat().st_size == SIZE
    queue.close()


def test_the_invariants_hold_step_by_step(tmp_path: Path):
    effects = Faulty()
    queue = queue_of(tmp_path, 2, effects=effects)
    queue.check_invariants()
    for target in (10, SIZE, SIZE + 5):
        queue.flush(target)
        queue.check_invariants()
    queue.files[-1].wrote = SIZE
    queue.append_file(2 * SIZE)
    queue.check_invariants()
    queue.drop_first()
    queue.check_invariants()
    queue.close()
    queue.check_invariants()
    again = MappedFileQueue([str(tmp_path)], SIZE, effects)
    again.load([(str(tmp_path / f"{start:020d}"), start) for start in (SIZE, 2 * SIZE)], SIZE + 100)
    again.check_invariants()
    again.close()


def _gap(queue: MappedFileQueue) -> None:
    queue.files = (queue.files[0], queue.files[2])


def _order(queue: MappedFileQueue) -> None:
    queue.files = (queue.files[1], queue.files[0], queue.files[2])


def _room_before_the_last(queue: MappedFileQueue) -> None:
    queue.files[0].wrote = SIZE - 1


def _never_flushed(queue: MappedFileQueue) -> None:
    queue.flushed_where = SIZE + 1


def _behind_the_last(queue: MappedFileQueue) -> None:
    for file in queue.files:
        file.wrote = file.flushed = SIZE
    queue.flushed_where = 3 * SIZE + 1


def _other_name(queue: MappedFileQueue) -> None:
    queue.files[1].path = f"{5 * SIZE:020d}"


def _other_size(queue: MappedFileQueue) -> None:
    queue.file_size = 2 * SIZE


def _unmapped(queue: MappedFileQueue) -> None:
    queue.files[1].close()


@pytest.mark.parametrize(
    "spoil",
    [_gap, _order, _room_before_the_last, _never_flushed, _behind_the_last, _other_name, _other_size, _unmapped],
)
def test_the_invariants_notice_a_broken_queue(tmp_path: Path, spoil: Callable[[MappedFileQueue], None]):
    queue = queue_of(tmp_path, 3)
    queue.check_invariants()
    spoil(queue)
    with pytest.raises(AssertionError):
        queue.check_invariants()


def test_a_gap_is_refused_where_it_would_arise(tmp_path: Path):
    queue = queue_of(tmp_path, 2)
    with pytest.raises(AssertionError, match=r"^a gap between files is damage to the next start\b"):
        queue.append_file(3 * SIZE)
    queue.drop_first()
    with pytest.raises(AssertionError, match="last file"):
        queue.drop_first()
    queue.flush(SIZE + 10)
    with pytest.raises(AssertionError):
        queue.flush(SIZE + 9)
    queue.close()


@pytest.fixture
def half(tmp_path: Path) -> list[tuple[str, int]]:
    """Paths and offsets of three files: one half written, two empty, the last of them in another directory."""
    for number, place in enumerate(("a", "a", "b")):
        (tmp_path / place).mkdir(exist_ok=True)
        (tmp_path / place / f"{number * SIZE:020d}").write_bytes(b"\1" * (SIZE // 2 if not number else 0) + bytes(SIZE))
        os.truncate(tmp_path / place / f"{number * SIZE:020d}", SIZE)
    return [(str(tmp_path / place / f"{n * SIZE:020d}"), n * SIZE) for n, place in enumerate(("a", "a", "b"))]


def files_of(folder: Path) -> dict[str, int]:
    """Inodes of the files that are there, by name."""
    return {path.name: path.stat().st_ino for path in folder.rglob("0*")}


@pytest.mark.parametrize("ahead", [False, True])
def test_a_file_that_is_there_unused_is_taken_and_durable(
    tmp_path: Path, half: list[tuple[str, int]], ahead: bool
) -> None:
    before, effects = files_of(tmp_path), Faulty()
    config = StoreConfig.from_keys({"mappedFileSizeCommitLog": SIZE})
    queue = MappedFileQueue.of([str(tmp_path / "a")], config, effects)
    if not ahead:
        queue.allocation = None
    queue.load(half[:1], SIZE // 2, unused=half[1:])
    for path, start in half[1:]:
        file = queue.append_file(start)
        assert (file.path, file.wrote, file.start) == (path, 0, start)
        calls = [name for name, at in effects.calls if at in (path, str(Path(path).parent))]
        assert calls.index("open_write") < calls.index("sync") < calls.index("sync_dir") and "create" not in calls
        file.wrote = SIZE
    queue.append_file(3 * SIZE)
    assert effects.count("unlink") == 0
    queue.close()
    after = files_of(tmp_path)
    assert {name: after[name] for name in before} == before and len(after) == 4


def test_what_stays_unused_is_removed_at_the_end_the_last_first(
    tmp_path: Path, half: list[tuple[str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    effects = Faulty()
    effects.refuse("unlink", part=half[2][0], error=errno.EROFS, times=1)
    queue = MappedFileQueue([str(tmp_path / "a")], SIZE, effects)
    queue.load(half[:1], SIZE // 2, unused=half[1:])
    queue.close()
    assert [path for name, path in effects.calls if name == "unlink"] == [half[2][0], half[1][0]]
    assert f"{half[2][0]} was never used and cannot be removed (Read-only file system)" in caplog.text
    assert sorted(files_of(tmp_path)) == [f"{0:020d}", f"{2 * SIZE:020d}"]


def test_it_stays_where_another_process_may_own_it(tmp_path: Path, half: list[tuple[str, int]]) -> None:
    queue = MappedFileQueue.of([str(tmp_path / "a")], StoreConfig.from_keys({"mappedFileSizeCommitLog": SIZE}))
    queue.load(half[:1], SIZE // 2, unused=half[1:])
    queue.leave_spares()
    queue.close()
    assert len(files_of(tmp_path)) == 3


def test_an_unused_file_that_went_is_made(tmp_path: Path, half: list[tuple[str, int]]) -> None:
    queue = MappedFileQueue([str(tmp_path / "a")], SIZE, Faulty())
    queue.load(half[:1], SIZE // 2, unused=half[1:2])
    Path(half[1][0]).unlink()
    assert queue.append_file(SIZE).path == half[1][0] and Path(half[1][0]).stat().st_size == SIZE
    queue.close()
