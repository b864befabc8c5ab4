"""abort, checkpoint and mark: whole or not at all, durable when the call returns."""

import errno
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from flintmq.format import checkpoint, flintmq_mark, index
from flintmq.format.checkpoint import Checkpoint
from flintmq.format.flintmq_mark import Indexed
from flintmq.storage.files.filesystem import Effects
from flintmq.store.commitlog.end_of_log import read_facts
from flintmq.store.layout.mark import UNKNOWN, DurableMark
from flintmq.store.layout.small_files import (
    BOOT,
    LAGGING,
    Abort,
    StoreFiles,
    fsync_and_drop_cache,
    page_cache_id,
    read_abort,
)
from tests.support.faults import Faulty

KNOWN = Checkpoint(1000, 900, 800, 700, 600)


def test_checkpoint_and_mark_are_read_back_as_facts(tmp_path: Path):
    effects = Faulty()
    files = StoreFiles(str(tmp_path), effects)
    assert files.checkpoint == Checkpoint()
    files.make_abort()
    files.write(4242, KNOWN)
    assert (tmp_path / "checkpoint").read_bytes() == b"".join(
        n.to_bytes(8, "big") for n in (1000, 900, 800, 700, 600)
    ).ljust(4096, b"\0")
    assert flintmq_mark.decode((tmp_path / "flintmq.mark").read_bytes())[1:5] == (3, 4242, 1000, 0)
    facts = read_facts(str(tmp_path))
    assert (facts.clean, facts.physic_time, facts.mark.flushed) == (False, 1000, 4242)
    assert StoreFiles(str(tmp_path), effects).checkpoint == files.checkpoint == KNOWN


@pytest.mark.parametrize("data", [b"", b"short", bytes(39)])
def test_a_checkpoint_that_says_nothing_counts_as_zeros(tmp_path: Path, data: bytes):
    (tmp_path / "checkpoint").write_bytes(data)
    assert StoreFiles(str(tmp_path), Faulty()).checkpoint == Checkpoint()


@pytest.mark.parametrize("name", ["checkpoint", "flintmq.mark"])
def test_a_crash_between_mark_and_checkpoint_does_not_void_the_mark(tmp_path: Path, name: str):
    effects = Faulty()
    files = StoreFiles(str(tmp_path), effects)
    files.write(100, Checkpoint(10))
    effects.refuse("rename", name, times=1)
    with pytest.raises(OSError):
        files.write(200, Checkpoint(20))
    assert files.checkpoint == Checkpoint(10), "what was not written is not known"
    facts = read_facts(str(tmp_path))
    assert (facts.physic_time, facts.mark.flushed) == (10, 200 if name == "checkpoint" else 100)
    files.write(300, Checkpoint(30))
    assert read_facts(str(tmp_path)).mark.flushed == 300
    (tmp_path / "checkpoint").write_bytes(checkpoint.encode(Checkpoint(31)))
    assert read_facts(str(tmp_path)).mark.flushed is None, "somebody else has written since"


def test_abort_is_made_and_removed_durably(tmp_path: Path):
    effects = Faulty()
    files = StoreFiles(str(tmp_path), effects)
    files.make_abort()
    assert (tmp_path / "abort").read_text().split()[0] == str(os.getpid())
    assert [name for name, _ in effects.calls][-4:] == ["rename", "sync_dir", "open_write", "map_write"]
    files.remove_abort()
    assert not (tmp_path / "abort").exists()
    assert effects.calls[-2:] == [("unlink", str(tmp_path / "abort")), ("sync_dir", str(tmp_path))]
    before = len(effects.calls)
    files.remove_abort()
    assert len(effects.calls) == before, "there is none"


def test_a_checkpoint_of_java_s_is_kept_byte_for_byte_in_what_is_not_ours(tmp_path: Path):
    (tmp_path / "checkpoint").write_bytes(checkpoint.encode(KNOWN))
    files = StoreFiles(str(tmp_path), Faulty())
    files.write(1, files.checkpoint._replace(physic_timestamp=2000))
    assert checkpoint.decode((tmp_path / "checkpoint").read_bytes()) == KNOWN._replace(physic_timestamp=2000)


def test_abort_tells_whether_the_machine_has_run_on(tmp_path: Path):
    effects = Faulty()
    StoreFiles(str(tmp_path), effects).make_abort()
    assert read_abort(str(tmp_path), effects).page_cache_lasted
    for text in ("4242", "", "4242\nanother-boot", "4242 a b"):  # RocketMQ's, an empty one, another boot's, rubbish
        (tmp_path / "abort").write_text(text)
        assert not read_abort(str(tmp_path), effects).page_cache_lasted
    (tmp_path / "abort").write_bytes(b"4242\n\xff\xfe")
    assert not read_abort(str(tmp_path), effects).page_cache_lasted, "bytes that are no text are another boot's too"
    (tmp_path / "abort").unlink()
    assert not read_abort(str(tmp_path), effects).page_cache_lasted


