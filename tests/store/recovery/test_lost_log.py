"""Log files that are missing: each choice of files, each stop, each mark, against what the issue's table says."""

import itertools
import os
import pickle
import shutil
from pathlib import Path

import pytest

from flintmq import MessageStore, open_store
from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError, FlintError, LostLogError
from flintmq.forensics.copy import copy_whole
from flintmq.forensics.inspect import inspect
from flintmq.forensics.salvage.in_place import plan_in_place
from flintmq.forensics.verify.run import verify
from flintmq.format import checkpoint, flintmq_mark
from flintmq.format.checkpoint import Checkpoint
from flintmq.store.commitlog.report import Report
from flintmq.store.recovery.lost_log import lost_directory, queue_with_units
from flintmq.store.recovery.preview import preview
from tests.support.crashed import Clock, small_and_quick
from tests.support.engine import (
    FILE_SIZE,
    KEYS,
    check_derived,
    log_files,
    message,
    open_small,
    put_all,
    put_dispatched,
    records,
    stored,
    tree,
)
from tests.support.scenes import golden

CONFIG = StoreConfig.from_keys(KEYS)
COUNT = 40  # records: some five files


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A store of some files, stopped cleanly; a group has consumed all of it."""
    root = tmp_path_factory.mktemp("whole") / "store"
    with pytest.MonkeyPatch.context() as patch:
        small_and_quick(patch.setattr)
        with open_small(root, Clock()) as store:
            put_dispatched(store, COUNT, size=300)
            store.commit_offset("billing", "T", 0, COUNT)
            store.commit_offset("slow", "T", 0, 3)
    return root


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    small_and_quick(monkeypatch.setattr)


def offsets(store: MessageStore, begin: int = 0) -> list[int]:
    """Queue offsets of what the queue gives; one get gives what one queue file has."""
    found: list[int] = []
    while (got := store.get("T", 0, begin, COUNT)).messages:
        found += [m.queue_offset for m in got.messages]
        begin = got.next_begin_offset
    return found


def stop(root: Path, how: str, mark: str) -> None:
    """Let the store look as after this stop, with this mark."""
    known = checkpoint.decode((root / "checkpoint").read_bytes())
    if how == "killed":
        (root / "abort").write_text("1")
    if mark == "absent":
        (root / "flintmq.mark").unlink()
    elif mark == "void":  # RocketMQ has written since: another time than the checkpoint's
        old = flintmq_mark.decode((root / "flintmq.mark").read_bytes())
        (root / "flintmq.mark").write_bytes(flintmq_mark.encode(old.flushed_offset, known.physic_timestamp - 5))


# Which files are missing (numbers from the front, negative ones from the end), and what is right then.
OPENS, GAP, LOST = "opens", CorruptStoreError, LostLogError
MISSING = {
    "none": (lambda n: [], OPENS),
    "first": (lambda n: [0], OPENS),
    "first two": (lambda n: [0, 1], OPENS),
    "all but the last": (lambda n: range(n - 1), OPENS),
    "second": (lambda n: [1], GAP),
    "one before the last": (lambda n: [n - 2], GAP),
    "last": (lambda n: [n - 1], LOST),
    "last three": (lambda n: [n - 3, n - 2, n - 1], LOST),
    "first and last": (lambda n: [0, n - 1], LOST),
    "all": (lambda n: range(n), LOST),
    "the directory": (None, LOST),
}


@pytest.mark.parametrize("mark", ["there", "void", "absent"])
@pytest.mark.parametrize("how", ["clean", "killed"])
@pytest.mark.parametrize("missing", MISSING)
def test_which_files_are_missing(whole, tmp_path, missing, how, mark):
    root = shutil.copytree(whole, tmp_path / "store")
    stop(root, how, mark)
    which, right = MISSING[missing]
    files = log_files(root)
    assert len(files) >= 5
    if which is None:
        shutil.rmtree(root / "commitlog")
    for number in which(len(files)) if which is not None else ():
        files[number].unlink()
    before = tree(root, ".")
    if right == OPENS:
        assert preview(str(root), CONFIG)["verdict"] == "end of the log"
        kept = [r.queue_offset for r in records(root)]
        with open_small(root, Clock()) as store:
            assert offsets(store, kept[0]) == kept
            assert store.put(message(COUNT)).queue_offset == COUNT
        return
    for opening in (lambda: preview(str(root), CONFIG), lambda: open_small(root, Clock())):
        with pytest.raises(right) as caught:
            opening()
        assert (type(caught.value) is LostLogError) == (right is LOST), "a gap is told as one"
    assert {n: d for n, d in tree(root, ".").items() if n != "lock"} == before, "nothing was touched"
    assert (root / "commitlog").exists() == (which is not None)
    if which is not None:
        assert verify(root, CONFIG).defect_counts["log-gap"] >= 1
        with open_store(root, set=KEYS) as view:
            report = Report()
            list(view.messages(strict=False, report=report))
            assert report.damage_count == 1
            with pytest.raises(right):
                list(view.messages())
        if right is LOST:
            with pytest.raises(LostLogError):
                copy_whole(str(root), str(tmp_path / "copy"), CONFIG)


@pytest.mark.parametrize("mark", ["there", "void", "absent"])
@pytest.mark.parametrize("by", ["word", "salvage"])
@pytest.mark.parametrize("missing", ["last", "last three", "all", "the directory"])
def test_a_word_of_the_user_opens_it(whole, tmp_path, missing, by, mark):
    """Queues, index and offsets come back to where the log ends now, and what is put next is consumed."""
    root = shutil.copytree(whole, tmp_path / "store")
    stop(root, "clean", mark)
    which, _ = MISSING[missing]
    files = log_files(root)
    for number in which(len(files)) if which is not None else range(len(files)):
        files[number].unlink()
    if which is None:
        (root / "commitlog").rmdir()
    left = [] if missing in ("all", "the directory") else records(root)
    if by == "salvage" and not left:
        with pytest.raises(FlintError, match="holds no commitlog" if which is None else "--accept-lost-log"):
            plan_in_place(str(root), CONFIG)
        return
    if by == "salvage":
        with plan_in_place(str(root), CONFIG) as mending:
            mending.carry_out()
    for _ in range(2):  # and never again a word
        with MessageStore(root, config=KEYS, effects=Clock(), accept_lost_log=by == "word") as store:
            assert store.recovered.lost == (by == "word" and _ == 0)
            assert store.wait_dispatched(60)
            assert offsets(store) == list(range(len(left) + _))
            assert store.consumer_offset("billing", "T", 0) == len(left)
            assert store.consumer_offset("slow", "T", 0) == min(3, len(left))
            if _ == 0:
                assert store.put(message(7)).queue_offset == len(left)
        check_derived(root)
    with open_small(root, Clock()) as store, store.consumer("billing", "T") as consumer:
        assert [m.queue_offset for m in consumer.poll(10, 200)] == [len(left)]


def test_a_kill_amid_the_word_asks_for_it_again(whole, tmp_path):
    """Until all is done the small files tell of what is missing."""
    root = shutil.copytree(whole, tmp_path / "store")
    log_files(root)[-1].unlink()
    effects = Clock()
    real, seen = effects.rename, []

    def rename(old: str, new: str) -> None:
        if new.endswith("flintmq.mark"):
            seen.append(new)
            raise OSError(5, "killed here")
        real(old, new)

    effects.rename = rename
    with pytest.raises(OSError, match="killed here"):
        MessageStore(root, config=KEYS, effects=effects, accept_lost_log=True)
    assert seen
    with pytest.raises(LostLogError):
        open_small(root, Clock())


@pytest.mark.parametrize("what", ["nothing", "mark", "checkpoint", "queue"])
@pytest.mark.parametrize("there", [True, False])
def test_a_store_that_never_held_a_message_opens(tmp_path, what, there):
    root = tmp_path / "store"
    open_small(root, Clock()).close()
    assert not log_files(root)
    if what == "mark":
        (root / "flintmq.mark").write_bytes(flintmq_mark.encode(100, 0))
    elif what == "checkpoint":
        (root / "flintmq.mark").unlink()
        (root / "checkpoint").write_bytes(checkpoint.encode(Checkpoint(1_700_000_000_000)))
    elif what == "queue":
        (root / "consumequeue" / "T" / "0").mkdir(parents=True)
        (root / "consumequeue" / "T" / "0" / ("0" * 20)).write_bytes(bytes(7) + b"\1" + bytes(192))
    if not there:
        (root / "commitlog").rmdir()
    if what == "nothing":
        with open_small(root, Clock()) as store:
            assert store.put(message(0)).queue_offset == 0
        return
    with pytest.raises(LostLogError, match={"mark": "offset 100", "checkpoint": "1700000000000", "queue": "T/0"}[what]):
        open_small(root, Clock())
    assert (root / "commitlog").exists() == there


def test_a_mark_behind_a_blank(tmp_path):
    """The log ends behind a blank, whose file is the last one: nothing is missing, though the mark is above the end."""
    root = tmp_path / "store"
    stored(root, 20, size=300, effects=Clock())
    *_, last = log_files(root)
    start = int(last.name)
    last.unlink()
    ended = [r for r in records(root) if r.physical_offset < start][-1]
    assert ended.physical_offset + ended.size < start
    (root / "flintmq.mark").write_bytes(flintmq_mark.encode(start, ended.store_timestamp))
    (root / "checkpoint").write_bytes(checkpoint.encode(Checkpoint(ended.store_timestamp, ended.store_timestamp)))
    with open_small(root, Clock()):
        assert len(records(root)) == ended.queue_offset + 1 < 20


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_the_queues_tell_what_the_checkpoint_does_not(whole, tmp_path, missing):
    """RocketMQ's time of the last flush may be seconds old, as in its golden stores; its queues reach the log's end."""
    root = shutil.copytree(whole, tmp_path / "store")
    (root / "flintmq.mark").unlink()
    (root / "flintmq.queues").unlink()
    (root / "checkpoint").write_bytes(checkpoint.encode(Checkpoint(1, 1, 1)))
    for file in log_files(root)[-missing:]:
        file.unlink()
    before = tree(root, ".")
    for opening in (lambda: preview(str(root), CONFIG), lambda: open_small(root, Clock())):
        with pytest.raises(LostLogError, match="the queue 'T/0' names a record at offset"):
            opening()
    assert {n: d for n, d in tree(root, ".").items() if n != "lock"} == before, "nothing was touched"
    with open_store(root, set=KEYS) as view, pytest.raises(LostLogError):
        list(view.messages())
    assert verify(root, CONFIG).defect_counts["log-gap"] == 1
    (root / "abort").write_text("1")  # after an unclean stop queues may be ahead of the log
    kept = len(records(root))
    with open_small(root, Clock()) as store:
        assert store.put(message(COUNT)).queue_offset == kept


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_a_log_that_java_wrote_without_its_last_files(tmp_path, missing):
    root = golden("basic", tmp_path)
    for file in log_files(root)[-missing:]:
        file.unlink()
    with pytest.raises(LostLogError, match="names a record at offset"):
        MessageStore(root)
    kept = len(records(root, 131_072))
    with plan_in_place(str(root), StoreConfig()) as mending:
        mending.carry_out()
    with MessageStore(root) as store:
        assert not store.recovered.lost
        assert len(list(store)) == kept


def zeroed_from(root: Path, offset: int) -> None:
    """Put the log back to an earlier state: zeros from a record on, in the last file."""
    last = log_files(root)[-1]
    data = last.read_bytes()
    last.write_bytes(data[: offset - int(last.name)].ljust(len(data), b"\0"))


@pytest.mark.parametrize("missing", [1, 7, 50])
def test_a_last_file_that_was_put_back_is_refused_to_a_writer(tmp_path, missing):
    """RocketMQ cuts the queues there without a word, and gives queue offsets a second time."""
    root = golden("basic", tmp_path / "store")
    kept = records(root, 131_072)[:-missing]
    zeroed_from(root, kept[-1].physical_offset + kept[-1].size)
    before = tree(root, ".")
    for opening in (lambda: preview(str(root), StoreConfig()), lambda: MessageStore(root)):
        with pytest.raises(LostLogError, match="names a record at offset .* after the log's end; bring the files back"):
            opening()
    assert {n: d for n, d in tree(root, ".").items() if n != "lock"} == before, "nothing was touched"
    report = Report()
    with open_store(root) as view:
        assert len(list(view.messages(report=report))) == len(kept), "readers go on, and note it"
    assert report.note_counts["named_after"] == 1
    assert [note.code for note in inspect(str(root)).notes if "names a record" in note.text] == ["log-end"]
    assert verify(root).defect_counts["log-gap"] == 1
    mended = shutil.copytree(root, tmp_path / "mended")
    with plan_in_place(str(mended), StoreConfig()) as mending:
        mending.carry_out()
    for path, words in ((mended, {}), (root, {"accept_lost_log": True})):
        with MessageStore(path, **words) as store:
            assert len(list(store)) == len(kept)


@pytest.mark.parametrize(("back", "refused"), [(0, True), (7_200_000, False)], ids=["time goes on", "clock set back"])
def test_one_odd_unit_is_not_enough(tmp_path, back, refused):
    """Of one queue, without keys. A checkpoint above the last record's time says something if none is as young."""
    root, clock = tmp_path / "store", Clock()
    with open_small(root, clock) as store:
        put_all(store, 20, size=300)
        clock.clock -= back
        put_all(store, 4, 20, size=300)
    found = records(root)
    newest = max(one.store_timestamp for one in found)
    kept = found[:-1]
    zeroed_from(root, kept[-1].physical_offset + kept[-1].size)
    for name in ("flintmq.mark", "flintmq.queues"):
        (root / name).unlink()
    shutil.rmtree(root / "index", ignore_errors=True)
    (root / "checkpoint").write_bytes(checkpoint.encode(Checkpoint(newest, newest)))
    if refused:
        with pytest.raises(LostLogError, match="'T/0' names a record at offset .*, and the checkpoint records"):
            open_small(root, clock)
    else:
        with open_small(root, clock) as store:
            assert len(list(store)) == len(kept)


