"""dispatch="external": the log alone is written; queue offsets go on, and a normal start makes the rest whole."""

import os
import shutil
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import UsageError
from flintmq.forensics.copy import copy_whole
from flintmq.forensics.inspect import inspect
from flintmq.forensics.verify.run import verify
from flintmq.format import record
from flintmq.message import Message, PutMessageStatus
from flintmq.storage.files.dispatch_lock import DispatchLock
from flintmq.store.commitlog.end_of_log import read_facts
from flintmq.store.recovery.preview import preview
from tests.support.crashed import Clock
from tests.support.engine import (
    FILE_SIZE,
    KEYS,
    check_derived,
    message,
    open_small,
    put_all,
    put_dispatched,
    records,
    stored,
    units,
)
from tests.support.faults import Faulty
from tests.support.small_logs import SIZE, log_of, make


def external(root, **keys):
    return open_small(root, dispatch="external", **keys)


def test_only_the_log_is_written(tmp_path):
    with external(tmp_path) as store:
        put_all(store, 20)
        store.put(Message("U", b"x", keys="k"))
        with store.view() as view:
            assert view.get("T", 0, 19).queue_offset == 19 and len(view.query("U", "k")) == 1
        assert len(list(store)) == 21
        for call in (lambda: store.get("T", 0, 0), lambda: store.wait_dispatched(1)):
            with pytest.raises(UsageError, match="external"):
                call()
    assert not {"consumequeue", "index"} & set(os.listdir(tmp_path))


@pytest.mark.parametrize("how", ["clean", "killed"])
def test_offsets_go_on_without_queues(tmp_path, how):
    child = os.fork()
    if child == 0:
        store = external(tmp_path)
        put_all(store, 15)
        put_all(store, 3, queue_id=1)
        if how == "killed":
            os.kill(os.getpid(), 9)
        store.close()
        os._exit(0)
    os.waitpid(child, 0)
    with external(tmp_path) as store:
        assert [store.put(message(n, queue_id=n)).queue_offset for n in (0, 1, 2)] == [15, 3, 0]
    assert not {"consumequeue", "index"} & set(os.listdir(tmp_path))


def test_a_normal_start_makes_queues_and_index_whole(tmp_path):
    with open_small(tmp_path) as store:
        put_dispatched(store, 12)
    with external(tmp_path) as store:
        put_all(store, 30, 12)
        put_all(store, 5, topic="New")
    with open_small(tmp_path) as store:
        assert store.wait_dispatched(60) and len(store.query("T", "k40")) == 1
        assert [m.queue_offset for m in store.get("T", 0, 40).messages] == [40, 41][
            : len(store.get("T", 0, 40).messages)
        ]
    check_derived(tmp_path)


def test_a_queue_whose_messages_are_gone_goes_on_by_its_files(tmp_path):
    with open_small(tmp_path) as store:
        put_all(store, 5, topic="Old")
        put_all(store, 60)
        store.flush()
        assert store.wait_dispatched(60)
        while len(store._parts.files.files) > 1:
            with store._parts.log.lock:
                os.unlink(store._parts.files.drop_first().path)
        store._parts.retention.follow(store._parts.files.min_offset)
    with external(tmp_path) as store:
        assert store.put(Message("Old", b"x")).queue_offset == 5


def test_delayed_messages_wait_for_a_store_that_dispatches(tmp_path):
    with external(tmp_path, messageDelayLevel="1s") as store:
        assert store.put(Message("T", b"x", delay_level=1)).status is PutMessageStatus.PUT_OK
    assert [r.topic for r in records(tmp_path)] == [b"SCHEDULE_TOPIC_XXXX"]


def test_another_word_is_refused(tmp_path):
    with pytest.raises(UsageError, match='"thread" or "external"'):
        open_small(tmp_path, dispatch="none")


