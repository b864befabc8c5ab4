"""Where units are written: hand-made queues, hand-made bytes."""

import os
import threading
from array import array
from pathlib import Path

import pytest

from flintmq.format.batch_queue import BATCH_UNIT, BatchUnit
from flintmq.format.consume_queue import UNIT, Unit
from flintmq.store.commitlog.report import Report
from flintmq.store.consumequeue.writer import BatchQueueWriter, OpenFiles, QueueWriter, offset_is_implausible
from tests.support.faults import Faulty

BLANK = Unit(0, 0x7FFFFFFF, 0)
EMPTY = Unit(0, 0, 0)


class Queue:
    """A queue of five units a file."""

    def __init__(self, root: Path, ext: int = 0) -> None:
        self.report, self.files = Report(), OpenFiles(most=2)
        self.folder = root / "consumequeue" / "T" / "0"
        self.writer = QueueWriter(self.files, str(root), "consumequeue/T/0", 100, ext, self.report)

    def place(self, *offsets: int) -> None:
        """Units whose position tells their offset, in this order."""
        units = b"".join(UNIT.pack(unit(offset)) for offset in offsets)
        count = len(offsets)
        self.writer.place(memoryview(array("q", offsets)), array("q", [1000] * count), memoryview(units), 0, count)

    def content(self) -> dict[int, list[Unit]]:
        """First queue offset of each file -> its units."""
        self.files.close()
        return {
            int(path.name) // 20: [UNIT.unpack(path.read_bytes(), at) for at in range(0, 100, 20)]
            for path in sorted(self.folder.iterdir())
        }


def unit(offset: int) -> Unit:
    return Unit(1000 + offset, 77, -offset)