def test_a_log_that_is_another_stores_is_refused_to_a_writer(tmp_path):
    root, other = golden("basic", tmp_path / "a"), golden("rolled", tmp_path / "b")
    before = tree(root, "."), tree(other, ".")
    with pytest.raises(LostLogError, match="is storePathCommitLog right"):
        MessageStore(root, config={"storePathCommitLog": str(other / "commitlog")})
    assert [{n: d for n, d in tree(one, ".").items() if n != "lock"} for one in (root, other)] == list(before)


def test_queues_ahead_of_the_log_after_an_unclean_stop_are_cut(tmp_path):
    root = golden("basic", tmp_path)
    kept = records(root, 131_072)[:-7]
    zeroed_from(root, kept[-1].physical_offset + kept[-1].size)
    (root / "abort").touch()
    (root / "checkpoint").write_bytes(checkpoint.encode(Checkpoint(1, 1, 1)))
    with MessageStore(root) as store:
        assert len(list(store)) == len(kept)


def test_a_clock_that_was_set_back_is_no_lost_file(tmp_path):
    """Without a mark: the youngest record need not be the last one."""
    root, clock = tmp_path / "store", Clock()
    with open_small(root, clock) as store:
        put_all(store, 12, size=300)
        clock.clock -= 2 * 3_600_000
        put_all(store, 12, 12, size=300)
        store.flush()
    times = [r.store_timestamp for r in records(root)]
    assert max(times[:12]) > max(times[12:])
    (root / "flintmq.mark").unlink()
    (root / "checkpoint").write_bytes(checkpoint.encode(Checkpoint(max(times), max(times))))
    last = log_files(root)[-1]
    if not any(last.read_bytes()):
        last.unlink()
    with open_small(root, Clock()) as store:
        assert store.get("T", 0, 23).messages