@pytest.mark.parametrize("how", ["clean", "killed"])
def test_d35_queues_that_end_many_files_before_the_log_are_completed(tmp_path, how):
    """RocketMQ looks ten files back, and gives queue offsets a second time."""
    stored(tmp_path, 5, size=300)
    with external(tmp_path) as store:
        put_all(store, 200, first=5, size=300)
    assert len(os.listdir(tmp_path / "commitlog")) > 15
    if how == "killed":
        (tmp_path / "abort").write_bytes(b"")
    with open_small(tmp_path) as store:
        assert store.wait_dispatched(60)
        assert put_all(store, 1, first=205, size=300)[0].queue_offset == 205
    kept = records(tmp_path)
    assert [r.queue_offset for r in kept] == list(range(206))
    check_derived(tmp_path)


# -- `abort` of a store whose queues lag ------------------------------------------------------------------------


def stopped(root: Path) -> str:
    """How the store stopped: what RocketMQ sees, and what we see."""
    facts = read_facts(str(root))
    assert not facts.live and facts.whole is (facts.clean and not facts.lagging)
    words = "abort" if (root / "abort").exists() else "no abort"
    return f"{words}, {'lagging' if facts.lagging else 'clean' if facts.clean else 'unclean'}"


def test_d6_abort_stays_while_queues_lag_and_goes_with_the_first_close_with_none(tmp_path):
    stored(tmp_path, 12)
    with external(tmp_path) as store:
        assert store.recovered.decisions == [] or "unclean" not in str(store.recovered.decisions)
    assert stopped(tmp_path) == "no abort, clean", "nothing was put"
    with external(tmp_path) as store:
        put_all(store, 1, 12)
    assert stopped(tmp_path) == "abort, lagging"
    external(tmp_path).close()
    assert stopped(tmp_path) == "abort, lagging", "still"
    with open_small(tmp_path) as store:
        assert read_facts(str(tmp_path)).clean is False, "a running one is no stopped one"
        assert store.wait_dispatched(60)
    assert stopped(tmp_path) == "no abort, clean"
    external(tmp_path).close()
    assert stopped(tmp_path) == "no abort, clean"
    check_derived(tmp_path)


@pytest.mark.parametrize("lags", ["T/0", "T/1", "%LMQ%a/0", "B/0"])
def test_one_queue_that_lags_is_enough(tmp_path, lags):
    """Of any kind; all others, and the index, are whole."""
    keys = {"enableLmq": "true", "enableMultiDispatch": "true"}

    def put(store, number):
        put_all(store, 1, number)
        put_all(store, 1, number, queue_id=1)
        store.put(Message("U", b"x", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}))
        store.put_batch([Message("B", b"%d" % number)] * 2)

    with open_small(tmp_path / "store", **keys) as store:
        store.create_topic("B", 1, "BatchCQ")
        put(store, 0)
    before = tmp_path / "before"
    shutil.copytree(tmp_path / "store", before)
    with external(tmp_path / "store", **keys) as store:
        put(store, 1)
    assert stopped(tmp_path / "store") == "abort, lagging"
    whole = tmp_path / "whole"
    shutil.copytree(tmp_path / "store", whole)
    with open_small(whole, **keys) as store:
        assert store.wait_dispatched(60)
    for name in ("consumequeue", "batchconsumequeue", "index"):
        shutil.rmtree(tmp_path / "store" / name)
        shutil.copytree(whole / name, tmp_path / "store" / name)
    external(tmp_path / "store", **keys).close()
    assert stopped(tmp_path / "store") == "no abort, clean", "as another process left it"
    kind = "batchconsumequeue" if lags == "B/0" else "consumequeue"
    shutil.rmtree(tmp_path / "store" / kind / lags)
    shutil.copytree(before / kind / lags, tmp_path / "store" / kind / lags)
    external(tmp_path / "store", **keys).close()
    assert stopped(tmp_path / "store") == "abort, lagging"
    with open_small(tmp_path / "store", **keys) as store:
        assert store.wait_dispatched(60)
    for path in (whole / kind / lags).iterdir():
        assert (tmp_path / "store" / kind / lags / path.name).read_bytes() == path.read_bytes()


def test_while_another_process_dispatches_abort_is_its_to_remove(tmp_path):
    """Its queues may have all units amid a round whose index is not in place."""
    stored(tmp_path, 12)
    lock = DispatchLock(str(tmp_path))
    external(tmp_path).close()
    assert stopped(tmp_path) == "abort, lagging"
    lock.release()
    external(tmp_path).close()
    assert stopped(tmp_path) == "no abort, clean"


