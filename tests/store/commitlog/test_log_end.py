"""The end of a log by a few small reads is the end that a walk of the last file finds."""

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.storage.files.filesystem import Effects
from flintmq.store.commitlog.end_of_log import StopFacts, read_facts
from flintmq.store.commitlog.log_end import find_end, late_begin
from flintmq.store.commitlog.snapshot import list_log
from flintmq.testing.write_store import write_store
from tests.compat.replication import GoldenMaster


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