def test_abort_tells_whether_the_file_system_was_mounted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Found by power cuts on XFS: without a new boot an index of zeros was taken for one that a kill had left."""
    effects = Faulty()
    monkeypatch.setattr(effects, "mounting", lambda path: "7", raising=False)
    StoreFiles(str(tmp_path), effects).make_abort()
    assert read_abort(str(tmp_path), effects).page_cache_lasted
    monkeypatch.setattr(effects, "mounting", lambda path: "8")
    assert not read_abort(str(tmp_path), effects).page_cache_lasted


def test_a_lower_index_time_leaves_the_rest_of_the_checkpoint(tmp_path: Path):
    small = StoreFiles(str(tmp_path), Faulty())
    small.write(500, Checkpoint(1000, 900, 800))
    for time, now in ((900, 800), (700, 700), (750, 700)):
        small.lower_index_time(time)
        assert read_facts(str(tmp_path)).mark.flushed == 500, "the mark stays valid"
        assert StoreFiles(str(tmp_path), Faulty()).checkpoint == Checkpoint(1000, 900, now) == small.checkpoint


class Machine(Faulty):
    """One that was started, and whose file system was mounted, as a test says; None where nobody tells."""

    boot: str | None = "b00t"
    mount = "7"

    def read_proc(self, path: str) -> str:
        assert path == BOOT
        if self.boot is None:
            raise FileNotFoundError(path)
        return f" {self.boot}\n"

    def mounting(self, path: str) -> str:
        assert os.path.isdir(path)
        return self.mount


@pytest.mark.parametrize("refused", ["", "sync", "drop_cache"])
def test_the_disk_is_asked_for_a_part_of_a_file(tmp_path: Path, refused: str):
    """What is written there is written first, and then forgotten; the descriptor is closed whatever the disk says."""
    asked: list[tuple[int, ...]] = []

    class Asked(Effects):
        def sync(self, fd: int) -> None:
            asked.append((fd,))
            if refused == "sync":
                raise OSError(errno.EIO, "no")

        def drop_cache(self, fd: int, position: int, count: int) -> None:
            asked.append((fd, position, count))
            if refused:
                raise OSError(errno.EIO, "no")

        def close(self, fd: int) -> None:
            asked.append((-fd,))
            super().close(fd)

    path = tmp_path / "file"
    path.write_bytes(bytes(10))
    with pytest.raises(OSError, match="no") if refused else nullcontext():
        fsync_and_drop_cache(str(path), 4096, 77, Asked())
    fd = asked[0][0]
    steps = [(fd,), (fd, 4096, 77), (-fd,)]
    assert fd > 2 and asked == (steps if refused != "sync" else [steps[0], steps[2]])
    with pytest.raises(FileNotFoundError):
        fsync_and_drop_cache(f"{path}-gone", 0, 1, Asked())


def test_the_name_of_a_page_cache(tmp_path: Path):
    machine = Machine()
    assert page_cache_id(str(tmp_path), machine) == "b00t/7"
    machine.mount = ""
    assert page_cache_id(str(tmp_path), machine) == "b00t"
    machine.boot = None
    assert page_cache_id(str(tmp_path), machine) == ""


@pytest.mark.parametrize(
    ("abort", "boot", "lasted", "cut", "ours"),
    [
        ("4242\nb00t/7", "b00t", True, False, True),
        ("4242\nother/7", "b00t", False, True, True),
        ("4242\nb00t/8", "b00t", False, True, True),
        ("4242", "b00t", False, False, False),  # RocketMQ's: nobody knows
        ("4242 b00t/7 more", "b00t", False, False, False),
        (None, "b00t", False, False, False),
        (LAGGING.decode(), "b00t", False, False, False),
        ("4242\nb00t/7", None, False, False, True),  # this machine does not tell
        ("4242", None, False, False, False),
        (None, None, False, False, False),
    ],
)
def test_what_abort_says_of_the_page_cache(
    tmp_path: Path, abort: str | None, boot: str | None, lasted: bool, cut: bool, ours: bool
):
    machine = Machine()
    machine.boot = boot
    if abort is not None:
        (tmp_path / "abort").write_text(abort)
    clean = abort in (None, LAGGING.decode())
    assert read_abort(str(tmp_path), machine) == Abort(clean, clean and abort is not None, ours, lasted, cut)


def test_a_sync_that_failed_makes_the_next_start_ask_the_disk(tmp_path: Path):
    """The disk is asked nothing: one that just refused a sync would refuse that, too."""
    machine = Machine()
    files = StoreFiles(str(tmp_path), machine)
    files.distrust_page_cache()
    assert not (tmp_path / "abort").exists()
    files.make_abort()
    for _ in range(2):
        files.distrust_page_cache()
        assert (tmp_path / "abort").read_text() == f"{os.getpid()}\nb00t/?"
        assert read_abort(str(tmp_path), machine) == Abort(clean=False, is_ours=True, power_cut=True)
    files.make_abort()
    files.close()
    files.distrust_page_cache()
    assert read_abort(str(tmp_path), machine).page_cache_lasted, "of a store that is closed nobody says anything"
    machine.boot = None
    files.make_abort()
    files.distrust_page_cache()
    assert (tmp_path / "abort").read_text() == f"{os.getpid()}", "nobody knows what this page cache is called"


INDEXED = Indexed(300, 20261121120000000, index.Header(1000, 1009, 0, 290, 3, 4))


def said(root: Path) -> tuple[int, int, Indexed | None]:
    """Flushed and dispatched offset, and what is said of the index, in the mark."""
    mark = flintmq_mark.decode((root / "flintmq.mark").read_bytes())
    return mark.flushed_offset, mark.dispatched_offset, mark.indexed


def test_what_the_mark_is_believed_to_say_is_taken_back_before_it_is_undone(tmp_path: Path):
    effects = Faulty()
    files = StoreFiles(str(tmp_path), effects)
    files.write(500, KNOWN, 400, INDEXED)
    assert said(tmp_path) == (500, 400, INDEXED)
    files.mark = DurableMark(500, 400, INDEXED)

    def units_below(position: int) -> None:
        files.retreat(files.mark.with_units_below(position))

    def no_index() -> None:
        files.retreat(files.mark.without_index())

    steps = [
        (lambda: units_below(401), (500, 400, INDEXED), False),
        (lambda: units_below(400), (500, 400, INDEXED), False),
        (lambda: units_below(399), (500, 399, INDEXED), True),
        (no_index, (500, 399, None), True),
        (no_index, (500, 399, None), False),
        (lambda: units_below(-1), (500, -1, None), True),
    ]
    for number, (step, now, written) in enumerate(steps):
        effects.calls.clear()
        step()
        assert said(tmp_path) == now == files.mark, number
        assert (effects.calls != []) is written, number
        assert StoreFiles(str(tmp_path), effects).checkpoint == KNOWN, "the mark holds beside it"


def test_where_there_is_no_mark_none_is_made_by_taking_back(tmp_path: Path):
    effects = Faulty()
    files = StoreFiles(str(tmp_path), effects)
    assert files.mark == UNKNOWN == (None, -1, None)
    files.mark = DurableMark(None, 400, INDEXED)
    files.retreat(files.mark.with_units_below(3))
    files.retreat(files.mark.without_index())
    files.write_mark()
    assert effects.calls == [] and files.mark == (None, 3, None)


def test_where_rocketmq_550_believes_queues_to_be_is_not_kept(tmp_path: Path):
    """Its number would outlive what happens to the queues here; 0 has its next start go by the times."""
    (tmp_path / "checkpoint").write_bytes(checkpoint.encode(KNOWN._replace(logics_physical_offset=500)))
    files = StoreFiles(str(tmp_path), Faulty())
    assert files.checkpoint == KNOWN
    files.write(4000, files.checkpoint)
    assert checkpoint.decode((tmp_path / "checkpoint").read_bytes()).logics_physical_offset == 0


def test_a_start_takes_over_what_it_believes_and_gives_it_up_without_a_write(tmp_path: Path):
    effects = Faulty()
    StoreFiles(str(tmp_path), effects).write(500, KNOWN, 400, INDEXED)
    files = StoreFiles(str(tmp_path), effects)
    effects.calls.clear()
    assert (files.checkpoint, files.mark) == (KNOWN, UNKNOWN), "a mark is first compared with what else is there"
    files.trust(DurableMark(500, 400, INDEXED))
    assert (files.checkpoint, files.mark) == (KNOWN, (500, 400, INDEXED))
    files.distrust_all()
    assert (files.checkpoint, files.mark) == (Checkpoint(), UNKNOWN)
    assert effects.calls == []
