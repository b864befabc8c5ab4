import os
import struct
from pathlib import Path

import pytest

from flintmq.errors import StoreAccessError
from flintmq.format.batch_queue import BatchUnit
from flintmq.format.consume_queue import Unit
from flintmq.storage.files.filesystem import Effects
from flintmq.store.consumequeue.reader import ExtQueue, HeldFiles, batch_queue, plain_queue
from flintmq.store.layout.queue_name import QueueName, is_path, queue_names
from tests.support.makers import patch

NAME = QueueName("T", 0)
PRE_BLANK = "0000000000000000 7fffffff 0000000000000000"


def unit(physical_offset, size=100, tags=7):
    return struct.pack(">qiq", physical_offset, size, tags)


def batch_unit(physical_offset, base, messages):
    return struct.pack(">qiqqqhii", physical_offset, 100, 7, 1000, base, messages, -1, 0)


def queue(root, *files, kind="consumequeue", topic="T"):
    """Write a queue's files, given as (start in bytes, content)."""
    folder = root / kind / topic / "0"
    folder.mkdir(parents=True, exist_ok=True)
    for start, data in files:
        (folder / f"{start:020d}").write_bytes(data)
    return plain_queue(str(root), NAME) if kind == "consumequeue" else batch_queue(str(root), NAME)


def test_units_over_several_files(tmp_path):
    found = queue(tmp_path, (40, unit(1) + unit(2)), (80, unit(3) + bytes(20)))
    assert (found.first, found.end()) == (2, 5)
    assert [n for n in range(8) if found.unit(n) is not None] == [2, 3, 4, 5]
    assert found.unit(4) == Unit(3, 100, 7)
    assert [(n, u.physical_offset) for n, u in found.units(0, 99)] == [(2, 1), (3, 2), (4, 3), (5, 0)]
    assert [n for n, _ in found.units(3, 5)] == [3, 4]
    assert found.read(3, 5) == [Unit(2, 100, 7)]  # of one file
    assert found.bisect(lambda u: u.physical_offset < 3, 5) == 4
    assert found.bisect(lambda u: u.physical_offset < 9, 5) == 5


def test_a_queue_that_has_no_files(tmp_path):
    found = plain_queue(str(tmp_path), NAME)
    assert (found.files, found.first, found.end(), found.unit(0)) == ((), 0, 0, None)
    assert list(found.units(0, 10)) == [] and found.bisect(lambda u: True, 0) == 0


@pytest.mark.parametrize("written", [0, 1, 2, 3, 49, 50, 63, 64])
@pytest.mark.parametrize("size", [64, 300_000])
def test_the_end_is_where_zeros_begin(tmp_path, written, size):
    data = b"".join(unit(100 * n) for n in range(written))
    folder = tmp_path / "consumequeue" / "T" / "0"
    folder.mkdir(parents=True)
    with open(folder / ("0" * 20), "wb") as file:
        file.write(data)
        file.truncate(20 * size)
    assert plain_queue(str(tmp_path), NAME).end() == written


def test_a_last_file_of_zeros_is_stepped_over(tmp_path):
    assert queue(tmp_path, (0, unit(1) * 2), (40, bytes(40))).end() == 2
    assert queue(tmp_path / "none", (40, bytes(40))).end() == 2


def test_a_hole_in_a_file_does_not_hide_what_follows(tmp_path):
    data = unit(1) * 30_000
    for start, stop in ((4096, 8192), (400_000, 404_096), (20, 40)):
        data = data[:start] + bytes(stop - start) + data[stop:]
    assert queue(tmp_path, (0, data + bytes(20 * 100))).end() == 30_000


def test_pre_blank_units_lead_nowhere(tmp_path):
    found = queue(tmp_path, (0, bytes.fromhex(PRE_BLANK) * 3 + unit(0) + bytes(20)))
    assert found.end() == 4
    assert [found.points_to_record(u) for _, u in found.units(0, 5)] == [False, False, False, True, False]
    assert found.span(3, found.unit(3)) == (3, 4) and found.number_of(3) == 3


@pytest.mark.parametrize("lost", [bytes(20), bytes.fromhex(PRE_BLANK)], ids=["zeros", "pre-blank"])
@pytest.mark.parametrize("log_begin", [0, 150, 400, 700, 5000])
def test_the_first_unit_that_is_kept_is_found_whatever_is_missing(tmp_path, lost, log_begin):
    """Every choice of missing ones among eight units in two files, of records at 100, 200, ..."""
    for missing in range(256):
        there = [not missing >> n & 1 for n in range(8)]
        data = b"".join(unit(100 * n + 100) if there[n] else lost for n in range(8))
        found = queue(tmp_path, (0, data[:100]), (100, data[100:]))
        kept = [n for n in range(8) if there[n] and 100 * n + 100 >= log_begin]
        assert found.first_kept(log_begin, 8) == min(kept, default=8), missing