@pytest.mark.parametrize("kind", ["link", "directory", "pipe"])
@pytest.mark.parametrize("number", [0, 1, -1])
@pytest.mark.parametrize("mark", ["there", "absent"])
def test_a_log_file_that_is_a_link_or_no_file_has_not_expired(whole, tmp_path, kind, number, mark):
    root = shutil.copytree(whole, tmp_path / "store")
    stop(root, "clean", mark)
    path = log_files(root)[number]
    if kind == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.unlink()
        path.mkdir() if kind == "directory" else os.mkfifo(path)
    for opening in (lambda: preview(str(root), CONFIG), lambda: open_small(root, Clock())):
        with pytest.raises(CorruptStoreError, match="a link, or something that is not a regular file,"):
            opening()
    assert verify(root, CONFIG).defect_counts["log-file-unreadable"] == 1
    with open_store(root, set=KEYS) as view:
        with pytest.raises(
            CorruptStoreError, match="gap" if number == 1 else "a link, or something that is not a regular file,"
        ):
            list(view.messages())
        assert 0 < len(list(view.messages(strict=False))) < COUNT


def test_groups_that_lack_expired_messages_are_told(whole, tmp_path, caplog):
    root = shutil.copytree(whole, tmp_path / "store")
    log_files(root)[0].unlink()
    first = records(root)[0].queue_offset
    text = f"queue T/0 begins at offset {first}, and group slow has consumed up to 3: {first - 3} messages are gone"
    assert any(line.startswith(text) for line in preview(str(root), CONFIG)["decisions"])
    with open_small(root, Clock()) as store:
        assert any(line.startswith(text) for line in store.recovered.decisions)
    assert text in caplog.text


