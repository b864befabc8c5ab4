"""The end of a log by a few small reads is the end that a walk of the last file finds."""

import random
import struct
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.storage.files.filesystem import Effects
from flintmq.store.commitlog.end_of_log import StopFacts, read_facts
from flintmq.store.commitlog.log_end import find_end, late_begin
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.snapshot import list_log
from flintmq.testing.write_store import write_store
from tests.compat.replication import GoldenMaster
from tests.support.engine import log_files, message, open_small
from tests.support.makers import patch


class Far(Effects):
    """A disk that counts as far away, and what was read of it."""

    def __init__(self) -> None:
        self.read = 0

    @property
    def remote(self) -> bool:
        return True

    def next_data(self, fd, position):
        return position

    def pread(self, fd, count, position):
        data = super().pread(fd, count, position)
        self.read += len(data)
        return data

    def pread_into(self, fd, buffer, position):
        done = super().pread_into(fd, buffer, position)
        self.read += done
        return done


def ends(path, config=None):
    """(end found from afar, end found by a walk, bytes read from afar)."""
    config, far = config or StoreConfig(), Far()
    root = str(path)
    near = find_end(list_log(root, config), read_facts(root)).offset
    return find_end(list_log(root, config, far), read_facts(root, far)).offset, near, far.read


def test_every_golden_store(golden_store):
    far, near, _ = ends(golden_store.path, StoreConfig.from_keys(golden_store.config))
    assert far == near


@pytest.mark.parametrize("clean", [True, False])
def test_a_tail_of_zeros_is_not_read(tmp_path, clean):
    written = write_store(tmp_path / "s", 3000, clean=clean, commit_log_file_size=64 << 20)
    far, near, read = ends(written.path, written.config)
    assert far == near == written.max_offset
    log = list_log(str(written.path), written.config)
    assert read < (2 << 20) if clean else read < written.max_offset + (3 << 20)
    assert log.limit - near > 60 << 20


def test_the_search_begins_late(tmp_path):
    written = write_store(tmp_path / "s", 3000, commit_log_file_size=64 << 20)
    far = Far()
    root = str(written.path)
    facts = read_facts(root, far)
    begin = late_begin(list_log(root, written.config, far), facts)
    assert begin == facts.named and written.max_offset - begin < 1 << 16
    # The checkpoint knows of a younger record: then nothing is believed.
    assert late_begin(list_log(root, written.config, far), facts.__class__(named=begin, latest=1 << 62)) == 0
    assert late_begin(list_log(root, written.config, far), facts.__class__(named=begin + 1, latest=1)) == 0


@pytest.mark.parametrize("facts", [StopFacts(live=True), StopFacts(clean=False)], ids=["written now", "killed"])
def test_a_record_that_comes_in_pieces_is_before_the_end_when_it_is_whole(tmp_path, facts):
    """A copy of a master's log has a part of its last record for a while; no checksum covers its properties."""
    master = GoldenMaster("533", tmp_path)
    (tmp_path / "copy" / "commitlog").mkdir(parents=True)
    file, config = tmp_path / "copy" / "commitlog" / f"{0:020}", StoreConfig.from_keys(master.config)
    for begin, size in master.records[4:7]:
        for cut in range(begin + 1, begin + size + 1):
            file.write_bytes(master.log[:cut] + bytes(master.file_size - cut))
            end = find_end(list_log(str(tmp_path / "copy"), config), facts).offset
            assert end == (begin + size if cut == begin + size else begin), cut - begin


# -- after a clean stop of FlintMQ ------------------------------------------------------------------------------------


class Counts(Effects):
    """Counts the bytes that are read."""

    read = 0

    def pread_into(self, fd, buffer, position):
        done = super().pread_into(fd, buffer, position)
        self.read += done
        return done


