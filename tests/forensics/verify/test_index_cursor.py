"""One index file: cursor, links, header and slots."""

import struct
from pathlib import Path

from flintmq.forensics.verify.context import Ground
from flintmq.forensics.verify.findings import Findings
from flintmq.forensics.verify.index_cursor import MOST_DEFECTS, IndexItems
from flintmq.forensics.verify.queue_files import Disk
from flintmq.format import index
from flintmq.storage.files.filesystem import REAL
from flintmq.store.layout.file_geometry import IndexGeometry
from tests.support.makers import TIME, IndexMaker, patch

SLOTS, ITEMS = 7, 50
KEYS = [(number * 5 % 23, 1000 + 100 * number, TIME + 700 * number) for number in range(40)]


def make(root: Path, keys: list[tuple[int, int, int]], items: int = ITEMS, **ground: bool) -> tuple[IndexItems, Path]:
    root.mkdir(exist_ok=True)
    (path,) = IndexMaker(SLOTS, items).put(keys).write(root)
    return opened(path, items, **ground), path


def opened(path: Path, items: int = ITEMS, **ground: bool) -> IndexItems:
    header = index.HEADER.unpack(path.read_bytes())
    file = IndexItems(str(path), header, IndexGeometry(SLOTS, items), None, Disk(REAL), Ground(Findings(), **ground))
    file.open()
    return file


def take_all(file: IndexItems) -> dict[str, int]:
    for _, _, time in KEYS[: file.stop - 1]:
        file.pass_item(time)
    file.finish()
    return dict(file.ground.findings.defect_counts)


def test_items_come_in_the_order_of_their_making(tmp_path: Path):
    file, _ = make(tmp_path, KEYS)
    assert (file.number, file.stop, file.offset, file.item.key_hash) == (1, 41, 1000, 0)
    assert [item.physical_offset for item in file.peek(3)] == [1100, 1200, 1300]
    data, count = file.window()
    assert (count, len(data)) == (40, 800)
    assert take_all(file) == {}
    assert (file.number, file.is_full, file.hopeless) == (41, False, False)


def test_the_header_must_be_what_the_items_give(tmp_path: Path):
    for field, code in (("begin_timestamp", 0), ("end_timestamp", 8), ("end_physical_offset", 24), ("slots_used", 32)):
        _, path = make(tmp_path, KEYS)
        patch(path, code, struct.pack(">i", 5) if code == 32 else struct.pack(">q", 5))
        file = opened(path)
        assert take_all(file) == {"index-header": 1}, field


def test_a_file_that_is_written_now_has_no_final_header(tmp_path: Path):
    _, path = make(tmp_path, KEYS)
    patch(path, 8, bytes(8))
    for live, found in ((True, {}), (False, {"index-header": 1})):
        assert take_all(opened(path, live=live)) == found


def test_runs_of_empty_items(tmp_path: Path):
    file, _ = make(tmp_path, [KEYS[1], (0, 0, 0), (0, 0, 0), KEYS[3]])
    assert file.empty_run() == 0
    file.pass_item(KEYS[1][2])
    assert file.empty_run() == 1  # the second one links to the first
    file.drop()
    assert file.empty_run() == 0


def test_a_count_beyond_the_capacity(tmp_path: Path):
    _, path = make(tmp_path, KEYS)
    patch(path, 36, struct.pack(">i", 10**9))
    file = opened(path)
    assert file.stop == ITEMS
    assert file.ground.findings.defect_counts == {"index-header": 1}


def test_it_gives_up_after_very_many_defects(tmp_path: Path):
    file, _ = make(tmp_path, KEYS)
    for _ in range(MOST_DEFECTS):
        assert not file.hopeless
        file.wrong("index-extra", "nothing", "something")
    assert file.hopeless
    file.finish()
    assert file.ground.findings.defect_counts == {"index-extra": MOST_DEFECTS}