def test_batch_units_say_where_they_begin(tmp_path):
    units = [(0, 0, 4), (100, 4, 1), (200, 5, 11), (300, 16, 2)]
    found = queue(tmp_path, (0, b"".join(batch_unit(*u) for u in units) + bytes(92)), kind="batchconsumequeue")
    assert found.end() == 4
    assert found.unit(2) == BatchUnit(200, 100, 7, 1000, 5, 11, -1, 0)
    assert [found.number_of(offset) for offset in (0, 3, 4, 5, 15, 16, 17, 18)] == [0, 0, 1, 2, 2, 3, 3, 4]
    assert found.span(2, found.unit(2)) == (5, 16)


def test_odd_files_have_no_units(tmp_path):
    queue(tmp_path, (0, unit(1) * 5), (60, unit(9) * 2 + b"xyz"))  # the first is longer than its place
    folder = tmp_path / "consumequeue" / "T" / "0"
    (folder / "notes").write_bytes(unit(5))
    (folder / "123").write_bytes(unit(5))
    (folder / f"{200:020d}").write_bytes(b"")
    (folder / f"{220:020d}").write_bytes(b"short")
    (folder / f"{233:020d}").write_bytes(unit(5))  # begins inside a unit
    (folder / f"{10**19:020d}").write_bytes(unit(5))  # beyond 64 bits
    (folder / f"{400:020d}").mkdir()
    (folder / f"{440:020d}").symlink_to(folder / "notes")
    os.mkfifo(folder / f"{480:020d}")
    found = plain_queue(str(tmp_path), NAME)
    assert [(file.start, file.size) for file in found.files] == [(0, 60), (60, 40)]
    assert [u.physical_offset for _, u in found.units(0, 99)] == [1, 1, 1, 9, 9]
    assert found.end() == 5


def test_files_that_vanish_or_shrink_give_less(tmp_path):
    found = queue(tmp_path, (0, unit(1) * 4), (80, unit(2) * 4))
    folder = tmp_path / "consumequeue" / "T" / "0"
    os.truncate(folder / f"{80:020d}", 30)
    assert (found.unit(4), found.unit(5), found.end()) == (Unit(2, 100, 7), None, 5)
    (folder / f"{80:020d}").unlink()
    assert (found.unit(4), found.end()) == (None, 4)
    (folder / f"{0:020d}").unlink()
    assert list(found.units(0, 99)) == [] and found.end() == 0


def test_a_read_after_the_files_were_closed_takes_no_number_that_another_file_got(tmp_path):
    found = queue(tmp_path, (0, unit(1) + unit(2)))
    held, effects = HeldFiles(str(tmp_path), Effects()), Effects()
    number = held.descriptor(found.files[0])
    held.close()
    (tmp_path / "other").write_bytes(b"x" * 40)
    other = effects.open_read(str(tmp_path / "other"))
    assert other == number  # the system gives it again
    assert held.read(found.files[0], 20, 20) == unit(2)
    held.close()
    assert effects.pread(other, 1, 0) == b"x"
    effects.close(other)


def test_nothing_below_the_queues_directory_may_be_a_link(tmp_path):
    queue(tmp_path / "elsewhere", (0, unit(1)), kind="x")
    queue(tmp_path, (0, unit(1)))
    folder = tmp_path / "consumequeue"
    (folder / "Linked").symlink_to(tmp_path / "elsewhere" / "x" / "T")
    (folder / "T" / "1").symlink_to(tmp_path / "elsewhere" / "x" / "T" / "0")
    assert plain_queue(str(tmp_path), QueueName("Linked", 0)).files == ()
    assert plain_queue(str(tmp_path), QueueName("T", 1)).files == ()
    assert plain_queue(str(tmp_path), QueueName("T", 0)).end() == 1
    # The directory itself may be one.
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "consumequeue").symlink_to(folder)
    assert plain_queue(str(tmp_path / "other"), QueueName("T", 0)).end() == 1


def test_a_file_that_becomes_a_link_is_refused(tmp_path):
    found = queue(tmp_path, (0, unit(1)))
    file = tmp_path / "consumequeue" / "T" / "0" / ("0" * 20)
    file.rename(tmp_path / "moved")
    file.symlink_to(tmp_path / "moved")
    with pytest.raises(StoreAccessError, match="symbolic link"):
        found.unit(0)


