"""One mapped file: on disk before its first byte, allocated before it is stored to, mapped while somebody holds it."""

import errno
from pathlib import Path

import pytest

from flintmq.storage.memory import mapped_file
from flintmq.storage.memory.mapped_file import MappedFile
from flintmq.storage.memory.transient_pool import TransientStorePool
from tests.support.faults import Faulty

SIZE = 8192


def create(folder: Path, effects: Faulty, size: int = SIZE) -> MappedFile:
    file = MappedFile.create(str(folder / "00000000000000004096"), 4096, size, effects)
    file.reserve(1)  # as whoever puts the first record
    return file


def test_a_new_file_is_zeros_of_full_size_with_blocks(tmp_path: Path):
    file = create(tmp_path, Faulty(), 1 << 20)
    path = tmp_path / "00000000000000004096"
    assert path.stat().st_size == 1 << 20
    assert path.stat().st_blocks * 512 >= 1 << 20, "a store to the map would need a block that may not be there"
    assert path.read_bytes() == bytes(1 << 20)
    assert (file.start, file.size, file.wrote, file.flushed, file.end) == (4096, 1 << 20, 0, 0, 4096)
    file.close()


def test_a_new_file_is_durable_before_it_is_used(tmp_path: Path):
    effects = Faulty()
    create(tmp_path, effects).close()
    assert [name for name, _ in effects.calls] == ["create", "allocate", "sync", "sync_dir", "map_write"]
    assert effects.calls[3][1] == str(tmp_path)


@pytest.mark.parametrize("call", ["create", "allocate", "sync", "sync_dir", "map_write"])
def test_a_file_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path, call: str):
    effects = Faulty()
    effects.refuse(call, error=errno.ENOSPC)
    with pytest.raises(OSError, match="space"):
        create(tmp_path, effects)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_not_made_anew(tmp_path: Path):
    (tmp_path / "00000000000000004096").write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        create(tmp_path, Faulty())
    assert (tmp_path / "00000000000000004096").read_bytes() == b"precious"


def test_what_is_stored_is_in_the_file_and_is_there_again(tmp_path: Path):
    file = create(tmp_path, Faulty())
    file.view[100:105] = b"hello"
    file.wrote = 105
    assert (tmp_path / "00000000000000004096").read_bytes()[100:105] == b"hello"
    file.close()
    again = MappedFile.open(file.path, 4096, SIZE, 105, Faulty())
    assert bytes(again.view[100:105]) == b"hello"
    assert (again.wrote, again.flushed, again.end) == (105, 105, 4201)
    again.close()


def test_blocks_are_taken_a_window_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mapped_file, "WINDOW", 4096)
    effects = Faulty()
    file = create(tmp_path, effects, 10_000)
    assert effects.count("allocate") == 1
    file.reserve(4096)
    assert effects.count("allocate") == 1, "the first window was there"
    file.reserve(4097)
    assert (effects.count("allocate"), file.reserved) == (2, 8192)
    file.reserve(10_000)
    assert (effects.count("allocate"), file.reserved) == (3, 10_000)
    file.reserve(10_000)
    assert effects.count("allocate") == 3
    file.close()


def test_a_whole_file_is_allocated_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mapped_file, "WINDOW", 4096)
    effects = Faulty()
    file = create(tmp_path, effects, 10_000)
    file.allocate_all()
    assert (effects.count("allocate"), file.allocated, file.reserved) == (3, 10_000, 10_000)
    assert (tmp_path / "00000000000000004096").stat().st_blocks * 512 >= 10_000
    file.close()


def test_a_full_disk_is_an_error_of_reserve_and_may_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mapped_file, "WINDOW", 4096)
    effects = Faulty()
    file = create(tmp_path, effects)
    effects.refuse("allocate", error=errno.ENOSPC, times=1)
    with pytest.raises(OSError, match="space"):
        file.reserve(5000)
    assert file.reserved == 4096
    file.reserve(5000)
    assert file.reserved == 8192
    file.close()


def test_flush_syncs_only_what_is_new(tmp_path: Path):
    effects = Faulty()
    file = create(tmp_path, effects)
    file.wrote, before = 10, effects.count("sync")
    file.flush(0)
    assert effects.count("sync") == before
    file.flush(10)
    file.flush(10)
    file.flush(5)
    assert (effects.count("sync"), file.flushed) == (before + 1, 10)
    file.close()


def test_a_refused_flush_flushes_nothing(tmp_path: Path):
    effects = Faulty()
    file = create(tmp_path, effects)
    file.wrote = 10
    effects.refuse("sync", times=1)
    with pytest.raises(OSError):
        file.flush(10)
    assert file.flushed == 0
    file.close()


def test_a_file_stays_mapped_while_somebody_holds_it(tmp_path: Path):
    file = create(tmp_path, Faulty())
    file.view[:5] = b"hello"
    assert file.hold()
    file.close()
    assert bytes(file.view[:5]) == b"hello"
    file.release()
    assert not file.hold(), "it is gone"
    with pytest.raises(ValueError):
        file.view[0]
    with pytest.raises(ValueError):
        file.map[0]


def test_a_file_that_somebody_reads_by_a_view_is_not_unmapped_under_them(tmp_path: Path):
    """Compiled kernels hold a buffer export while they hold a pointer: close raises instead of crashing (B14)."""
    file = create(tmp_path, Faulty())
    view = file.view[:5]
    with pytest.raises(BufferError):
        file.close()
    assert bytes(view) == bytes(5)