def test_units_stand_at_their_offsets_across_files(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.place(0, 1, 2)
    queue.place(3, 4, 5, 6)
    assert queue.content() == {0: [unit(n) for n in range(5)], 5: [unit(5), unit(6), EMPTY, EMPTY, EMPTY]}
    assert not queue.report.notes


def test_a_queue_that_begins_late_is_pre_blank_from_its_file_s_beginning(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.place(12, 13)
    assert queue.content() == {10: [BLANK, BLANK, unit(12), unit(13), EMPTY]}


def test_a_hole_is_pre_blank_and_misaligns_nothing(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.place(3, 12)
    assert queue.content() == {
        0: [BLANK, BLANK, BLANK, unit(3), BLANK],
        5: [BLANK] * 5,
        10: [BLANK, BLANK, unit(12), EMPTY, EMPTY],
    }
    assert queue.report.note_counts == {"hole": 1}


def test_a_hole_that_the_log_could_not_have_held_is_no_hole(tmp_path: Path) -> None:
    """Nothing protects a queue offset: a wrong one must not make gigabytes of pre-blank units."""
    queue = Queue(tmp_path)
    for offset in (0, 1 << 40, 1, 1 << 62, 2):  # one by one, so that none is denied by the next
        queue.place(offset)
    assert queue.content() == {0: [unit(0), unit(1), unit(2), EMPTY, EMPTY]}
    assert queue.report.note_counts == {"far_offset": 2}


def test_holes_in_all_are_no_more_than_the_log_could_have_held(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    for offset in range(0, 40_000, 400):
        queue.place(offset)
    assert queue.report.note_counts["far_offset"] > 50 > queue.report.note_counts["hole"]


def test_a_first_offset_beyond_64_bits_of_bytes_has_no_place(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.place((1 << 63) // 20)
    assert not queue.folder.exists() and queue.report.note_counts == {"far_offset": 1}


def test_the_first_of_two_units_stays(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.place(1, 2)
    before = queue.content()
    queue.writer.place(memoryview(array("q", [2])), array("q", [1]), memoryview(bytes(20)), 0, 1)
    assert queue.content() == before and queue.report.note_counts == {"repeat": 1}


def test_offset_zero_again_begins_the_queue_anew(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.place(*range(7))
    queue.place(0, 1)
    assert queue.content() == {0: [unit(0), unit(1), EMPTY, EMPTY, EMPTY]}
    assert queue.report.note_counts == {"begun_again": 1}


def test_a_negative_offset_has_no_place(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.place(-1, 0)
    assert queue.content() == {0: [unit(0), *[EMPTY] * 4]}
    assert queue.report.note_counts == {"negative_offset": 1}


def test_with_an_ext_queue_units_hold_addresses(tmp_path: Path) -> None:
    queue = Queue(tmp_path, ext=50)
    queue.place(0, 1, 2)
    codes = [one.tags_code for one in queue.content()[0][:3]]
    assert codes == [-(1 << 63), -(1 << 63) + 20, -(1 << 63) + 50]
    ext = sorted((tmp_path / "consumequeue_ext" / "T" / "0").iterdir())
    assert [path.name for path in ext] == [f"{0:020d}", f"{50:020d}"]
    first = ext[0].read_bytes()
    assert first[:20].hex() == "0014000000000000000000000000000003e80000"
    assert first[20:40].hex() == "0014ffffffffffffffff00000000000003e80000"
    assert first[40:] == b"\xff\xff" + bytes(8)


def test_batch_units_are_appended_and_never_cut(tmp_path: Path) -> None:
    files = OpenFiles()
    writer = BatchQueueWriter(files, str(tmp_path), "batchconsumequeue/T/0", 100)
    units = [BatchUnit(n, 10, 0, 5, n * 3, 3) for n in range(3)]
    for one in units:
        writer.put(one)
    files.close()
    one, two = sorted((tmp_path / "batchconsumequeue" / "T" / "0").iterdir())
    assert one.read_bytes() == BATCH_UNIT.pack(units[0]) + BATCH_UNIT.pack(units[1]) + bytes(8)
    assert (two.name, two.read_bytes()[:46]) == (f"{100:020d}", BATCH_UNIT.pack(units[2]))


def test_a_batch_queue_that_is_made_again_begins_at_0_and_a_repeat_is_left_out(tmp_path: Path) -> None:
    """By the log offset: records that are dispatched again are not taken for a new life of the topic."""
    files = OpenFiles()
    folder = tmp_path / "batchconsumequeue" / "T" / "0"
    writer = BatchQueueWriter(files, str(tmp_path), "batchconsumequeue/T/0", 92)
    before = [BatchUnit(100 * n, 10, 0, 5, n * 3, 3) for n in range(3)]
    after = [BatchUnit(300 + 100 * n, 10, 0, 5, n * 2, 2) for n in range(2)]
    for one in (*before, *before, *after, after[0], BatchUnit(900, 10, 0, 5, 1, 2)):
        writer.take(one)
    assert (writer.next, writer.last) == (4, 400)
    files.close()
    assert [path.name for path in folder.iterdir()] == [f"{0:020d}"]
    assert (folder / f"{0:020d}").read_bytes() == BATCH_UNIT.pack(after[0]) + BATCH_UNIT.pack(after[1])


def test_a_flush_does_not_hold_up_who_writes_and_forgets_nothing(tmp_path: Path):
    effects = Faulty()
    files = OpenFiles(effects)
    path = str(tmp_path / "queue" / "0")
    files.write(path, 100, b"a", 0)

    def before(call: str, at: str) -> None:
        if call == "sync" and at == path:
            effects.before = None
            writer = threading.Thread(target=files.write, args=(path, 100, b"b", 1), daemon=True)
            writer.start()
            writer.join(10)
            assert not writer.is_alive(), "it can write while the disk works"

    effects.before = before
    files.flush()
    assert files.dirty == {path}, "what came meanwhile is for the next flush"
    effects.refuse("sync", path, times=1)
    with pytest.raises(OSError):
        files.flush()
    assert files.dirty == {path}
    files.flush()
    assert files.dirty == set()
    files.close()


def test_names_that_may_not_be_on_disk_are_synced_with_what_is_written(tmp_path: Path):
    """A kill may have come between a queue file's creation and the sync of its directory."""
    path = tmp_path / "consumequeue" / "T" / "0" / "0"
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(100))
    for unsure in (False, True):
        effects = Faulty()
        files = OpenFiles(effects)
        if unsure:
            files.doubt_names()
        files.write(str(path), 100, b"x", 0)
        files.flush()
        assert (effects.count("sync_dir") == 3) == unsure
        files.close()


def known_files(folder: Path, effects: Faulty, count: int) -> tuple[OpenFiles, list[str]]:
    """Files that begin with "abcdef", and are known to."""
    files, paths = OpenFiles(effects), []
    files.doubt_names()
    for number in range(count):
        path = folder / "consumequeue" / f"T{number}" / "0" / "0"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"abcdef" + bytes(94))
        files.know(str(path), b"abcdef")
        paths.append(str(path))
    return files, paths


def test_what_a_file_is_known_to_hold_is_written_by_the_next_flush(tmp_path: Path):
    """Not at once. But written: the page may be one whose sync failed, and that the kernel takes for written."""
    path = tmp_path / "consumequeue" / "T" / "0" / "0"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"abcdef" + bytes(94))
    effects = Faulty()
    files = OpenFiles(effects)
    files.doubt_names()
    files.know(str(path), b"abcdef")
    files.write(str(path), 100, b"cd", 2)
    files.write(str(path), 100, memoryview(b"ef"), 4)
    assert effects.count("open_write") == effects.count("pwrite") == 0
    files.flush()
    assert (effects.count("pwrite"), effects.count("sync"), effects.count("sync_dir")) == (1, 1, 3)
    files.write(str(path), 100, b"fX", 5)  # goes on after what is known
    files.write(str(path), 100, b"a", 0)  # known before, but the file has changed since
    assert effects.count("pwrite") == 3
    assert path.read_bytes() == b"abcdefX" + bytes(93)
    files.close()


def test_a_file_that_is_written_before_the_flush_keeps_the_newer_bytes(tmp_path: Path):
    """What it was known to hold is written first, and by no flush afterwards."""
    effects = Faulty()
    files, [path] = known_files(tmp_path, effects, 1)
    files.write(path, 100, b"ab", 0)
    files.write(path, 100, b"X", 1)
    assert effects.count("pwrite") == 2
    files.flush()
    assert effects.count("pwrite") == 2 and Path(path).read_bytes() == b"aXcdef" + bytes(94)
    files.close()


@pytest.mark.parametrize("name", ["open_write", "pwrite"])
def test_what_could_not_be_written_again_is_not_forgotten(tmp_path: Path, name: str):
    effects = Faulty()
    files, paths = known_files(tmp_path, effects, 2)
    for path in paths:
        files.write(path, 100, b"ab", 0)
    effects.refuse(name, paths[1] if name == "open_write" else "", times=1)
    with pytest.raises(OSError):
        files.flush()
    assert effects.count("sync") == 0 and files.dirty == set(paths)
    before = effects.count("pwrite")
    files.flush()
    assert effects.count("pwrite") > before and effects.count("sync") == 2 and not files.dirty
    files.close()


def test_a_file_that_was_removed_is_not_written_again(tmp_path: Path):
    effects = Faulty()
    files, [path] = known_files(tmp_path, effects, 1)
    files.write(path, 100, b"ab", 0)
    files.forget(path)
    files.flush()
    assert effects.count("pwrite") == effects.count("open_write") == 0
    files.close()


def test_nothing_is_known_of_a_file_that_was_removed_or_once_names_are_trusted(tmp_path: Path):
    path = str(tmp_path / "consumequeue" / "T" / "0" / "0")
    for end in (lambda files: files.forget(path), OpenFiles.trust_names):
        effects = Faulty()
        files = OpenFiles(effects)
        files.doubt_names()
        files.know(path, b"abc")
        end(files)
        files.write(path, 100, b"abc", 0)
        assert effects.count("pwrite") == 1
        files.close()


def test_known_content_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flintmq.store.consumequeue.writer.KNOWN_BYTES", 10)
    files = OpenFiles(Faulty())
    files.doubt_names()
    for name, data in (("a", b"1234567"), ("b", b"1234"), ("c", b"123"), ("a", b"7654321")):
        files.know(name, data)
    assert files.known == {"a": b"1234567", "c": b"123"}
    with pytest.raises(AssertionError):
        OpenFiles().know("a", b"1")


def test_before_many_files_are_synced_the_file_system_is_told_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each of them is synced all the same: the call promises nothing."""
    monkeypatch.setattr("flintmq.store.consumequeue.writer.MANY_FILES", 3)
    for count in (2, 3):
        effects, told = Faulty(), list[tuple[str, int]]()
        monkeypatch.setattr(
            effects, "start_sync_all", lambda path, told=told, disk=effects: told.append((path, disk.count("sync")))
        )
        files, paths = known_files(tmp_path, effects, count)
        for path in paths:
            files.write(path, 100, b"ab", 0)
        files.flush()
        assert told == [(str(tmp_path / "consumequeue" / "T0"), 0)] * (count > 2)
        assert effects.count("sync") == effects.count("pwrite") == count
        assert effects.count("sync_dir") == 2 * count + 1
        assert not files.dirty and not files.grown
        files.close()


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Three known files that dispatch wrote again, on a disk that tells all errors by one sync."""
    monkeypatch.setattr("flintmq.store.consumequeue.writer.MANY_FILES", 3)
    monkeypatch.setattr(Faulty, "open_disk", lambda self, path: os.open(path, os.O_RDONLY))
    effects = Faulty()
    files, paths = known_files(tmp_path, effects, 3)
    files.doubt_names(str(tmp_path / "consumequeue"))
    for path in paths:
        files.write(path, 100, b"ab", 0)
    yield files, effects, paths
    files.close()


Many = tuple[OpenFiles, Faulty, list[str]]


def test_where_the_kernel_tells_all_errors_one_sync_stands_for_those_of_many_files(many: Many):
    files, effects, _ = many
    files.flush()
    assert effects.count("sync_disk") == 1 and effects.count("sync") == effects.count("sync_dir") == 0
    assert effects.calls.index(("sync_disk", effects.calls[-1][1])) > max(
        n for n, (name, _) in enumerate(effects.calls) if name == "pwrite"
    ), "the bytes are written again before it"
    assert not files.dirty and not files.grown and files._disk is None
    files.flush()
    assert effects.count("sync_disk") == 1, "once, after the start"


def test_a_file_on_another_file_system_is_synced_by_itself(many: Many, monkeypatch: pytest.MonkeyPatch):
    files, effects, paths = many
    other = os.path.dirname(paths[1])
    monkeypatch.setattr(Faulty, "is_on_disk", lambda self, disk, path: not path.startswith(other))
    files.flush()
    assert [path for name, path in effects.calls if name == "sync"] == [paths[1]]
    assert [path for name, path in effects.calls if name == "sync_dir"] == [other]
    assert effects.count("sync_disk") == 1 and not files.dirty and not files.grown


def test_a_sync_of_the_file_system_that_fails_is_a_failed_sync_of_all(many: Many):
    files, effects, paths = many
    grown = set(files.grown)
    effects.refuse("sync_disk", times=1)
    with pytest.raises(OSError):
        files.flush()
    assert files.dirty == set(paths) and files.grown == grown and effects.count("sync") == 0
    assert files._disk is None, "what it would tell later is no longer the truth: the next flush syncs file by file"
    files.flush()
    assert effects.count("sync_disk") == 1 and effects.count("sync") == 3 and not files.dirty


def test_what_is_written_while_the_file_system_is_synced_is_left_to_the_next_flush(
    many: Many, monkeypatch: pytest.MonkeyPatch
):
    files, effects, paths = many
    new = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(paths[0]))), "new", "0", "0")

    def sync_disk(self: Faulty, disk: int) -> None:
        files.write(paths[2], 100, b"X", 7)
        files.write(new, 100, b"X", 0)

    monkeypatch.setattr(Faulty, "sync_disk", sync_disk)
    rest = files._flush_disk(files._disk or 0, sorted(files.dirty))
    assert rest == [] and files.dirty == {paths[2], new}
    assert os.path.dirname(new) in files.grown
    files.flush()
    assert not files.dirty and not files.grown


def test_the_file_system_is_opened_before_files_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The kernel tells a descriptor what failed since it was opened: later on it would be too late."""
    opened: list[str] = []
    monkeypatch.setattr(Faulty, "open_disk", lambda self, path: opened.append(path))
    files, paths = known_files(tmp_path, Faulty(), 3)
    folder = str(tmp_path / "consumequeue")
    files.doubt_names(folder)
    assert opened == [folder]
    files.write(paths[0], 100, b"ab", 0)
    files.flush()
    assert opened == [folder]
    files.close()


def test_few_files_are_synced_one_by_one_and_the_descriptor_goes(many: Many, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flintmq.store.consumequeue.writer.MANY_FILES", 4)
    files, effects, _ = many
    files.flush()
    assert effects.count("sync") == 3 and effects.count("sync_disk") == 0 and files._disk is None


def test_in_the_midst_of_a_life_the_file_system_is_not_told_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It would write the log, and what other programs changed, once a second."""
    monkeypatch.setattr("flintmq.store.consumequeue.writer.MANY_FILES", 3)
    effects = Faulty()
    monkeypatch.setattr(effects, "start_sync_all", lambda path: pytest.fail("told to write"))
    files = OpenFiles(effects)
    for number in range(5):
        files.write(str(tmp_path / "consumequeue" / f"T{number}" / "0" / "0"), 100, b"x", 0)
    files.flush()
    assert effects.count("sync") == 5 and not files.dirty
    files.close()


def test_a_directory_that_was_not_synced_stays_noted(tmp_path: Path):
    effects = Faulty()
    files = OpenFiles(effects)
    topic = tmp_path / "consumequeue" / "T"
    files.write(str(topic / "0" / "0"), 100, b"x", 0)
    effects.refuse("sync_dir", str(topic), after=1, times=1)
    with pytest.raises(OSError):
        files.flush()
    assert files.grown == {str(topic), str(topic.parent)} and not files.dirty
    files.flush()
    assert not files.grown
    files.close()


@pytest.mark.parametrize(
    ("offsets", "expected", "denied"),
    [([9, 5], 4, True), ([9, 4], 4, True), ([0, 5], 4, True), ([2, 5], 4, True), ([9, 5, 6], -1, True),
     ([9, 10], 4, False), ([9, 6], 4, False), ([0, 1], 4, False), ([0, 1], 1, False), ([0, 1], 0, False),
     ([4, 5], 4, False), ([3, 4], 4, False), ([9], 4, False), ([9, -1], 4, False), ([9, 5, 7], -1, False),
     ([9, 5], -1, False), ([9, 0, 1], -1, False), ([9, 10, 11], -1, False), ([3, 5, 6], -1, False),
     ([5, 5, 6], -1, False)],
)  # fmt: skip
def test_the_next_records_of_a_queue_deny_a_place(offsets: list[int], expected: int, denied: bool):
    """Denied is only what no sound queue shows: holes, repeats and queues begun again are none of it."""
    assert offset_is_implausible([77, *offsets, 78], 1, 1 + len(offsets), expected) == denied


@pytest.mark.parametrize("lie", [0, 2, 3, 9, 70, 4 + (1 << 40), -3])
@pytest.mark.parametrize("at", [1, 5, 8])
def test_a_record_whose_place_is_denied_costs_no_other_its_place(tmp_path: Path, lie: int, at: int):
    """Else a jump pushes out those behind it, and an offset of 0 all before it."""
    queue = Queue(tmp_path)
    queue.place(*(lie if n == at else n for n in range(10)))
    found = [unit for units in queue.content().values() for unit in units]
    assert found == [BLANK if n == at else unit(n) for n in range(10)]