LOG = 1 << 16
GEOMETRY = {"maxHashSlotNum": 100, "maxIndexNum": 400}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A store that FlintMQ closed; its second log file has some forty records."""
    root = tmp_path_factory.mktemp("stopped")
    with open_small(root, mappedFileSizeCommitLog=LOG, unique_keys=True, **GEOMETRY) as store:
        for number in range(300):
            store.put(message(number, size=100))
        store.wait_dispatched(60)
    return root


def both(root, effects=None):
    """The end by who begins late, and by who walks the last file for a report."""
    found = []
    for report in (None, Report()):
        log, facts = list_log(str(root), StoreConfig(), effects or Effects()), read_facts(str(root))
        found.append(find_end(log, facts, report))
    return found


def copied(stopped, tmp_path):
    root = tmp_path / "copy"
    for path in stopped.rglob("*"):
        if path.is_file():
            (root / path.relative_to(stopped)).parent.mkdir(parents=True, exist_ok=True)
            (root / path.relative_to(stopped)).write_bytes(path.read_bytes())
    return root


def name_in_index(root: Path, offset: int) -> None:
    """Make the newest index file name a record at this log offset as its last."""
    patch(sorted((root / "index").iterdir())[-1], 24, struct.pack(">q", offset))


@pytest.mark.parametrize("mark", ["the mark", "no mark"])
def test_the_search_begins_at_a_record_that_is_surely_before_the_end(stopped, tmp_path, mark):
    root = copied(stopped, tmp_path)
    if mark == "no mark":
        HARMS[mark](root, 0)
    [short, long] = both(root)
    assert short == long and short.last is not None
    counted = []
    for report, late in ((None, False), (Report(), True), (Report(), False)):
        disk = Counts()
        found = find_end(list_log(str(root), StoreConfig(), disk), read_facts(str(root)), report, late=late)
        assert found == long
        counted.append(disk.read)
    assert counted[0] == counted[1] < counted[2] - 5000, "the records of the last file are not read"


def test_every_golden_store_ends_where_its_last_file_does(golden_store):
    short, long = both(golden_store.path)
    assert short == long


def stale_tail(root: Path, end: int) -> None:
    """Records of a longer life come after the end, at their own offsets."""
    with open_small(root.parent / "longer", mappedFileSizeCommitLog=LOG, unique_keys=True, **GEOMETRY) as store:
        for number in range(340):
            store.put(message(number, size=100))
    old = log_files(root.parent / "longer")[1].read_bytes()
    patch(log_files(root)[1], end - LOG, old[end - LOG :])


HARMS = {
    "nothing": lambda root, end: None,
    "abort": lambda root, end: (root / "abort").touch(),
    "no mark": lambda root, end: (root / "flintmq.mark").unlink(),
    "no checkpoint": lambda root, end: (root / "checkpoint").unlink(),
    "another checkpoint": lambda root, end: patch(root / "checkpoint", 0, bytes(24)),
    "no index": lambda root, end: [path.unlink() for path in (root / "index").iterdir()],
    "index names the end": lambda root, end: name_in_index(root, end),
    "index names what is beyond": lambda root, end: name_in_index(root, 1 << 62),
    "index names a negative offset": lambda root, end: name_in_index(root, -5),
    "index names the middle of a record": lambda root, end: name_in_index(root, LOG + 77),
    "index names the first record": lambda root, end: name_in_index(root, 0),
    "index names the second file's first record": lambda root, end: name_in_index(root, LOG),
    "no last file": lambda root, end: log_files(root)[1].unlink(),
    "no first file": lambda root, end: log_files(root)[0].unlink(),
    "empty last file": lambda root, end: log_files(root)[1].write_bytes(b""),
    "short last file": lambda root, end: log_files(root)[1].write_bytes(
        log_files(root)[1].read_bytes()[: end - LOG - 50]
    ),
    "half a last file": lambda root, end: log_files(root)[1].write_bytes(
        log_files(root)[1].read_bytes()[: (end - LOG) // 2]
    ),
    "zeros at the end": lambda root, end: patch(log_files(root)[1], end - LOG - 700, bytes(700)),
    "zeros in the last file": lambda root, end: patch(log_files(root)[1], 500, bytes(2000)),
    "a last file of zeros": lambda root, end: patch(log_files(root)[1], 0, bytes(LOG)),
    "junk after the end": lambda root, end: patch(log_files(root)[1], end - LOG, b"junk" * 99),
    "a tail of another life": stale_tail,
    "the index names a record of such a tail": lambda root, end: (stale_tail(root, end), name_in_index(root, end)),
    "a link": lambda root, end: (root / "commitlog" / f"{2 * LOG:020}").symlink_to("/nowhere"),
}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("also", ["nothing", "abort", "no mark"])
def test_odd_stores_end_where_their_last_file_does(stopped, tmp_path, harm, also):
    root = copied(stopped, tmp_path)
    end = both(root)[0].offset
    HARMS[harm](root, end)
    if also != harm:
        HARMS[also](root, end)
    short, long = both(root)
    assert short == long


@pytest.mark.parametrize("seed", range(40))
def test_damaged_stores_end_where_their_last_file_does(stopped, tmp_path, seed):
    root, chance = copied(stopped, tmp_path), random.Random(seed)
    end = both(root)[0].offset
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(0, end - LOG + 200)
        data = chance.choice([bytes(chance.randrange(1, 900)), chance.randbytes(chance.randrange(1, 60))])
        patch(log_files(root)[1], at, data)
    short, long = both(root)
    assert short == long