def test_names_of_queues(tmp_path):
    for name in ("B/1", "B/10", "B/2", "A/0", "A/-3", "A/007", "A/x", "A/99999999999", "A/2147483648", "主题/0"):
        (tmp_path / "consumequeue" / name).mkdir(parents=True)
    (tmp_path / "consumequeue" / "file").write_bytes(b"")
    found = queue_names(str(tmp_path), "consumequeue")
    assert found == [("A", -3), ("A", 0), ("B", 1), ("B", 2), ("B", 10), ("主题", 0)]
    assert queue_names(str(tmp_path), "batchconsumequeue") == []


@pytest.mark.parametrize(
    ("topic", "good"),
    [("T", True), ("%RETRY%g", True), ("..x", True), ("é" * 127, True), ("é" * 128, False)]
    + [(bad, False) for bad in ("", ".", "..", "a/b", "/", "a\0b", "\ud800")],
)
def test_topics_that_can_be_a_path(tmp_path, topic, good):
    assert is_path(topic) == good
    assert plain_queue(str(tmp_path), QueueName(topic, 0)).files == ()


def test_every_unit_that_java_wrote_leads_to_its_record(golden_store):
    """The files of a store that stopped cleanly; what they hold beyond the log is for the view to tell."""
    sizes = {row["physical_offset"]: row["size"] for row in golden_store.rows}
    begin = min(sizes)
    count = 0
    for kind, make in (("consumequeue", plain_queue), ("batchconsumequeue", batch_queue)):
        for name in queue_names(str(golden_store.path), kind):
            found = make(str(golden_store.path), name)
            for _, one in found.units(found.first, found.end()):
                if begin <= one.physical_offset and one.physical_offset in sizes:
                    assert one.size == sizes[one.physical_offset]
                    count += 1
    assert count > 0


def test_the_extension_holds_what_the_tags_field_would(golden):
    store = golden("cqext")
    tags = {row["physical_offset"]: row for row in store.rows}
    count = 0
    for name in queue_names(str(store.path), "consumequeue"):
        units, ext = plain_queue(str(store.path), name), ExtQueue.of(str(store.path), name)
        assert len(ext.files) > 1
        for _, one in units.units(0, units.end()):
            found = ext.unit(one.tags_code)
            assert found.store_timestamp == tags[one.physical_offset]["store_timestamp"]
            assert (found.tags_code == 0) == (tags[one.physical_offset]["tags"] is None)
            count += 1
    assert count == len(store.rows)


def test_addresses_that_lead_nowhere(tmp_path):
    folder = tmp_path / "consumequeue_ext" / "T" / "0"
    folder.mkdir(parents=True)
    (folder / ("0" * 20)).write_bytes(struct.pack(">hqqh", 20, 5, 6, 0) + struct.pack(">hqqh", 40, 5, 6, 0))
    ext = ExtQueue.of(str(tmp_path), NAME)
    low = -(1 << 63)
    assert ext.unit(low).tags_code == 5
    assert [ext.unit(code) for code in (7, low + 20, low + 40, low + 1 << 40)] == [None, None, None, None]
    (folder / ("0" * 20)).unlink()
    assert ext.unit(low) is None
    assert ExtQueue.of(str(tmp_path), QueueName("..", 0)).files == ()


class Opens(Effects):
    """Counts what is opened and read."""

    def __init__(self) -> None:
        self.opened, self.read = 0, 0

    def open_read(self, path: str, below: str | None = None) -> int:
        self.opened += 1
        return super().open_read(path, below)

    def pread(self, fd: int, count: int, position: int) -> bytes:
        self.read += count
        return super().pread(fd, count, position)


@pytest.mark.parametrize("written", [0, 1, 204, 205, 3277, 50_000, 299_999, 300_000])
@pytest.mark.parametrize("holes", [True, False])
def test_the_end_of_a_large_file_is_found_with_few_looks(written: int, holes: bool, tmp_path: Path) -> None:
    """A file of default size, sparse or with all its blocks, and a unit behind a hole."""
    folder = tmp_path / "consumequeue" / "T" / "0"
    folder.mkdir(parents=True)
    with open(folder / f"{0:020d}", "wb") as file:
        file.write(b"\1" * 20 * written)
        file.truncate(6_000_000)
        if not holes:
            file.write(bytes(6_000_000 - 20 * written))
    disk = Opens()
    queue = plain_queue(str(tmp_path), QueueName("T", 0), disk)
    with queue.held() as held:
        assert held.end() == written
        assert held.first_kept(0, written) == 0
    assert disk.opened == 1
    if holes:
        assert disk.read <= 140_000, "of six million bytes"
    if written < 299_999:
        patch(folder / f"{0:020d}", 5_999_980, b"\2" * 20)
        assert plain_queue(str(tmp_path), QueueName("T", 0), disk).end() == 300_000