def test_directories_of_the_log(tmp_path):
    """Log over two disks: one that is not mounted, and the wrong one."""
    root, one, other = tmp_path / "store", tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    keys = {"storePathCommitLog": f"{one},{other}"}
    stored(root, COUNT, size=300, effects=Clock(), **keys)
    assert list(one.iterdir()) and list(other.iterdir())
    for paths in itertools.chain([f"{one}", f"{other}"], [str(tmp_path / "store" / "commitlog")]):
        with pytest.raises(CorruptStoreError):
            open_small(root, Clock(), storePathCommitLog=paths)
    with pytest.raises(LostLogError):
        open_small(root, Clock())
    with open_small(root, Clock(), **keys) as store:
        assert offsets(store) == list(range(COUNT))


def test_a_file_that_came_since_the_list_was_made(whole, tmp_path):
    """A reader's list of files may be older than the mark it reads beside it."""
    root = shutil.copytree(whole, tmp_path / "store")
    last = log_files(root)[-1]
    data = last.read_bytes()
    last.unlink()
    with open_store(root, set=KEYS) as view:
        last.write_bytes(data)
        assert len(list(view.messages())) == len([r for r in records(root) if r.physical_offset < int(last.name)])


def test_the_error_crosses_processes_and_units_are_found_in_time(whole):
    error = pickle.loads(pickle.dumps(LostLogError("/f", 3, "why", "do this")))
    assert (type(error), str(error), error.position) == (LostLogError, "/f, position 3: why; do this", 3)
    from flintmq.storage.files.filesystem import REAL

    assert queue_with_units(str(whole), REAL) == "T/0"
    assert not lost_directory(str(whole), CONFIG)
    assert KEYS["mappedFileSizeCommitLog"] == FILE_SIZE