def test_a_file_made_ahead_of_its_use_takes_no_blocks_until_then(tmp_path: Path):
    effects = Faulty()
    file = MappedFile.create(str(tmp_path / "ahead"), 0, SIZE, effects, window=0)
    assert (effects.count("allocate"), file.reserved, (tmp_path / "ahead").stat().st_blocks) == (0, 0, 0)
    file.reserve(1)
    assert (effects.count("allocate"), file.reserved) == (1, SIZE)
    file.close()


def test_each_sync_is_of_this_file(tmp_path: Path):
    effects = Faulty()
    file = create(tmp_path, effects)
    assert [path for name, path in effects.calls if name == "sync"] == [file.path]
    file.wrote = 10
    file.flush(10)
    assert [path for name, path in effects.calls if name == "sync"] == [file.path] * 2
    file.close()


def test_a_file_that_is_opened_again_has_its_path_and_its_disk(tmp_path: Path):
    file = create(tmp_path, Faulty())
    file.close()
    effects = Faulty()
    again = MappedFile.open(file.path, 4096, SIZE, 100, effects)
    assert (again.path, again.effects, again.reserved, again.allocated) == (file.path, effects, 100, 100)
    again.reserve(200)
    assert effects.count("allocate") == 1
    again.close()


def test_a_file_that_cannot_be_mapped_is_closed(tmp_path: Path):
    create(tmp_path, Faulty()).close()
    effects = Faulty()
    effects.refuse("map_write", error=errno.ENOMEM)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError) as caught:
        MappedFile.open(str(tmp_path / "00000000000000004096"), 4096, SIZE, 0, effects)
    assert caught.value.errno == errno.ENOMEM
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_who_asks_for_room_tells_where_the_writer_is(tmp_path: Path):
    """The allocation ahead of the writer hears of it: which file, and how far."""
    file = create(tmp_path, Faulty())
    heard: list[tuple[MappedFile, int]] = []
    file.on_reserve(lambda *told: heard.append(told))
    file.reserve(100)
    file.reserve(5000)
    assert heard == [(file, 100), (file, 5000)]
    file.asked = None
    file.close()


def test_a_window_that_is_there_is_not_allocated_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mapped_file, "WINDOW", 4096)
    effects = Faulty()
    file = create(tmp_path, effects)
    file.allocate(4096)
    assert (effects.count("allocate"), file.allocated) == (1, 4096)
    file.allocate(4097)
    file.allocate(SIZE)
    file.allocate(SIZE + 1)
    assert (effects.count("allocate"), file.allocated) == (2, SIZE)
    file.close()


def test_the_invariants_hold_in_a_file_s_life(tmp_path: Path):
    file = create(tmp_path, Faulty())
    file.check_invariants()
    file.wrote = 100
    file.check_invariants()
    file.flush(60)
    file.check_invariants()
    file.wrote = file.size
    file.check_invariants()
    file.close()
    file = MappedFile.open(file.path, 4096, SIZE, 100, Faulty())
    file.check_invariants()
    file.reserve(200)
    file.check_invariants()
    file.close()


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ({"flushed": 101}, "flushed 101, committed 100"),
        ({"flushed": -1}, "flushed -1"),
        ({"wrote": SIZE + 1}, f"wrote {SIZE + 1}"),
        ({"reserved": 99}, "wrote 100, reserved 99"),
        ({"reserved": SIZE + 1}, f"reserved {SIZE + 1}, allocated {SIZE}"),
        ({"allocated": SIZE + 1}, f"allocated {SIZE + 1}, size {SIZE}"),
        ({"_holders": 0}, "in use and unmapped"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_the_invariants_notice_a_broken_file(tmp_path: Path, broken: dict[str, object], told: str):
    file = create(tmp_path, Faulty())
    file.wrote = 100
    kept = {name: getattr(file, name) for name in broken}
    for name, value in broken.items():
        setattr(file, name, value)
    with pytest.raises(AssertionError, match=told):
        file.check_invariants()
    for name, value in kept.items():
        setattr(file, name, value)
    file.check_invariants()
    file.close()


def test_a_hold_is_given_up_once(tmp_path: Path):
    file = create(tmp_path, Faulty())
    file.close()
    with pytest.raises(AssertionError, match="released more often than held"):
        file.release()


def test_what_was_never_put_is_not_flushed_and_no_room_is_behind_the_end(tmp_path: Path):
    file = create(tmp_path, Faulty())
    with pytest.raises(AssertionError):
        file.flush(1)
    with pytest.raises(AssertionError):
        file.reserve(SIZE + 1)
    file.close()


@pytest.mark.parametrize(("count", "in_ring"), [(16384, True), (16385, False)])
def test_an_append_that_is_larger_than_the_ring_goes_to_the_map(tmp_path: Path, count: int, in_ring: bool):
    pool = TransientStorePool(1, 16384)
    file = MappedFile.create(str(tmp_path / "0"), 0, 65536)
    file.enter_ring(pool)
    assert file.reserved == 0, "each byte is asked for"
    file.reserve(count)
    assert file.in_ring is in_ring and file.reserved >= count
    file.close()
    pool.close()