def test_queues_that_nobody_can_list_count_as_lagging(tmp_path):
    with external(tmp_path) as store:
        put_all(store, 3)
        (tmp_path / "consumequeue").write_bytes(b"")
    assert stopped(tmp_path) == "abort, lagging"


def test_it_is_no_kill_and_no_power_cut(tmp_path):
    class Later(Faulty):
        """Another boot."""

        def read_proc(self, path: str) -> str:
            return "another boot"

    with external(tmp_path) as store:
        put_all(store, 12, size=300)
    there = {path.name: path.read_bytes() for path in (tmp_path / "commitlog").iterdir()}
    facts = read_facts(str(tmp_path), Later())
    assert facts.clean and not facts.power_cut and facts.mark.flushed is not None
    with open_small(tmp_path, Later()) as store:
        told = store.recovered.decisions
        assert store.recovered.verdict.value == "end of the log" and "12 records were dispatched again" in told
        assert not any("rebuilt" in line or "kept" in line for line in told)
        assert store.get("T", 0, 0).max_offset == 12
    assert {path.name: path.read_bytes() for path in (tmp_path / "commitlog").iterdir()} == there
    (tmp_path / "abort").write_bytes(b"4242")  # RocketMQ's, which was killed
    assert stopped(tmp_path) == "abort, unclean"


def test_a_start_reads_no_more_than_what_lags(tmp_path):
    """A new queue and an old one lag: the log is read from where the old queues end, and not from its begin."""
    clock = Clock()
    with open_small(tmp_path, clock) as store:
        for number in range(200):
            put_all(store, 1, number, size=300)
            clock.clock += 1000
    with external(tmp_path, effects=clock) as store:
        put_all(store, 5, 200, size=300)
        put_all(store, 5, topic="New", size=300)
    with open_small(tmp_path, clock) as store:
        (told,) = (line for line in store.recovered.decisions if "dispatched again" in line)
        assert 10 <= int(told.split()[0]) < 40, told
    check_derived(tmp_path)


@pytest.mark.parametrize("lagging", ["0", "1", "new"])
def test_queues_that_a_killed_dispatcher_left_at_different_ends_are_completed(tmp_path, lagging):
    """It had placed the units of one queue and not those of another one, whose records are far back in the log."""
    root, whole = tmp_path / "store", tmp_path / "whole"
    with open_small(root) as store:
        put_all(store, 5, size=300)
        put_all(store, 5, queue_id=1, size=300)
    before = tmp_path / "before"
    shutil.copytree(root / "consumequeue", before)
    with external(root) as store:
        put_all(store, 7, 5, topic="New" if lagging == "new" else "T", queue_id=int(lagging == "1"), size=300)
        put_all(store, 60, 5, queue_id=int(lagging != "1"), size=300)
    shutil.copytree(root, whole)
    with open_small(whole) as store:
        assert store.wait_dispatched(60)
    shutil.rmtree(root / "consumequeue")
    shutil.copytree(whole / "consumequeue", root / "consumequeue")
    if lagging == "new":
        shutil.rmtree(root / "consumequeue" / "New")
    else:
        shutil.rmtree(root / "consumequeue" / "T" / lagging)
        shutil.copytree(before / "T" / lagging, root / "consumequeue" / "T" / lagging)
    external(root).close()
    assert stopped(root) == "abort, lagging"
    with open_small(root) as store:
        assert store.wait_dispatched(60)
    check_derived(root)
    assert stopped(root) == "no abort, clean"


@pytest.mark.parametrize("stop", ["lagging", "killed"])
def test_units_that_were_lost_amid_a_queue_are_written_again(tmp_path, stop):
    """A dispatcher, or an engine, was killed before its sync, and then the power failed: the last units are there."""
    root, whole = tmp_path / "store", tmp_path / "whole"
    stored(root, 5, size=300)
    with external(root) as store:
        put_all(store, 60, 5, size=300)
    shutil.copytree(root, whole)
    with open_small(whole) as store:
        assert store.wait_dispatched(60)
    for name in ("consumequeue", "index"):
        shutil.rmtree(root / name)
        shutil.copytree(whole / name, root / name)
    lost = root / "consumequeue/T/0/00000000000000000200"  # units 10 to 19
    lost.write_bytes(bytes(200))
    if stop == "killed":
        (root / "abort").write_bytes(b"4242\nan earlier boot/1")
        external(root).close()
        assert stopped(root) == "abort, lagging", "queues end where the log does, and nobody knows more"
    with open_small(root) as store:
        assert store.wait_dispatched(60)
    check_derived(root)
    assert stopped(root) == "no abort, clean"


def test_keys_that_a_killed_dispatcher_did_not_enter_are_entered(tmp_path):
    """Its queues are whole and its index is not; so is `abort`'s word, since it ran when the store was closed."""
    stored(tmp_path, 5)
    shutil.copytree(tmp_path / "index", tmp_path / "old")
    stored(tmp_path, 60, 5)
    shutil.rmtree(tmp_path / "index")
    (tmp_path / "old").rename(tmp_path / "index")
    lock = DispatchLock(str(tmp_path))
    external(tmp_path).close()
    lock.release()
    with open_small(tmp_path) as store:
        assert len(store.query("T", "k30")) == 1
    check_derived(tmp_path)


def test_what_the_commands_say(tmp_path):
    stored(tmp_path / "store", 5)
    with external(tmp_path / "store") as store:
        put_all(store, 5, 5)
    found = verify(tmp_path / "store")
    assert found.defects == [] and found.clean
    assert {"abort", "units-pending"} <= found.note_counts.keys()
    assert [note.text for note in found.notes if note.code == "abort"] == ["the queues lag the log"]
    seen = inspect(tmp_path / "store")
    assert seen.clean and [note.text for note in seen.notes if note.code == "abort"] == [
        "queues or index lag the log; a start or a dispatch completes them"
    ]
    told = preview(str(tmp_path / "store"), StoreConfig.from_keys(KEYS))["decisions"]
    assert told[:2] == ["the last stop was clean", "nothing would be truncated"]
    assert "queues or index lag the log; a start completes them" in told
    copied = copy_whole(str(tmp_path / "store"), str(tmp_path / "copy"), StoreConfig.from_keys(KEYS))
    assert copied.live and stopped(tmp_path / "copy") == "no abort, clean"
    check_derived(tmp_path / "copy")
    assert stopped(tmp_path / "store") == "abort, lagging"


@pytest.mark.parametrize("in_next_file", [False, True])
def test_d35_a_start_tells_of_queue_offsets_that_were_given_twice(tmp_path, caplog, in_next_file):
    """The log of a RocketMQ that met such a store without `abort`: one offset twice, and on from there."""
    offsets = [0, 1, 2, 3, 3, 4]
    data = [make(SIZE * n, 1000 + n, queue_offset=offset) for n, offset in enumerate(offsets)]
    if in_next_file:
        blank = record.encode_blank(FILE_SIZE - 4 * SIZE)
        data = [b"".join(data[:4]) + blank, *(make(FILE_SIZE + SIZE * n, 1004 + n, queue_offset=3 + n) for n in (0, 1))]
        log_of(tmp_path / "commitlog", data[0], b"".join(data[1:]))
    else:
        log_of(tmp_path / "commitlog", b"".join(data))
    with open_small(tmp_path) as store:
        assert store.wait_dispatched(60)
        assert store.put(message(0)).queue_offset == 5
        assert store.wait_dispatched(60)
    text = (
        "records have a queue offset that an earlier one of their queue has, and no unit; `flintmq verify` names them"
    )
    assert text in store.recovered.decisions and any(text in line for line in caplog.messages)
    assert [unit.physical_offset for unit in units(tmp_path)][:4] == [0, SIZE, 2 * SIZE, 3 * SIZE], "the first one's"
    twice = FILE_SIZE if in_next_file else 4 * SIZE
    (named,) = verify(tmp_path).defects
    assert named.expected == f"unit 3 of queue T/0, for records from log offset {twice} on"
    with open_small(tmp_path) as store:
        assert text not in store.recovered.decisions, "said once"
