import os
import random
import shutil
import subprocess
import sys
import threading
import time
from functools import partial

import pytest

import flintmq
from flintmq import MessageStore
from flintmq.errors import (
    ConfigError,
    CorruptStoreError,
    LostLogError,
    MessageNotFoundError,
    NotAStoreError,
    StoreAccessError,
    UnsupportedFormatError,
    UsageError,
)
from flintmq.message import Message
from flintmq.storage.files.lock import is_live
from flintmq.store.commitlog import resync
from flintmq.store.commitlog.report import Report
from flintmq.store.view import QueueInfo, open_store
from flintmq.testing.damage import random_damage
from tests.support.engine import KEYS, open_small
from tests.support.makers import patch
from tests.support.threads import beside

BASIC_FILE = 131072


@pytest.fixture
def store(golden):
    return golden("basic")


@pytest.fixture
def copy(store, tmp_path):
    return store.copy(tmp_path)


def opened(store):
    return open_store(store.path, set=store.config)


def offsets(messages):
    return [message.physical_offset for message in messages]


def rows_from(store, begin=0):
    return [row["physical_offset"] for row in store.live if row["physical_offset"] >= begin]


def test_topics_and_queues(golden):
    store = golden("batch")
    with flintmq.open_store(store.path) as view:
        assert view.topics() == ["BatchTopic", "Plain"]
        assert view.queues("BatchTopic") == [
            QueueInfo("BatchTopic", 0, 0, 210, "BatchCQ"),
            QueueInfo("BatchTopic", 1, 0, 149, "BatchCQ"),
        ]
        assert [queue[:2] for queue in view.queues()] == [
            ("BatchTopic", 0), ("BatchTopic", 1), ("Plain", 0), ("Plain", 1)
        ]  # fmt: skip
        assert view.queues("none") == []
        assert (view.min_physical_offset, view.max_physical_offset, view.live) == (0, 68744, False)
        assert view.broker.topics == {}


def test_everything_of_every_store(golden_store):
    view = opened(golden_store)
    count = len(golden_store.live) + golden_store.expect.get("beyond", 0)
    found = list(view.messages())
    assert len(found) == count
    assert offsets(found)[: len(golden_store.live)] == rows_from(golden_store)
    assert view.max_physical_offset == found[-1].physical_offset + found[-1].size
    for row in golden_store.live[::17]:
        assert view.get_at(row["physical_offset"]).offset_msg_id == row["offset_msg_id"]
        assert view.get_by_offset_msg_id(row["offset_msg_id"].lower()).physical_offset == row["physical_offset"]
        if row["sys_flag"] & 12 in (0, 8):
            message = view.get(row["topic"], row["queue_id"], row["queue_offset"])
            assert message.physical_offset == row["physical_offset"]


@pytest.mark.parametrize("access", ["pread", "map"])
def test_messages_from_any_point(golden, access):
    store = golden("basic")
    view = open_store(store.path, access=access)
    starts = rows_from(store)
    for begin in (0, starts[1], starts[1] + 1, starts[-1], starts[-1] + 1, BASIC_FILE, BASIC_FILE - 3, 1 << 60):
        assert offsets(view.messages(begin)) == [at for at in starts if at >= begin]
    assert offsets(open_store(golden("rolled").path).messages(0)) == rows_from(golden("rolled"))


@pytest.mark.parametrize(
    ("topic", "queue_id", "offset", "says"),
    [
        ("Orders", 0, 185, "topic 'Orders', queue 0: no message at offset 185; the queue holds 0 to 184"),
        ("Orders", 0, -1, "no message at offset -1; the queue holds 0 to 184"),
        ("Orders", 99, 0, "there is no such queue"),
        ("Or\x1bders", 0, 0, r"topic 'Or\\x1bders', queue 0: .*there is no such topic"),
    ],
)
def test_what_is_not_there(golden, topic, queue_id, offset, says):
    with pytest.raises(MessageNotFoundError, match=says) as caught:
        opened(golden("basic")).get(topic, queue_id, offset)
    assert isinstance(caught.value, LookupError) and "\n" not in str(caught.value)


def test_empty_queues_and_damaged_messages_say_so(store, copy, golden):
    with pytest.raises(MessageNotFoundError, match="the queue is empty, the next offset is 31"):
        opened(golden("rolled")).get("Early", 0, 30)
    row = next(row for row in store.rows if row["body_length"] > 20)
    patch(copy / "commitlog" / ("0" * 20), row["physical_offset"] + 90, b"\xff\xff\xff")
    with pytest.raises(MessageNotFoundError, match="its record is damaged or missing; run `flintmq verify`"):
        open_store(copy).get(row["topic"], row["queue_id"], row["queue_offset"])


def test_what_was_removed_while_a_view_was_open_is_called_so(store, copy, tmp_path):
    gone, other = (next(row for row in store.live if row["physical_offset"] >= at) for at in (0, BASIC_FILE))
    with open_store(copy, set=store.config) as view:
        (copy / "commitlog" / f"{0:020d}").unlink()
        with pytest.raises(MessageNotFoundError, match="it was removed: the log begins after it by now"):
            view.get(gone["topic"], gone["queue_id"], gone["queue_offset"])
        with pytest.raises(MessageNotFoundError, match=f"log offset {gone['physical_offset']}: it was removed"):
            view.get_at(gone["physical_offset"])
        (copy / "commitlog" / f"{BASIC_FILE:020d}").rename(tmp_path / "amid")  # not the first one: no retention did it
        (copy / "commitlog" / f"{0:020d}").touch()
        with pytest.raises(MessageNotFoundError, match="damaged or missing; run `flintmq verify`"):
            view.get(other["topic"], other["queue_id"], other["queue_offset"])


def test_offsets_and_ids_that_lead_nowhere(golden):
    view = opened(golden("basic"))
    for offset in (-1, 1, 737416, 1 << 62, 1 << 70):
        with pytest.raises(
            MessageNotFoundError, match=f"no record begins at log offset {offset}; the log has 0 to 737416"
        ):
            view.get_at(offset)
    identity = view.get_at(0).offset_msg_id
    other = ("0" if identity[0] != "0" else "1") + identity[1:]
    with pytest.raises(MessageNotFoundError, match=f"at log offset 0 has the id {identity}"):
        view.get_by_offset_msg_id(other)
    for text in ("", "xyz", identity[:-1], identity + "00"):
        with pytest.raises(UsageError, match="a message id is 32 or 56 hexadecimal digits"):
            view.get_by_offset_msg_id(text)


def test_query(golden):
    view = opened(golden("flags"))
    assert offsets(view.query("Batched", "BATCHUNIQ")) == [168154, 168452, 168674]
    assert offsets(view.query("Batched", "BATCHUNIQ", limit=2)) == [168452, 168674]
    with pytest.raises(UsageError, match="limit -1 is negative"):
        view.query("Odd", "x", limit=-1)


@pytest.mark.parametrize("bare", [False, True], ids=["with queues", "log alone"])
def test_offset_at_time(golden, tmp_path, bare):
    """RocketMQ's rules: an equal run gives its first or last, a gap the next later or earlier."""
    store = golden("rolled")
    path = store.path
    if bare:
        shutil.copytree(path / "commitlog", tmp_path / "commitlog")
        path = tmp_path
    view = open_store(path)
    for topic, queue_id in (("Ing", 0), ("Roll", 1), ("Late", 0)):
        rows = [row for row in store.rows if (row["topic"], row["queue_id"]) == (topic, queue_id)]
        times = [row["store_timestamp"] for row in rows]
        first, stop = rows[0]["queue_offset"], rows[-1]["queue_offset"] + 1
        for ms in {times[0] - 10, times[-1] + 10, *times[:: max(1, len(times) // 6)], times[len(times) // 2] + 1}:
            later = [row["queue_offset"] for row in rows if row["store_timestamp"] >= ms]
            earlier = [row["queue_offset"] for row in rows if row["store_timestamp"] <= ms]
            assert view.offset_at_time(topic, queue_id, ms) == (later[0] if later else stop)
            assert view.offset_at_time(topic, queue_id, ms, "upper") == (earlier[-1] if earlier else first)


def test_offset_at_time_of_odd_queues(golden, tmp_path):
    view = opened(golden("rolled"))
    assert [view.offset_at_time("Early", 0, ms, "upper") for ms in (0, 1 << 62)] == [31, 31]
    assert view.offset_at_time("none", 0, 5) == 0
    with pytest.raises(UsageError, match="boundary 'middle' is not one of: lower, upper"):
        view.offset_at_time("Early", 0, 5, "middle")
    # A batch has one time: lower gives its first offset, upper its last.
    store = golden("batch")
    rows = [row for row in store.rows if (row["topic"], row["queue_id"]) == ("BatchTopic", 0)]
    times = [row["store_timestamp"] for row in rows]
    at = next(n for n in range(1, len(rows)) if times[n - 1] < times[n] < times[n + 1])
    view = opened(store)
    assert view.offset_at_time("BatchTopic", 0, times[at]) == rows[at]["queue_offset"]
    assert view.offset_at_time("BatchTopic", 0, times[at], "upper") == rows[at + 1]["queue_offset"] - 1


def test_offset_at_time_passes_over_what_cannot_be_read(store, copy):
    rows = [row for row in store.rows if (row["topic"], row["queue_id"]) == ("Orders", 0)]
    for row in rows[80:100]:
        file = copy / "commitlog" / f"{row['physical_offset'] // BASIC_FILE * BASIC_FILE:020d}"
        patch(file, row["physical_offset"] % BASIC_FILE + 4, b"\0\0\0\0")
    view = open_store(copy)
    ms = rows[110]["store_timestamp"]
    first = next(row["queue_offset"] for row in rows if row["store_timestamp"] >= ms)
    assert view.offset_at_time("Orders", 0, ms) in (first, 100)


class Writer:
    """Writes a golden log anew, byte by byte as Java did: files of full size, in any pieces, one after another."""

    def __init__(self, store, root):
        self.files = [(file.name, file.read_bytes()) for file in sorted((store.path / "commitlog").iterdir())]
        self.folder = root / "commitlog"
        self.folder.mkdir(parents=True)

    def write(self, seed, pause=0.0):
        chance = random.Random(seed)
        for name, data in self.files:
            used = len(data.rstrip(b"\0"))
            with open(self.folder / name, "xb", buffering=0) as file:
                file.truncate(len(data))
                at = 0
                while at < used:
                    step = chance.choice([1, 7, 40, 300, 2000, 9000])
                    file.write(data[at : min(at + step, used)])
                    at += step
                    if pause:
                        time.sleep(pause)


@pytest.mark.parametrize("seed", range(3))
def test_follow_a_log_that_is_written(golden, tmp_path, seed):
    store = golden("basic")
    writer = Writer(store, tmp_path)
    stop = threading.Event()
    thread = threading.Thread(target=writer.write, args=(seed, 0.0005))
    thread.start()
    found = []
    for message in open_store(tmp_path).follow(poll_ms=1, stop=stop):
        found.append(message.physical_offset)
        if len(found) == len(store.rows):
            stop.set()
    thread.join()
    assert found == rows_from(store)


def test_follow_begins_where_it_is_told_and_stops_when_it_is_told(golden):
    store = golden("basic")
    starts = rows_from(store)
    stop = threading.Event()
    view = open_store(store.path)
    follower = view.follow(starts[-3] - 1, poll_ms=1, stop=stop)
    assert offsets([next(follower) for _ in range(3)]) == starts[-3:]
    stop.set()
    assert list(follower) == []
    assert list(view.follow(view.max_physical_offset, poll_ms=1, stop=stop)) == []


def test_follow_passes_over_deleted_files(store, copy):
    stop = threading.Event()
    follower = open_store(copy).follow(poll_ms=1, stop=stop)
    assert next(follower).physical_offset == 0
    for number in range(3):
        (copy / "commitlog" / f"{number * BASIC_FILE:020d}").unlink()
    found = [0]
    for message in follower:
        found.append(message.physical_offset)
        if message.physical_offset == rows_from(store)[-1]:
            stop.set()
    # The file that was open is read to its end; what was deleted before it was reached is left out.
    assert found == [at for at in rows_from(store) if at < BASIC_FILE or at >= 3 * BASIC_FILE]


def test_follow_a_log_that_was_cut_below_what_was_read(store, copy):
    follower = open_store(copy).follow(rows_from(store)[-2], poll_ms=1)
    assert offsets([next(follower), next(follower)]) == rows_from(store)[-2:]
    os.truncate(copy / "commitlog" / f"{5 * BASIC_FILE:020d}", 0)
    with pytest.raises(
        CorruptStoreError, match="the log was truncated below this offset after it was read; begin the scan again"
    ):
        next(follower)


def test_a_view_is_of_its_moment_until_it_is_refreshed(golden, tmp_path):
    store = golden("basic")
    writer = Writer(store, tmp_path)
    view = open_store(tmp_path)
    assert (view.topics(), view.max_physical_offset, list(view.messages())) == ([], 0, [])
    writer.write(1)
    assert view.max_physical_offset == 0
    view.refresh()
    assert view.max_physical_offset == 737416 and len(view.queues()) == 16
    assert len(list(view.messages())) == 3000
    shutil.copytree(store.path / "consumequeue", tmp_path / "consumequeue")
    view.refresh()
    assert view.get("Orders", 0, 184).queue_offset == 184


@pytest.mark.parametrize("longer", [0, 1, 50])
def test_a_refresh_tells_another_log_in_the_same_place(tmp_path, longer):
    """Without files of queues the log tells them, and of a log that went on only its end is read again."""
    for name, topic, count in (("a", "T", 5), ("b", "U", 5 + longer)):
        with open_small(tmp_path / name) as store:
            store.put_many([Message(topic, b"body", keys=f"{n}") for n in range(count)])
        shutil.rmtree(tmp_path / name / "consumequeue")
    with open_store(tmp_path / "a", set=KEYS) as view:
        assert [(one.topic, one.min_offset, one.max_offset) for one in view.queues()] == [("T", 0, 5)]
        shutil.rmtree(tmp_path / "a")
        (tmp_path / "b").rename(tmp_path / "a")
        view.refresh()
        assert [(one.topic, one.min_offset, one.max_offset) for one in view.queues()] == [("U", 0, 5 + longer)]
        assert [one.topic for one in view.messages()] == ["U"] * (5 + longer)


def test_readers_in_many_threads_while_the_store_changes(store, copy):
    view = open_store(copy, set=store.config)
    plain = store.rows[1500::29]

    def read(seed):
        for row in random.Random(seed).sample(plain, len(plain)):
            found = view.get(row["topic"], row["queue_id"], row["queue_offset"])
            assert found.physical_offset == row["physical_offset"]
            if row["keys"]:
                asked = view.query(row["topic"], row["keys"].split(" ")[0])
                assert row["physical_offset"] in offsets(asked)
            view.refresh()

    with beside(*(partial(read, seed) for seed in range(4))):
        for number in range(2):  # retention takes the oldest files away meanwhile
            time.sleep(0.02)
            (copy / "commitlog" / f"{number * BASIC_FILE:020d}").unlink()


def test_files_that_vanish_between_two_questions(store, copy):
    view = open_store(copy, set=store.config)
    assert len(view.queues()) == 16
    shutil.rmtree(copy / "consumequeue")
    shutil.rmtree(copy / "index")
    row = store.rows[10]
    with pytest.raises(MessageNotFoundError):
        view.get(row["topic"], row["queue_id"], 10**6)
    view.refresh()
    assert view.get(row["topic"], row["queue_id"], row["queue_offset"]).physical_offset == row["physical_offset"]
    shutil.rmtree(copy / "commitlog")
    with pytest.raises(MessageNotFoundError):
        view.get_at(row["physical_offset"])
    view.refresh()
    assert (view.topics(), list(view.messages(strict=False)), view.query(row["topic"], "k")) == ([], [], [])
    with pytest.raises(LostLogError, match="the checkpoint records a flushed record"):
        list(view.messages())


@pytest.mark.parametrize("cut", [0, 7, 8, 90, 1000, BASIC_FILE - 1])
def test_a_last_file_that_was_cut_short(store, copy, cut):
    os.truncate(copy / "commitlog" / f"{5 * BASIC_FILE:020d}", cut)
    view = open_store(copy, set=store.config)
    left = [row for row in store.rows if row["physical_offset"] + row["size"] <= 5 * BASIC_FILE + cut]
    # Without any record in its last file the log is too short for its queues, and a strict reader refuses it.
    assert offsets(view.messages(strict=cut > 0)) == [row["physical_offset"] for row in left]
    want = {}
    for row in left:
        want[row["topic"], row["queue_id"]] = row["queue_offset"] + 1
    assert {(q.topic, q.queue_id): q.max_offset for q in view.queues()} == want


def test_wrong_use(golden, tmp_path):
    path = golden("basic").path
    with pytest.raises(NotAStoreError):
        open_store(tmp_path)
    with pytest.raises(UsageError, match="access 'mmap' is not one of: pread, map"):
        open_store(path, access="mmap")
    with pytest.raises(ConfigError, match="did you mean maxIndexNum"):
        open_store(path, set={"maxIndexNumber": 5})
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "dledger-n0").mkdir()
    with pytest.raises(UnsupportedFormatError):
        open_store(tmp_path)


def test_a_closed_view(golden):
    with open_store(golden("basic").path) as view:
        pass
    view.close()
    for use in (view.refresh, view.topics, lambda: view.get("Orders", 0, 0), lambda: list(view.messages())):
        with pytest.raises(UsageError, match="this view is closed; open the store again"):
            use()
    assert "basic" in repr(view)


def test_configuration_from_a_file(golden, tmp_path):
    store = golden("crash-keys")
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=b\nmaxHashSlotNum=100\nmaxIndexNum=4000\n")
    view = open_store(store.path, config=conf, set={"maxMessageSize": 5000})
    assert view.config.given == {"brokerName", "maxHashSlotNum", "maxIndexNum", "maxMessageSize"}


def test_damage_stops_strict_readers_and_is_told_to_others(store, copy):
    row = store.rows[1000]
    file = copy / "commitlog" / f"{row['physical_offset'] // BASIC_FILE * BASIC_FILE:020d}"
    patch(file, row["physical_offset"] % BASIC_FILE + 4, b"\0\0\0\0")
    view = open_store(copy)
    with pytest.raises(CorruptStoreError) as caught:
        list(view.messages())
    assert (caught.value.file, caught.value.position) == (str(file), row["physical_offset"] % BASIC_FILE)
    report = Report()
    found = offsets(view.messages(strict=False, report=report))
    assert found == [at for at in rows_from(store) if at != row["physical_offset"]]
    assert [damage.lost for damage in report.damages] == [row["size"]]


def test_unreadable_directories(golden, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    copy = golden("basic").copy(tmp_path)
    os.chmod(copy / "commitlog", 0)
    try:
        with pytest.raises(StoreAccessError, match="check its permissions"):
            open_store(copy)
    finally:
        os.chmod(copy / "commitlog", 0o755)


def test_nothing_is_written_and_no_file_stays_open(golden, tmp_path):
    store = golden("config")
    copy = store.copy(tmp_path)
    for folder, folders, files in os.walk(copy):
        for name in folders + files:
            os.utime(os.path.join(folder, name), (1, 1))
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    view = open_store(copy, set=store.config)
    list(view.messages())
    for queue in view.queues():
        view.offset_at_time(queue.topic, queue.queue_id, 0)
    view.query("Trade", "x")
    view.refresh()
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == before
    times = {os.stat(os.path.join(folder, name)).st_mtime for folder, d, f in os.walk(copy) for name in d + f}
    assert times == {1}


# -- Following a log from its end, where no record begins yet ----------------------------------------------------------


@pytest.mark.parametrize("ahead", [0, 150])
def test_following_from_the_end_gives_what_comes_next(tmp_path, ahead):
    """Not what comes in the next file of the log; from beyond the end, what comes from there on."""
    with open_small(tmp_path) as store:
        store.put(Message("T", b"old"))
    with open_store(tmp_path, set=KEYS) as view:
        stop, got = threading.Event(), []
        begun = threading.Event()

        class Watched(threading.Event):
            def wait(self, timeout=None):
                begun.set()  # the end was reached once, before anything new is there
                return stop.wait(timeout)

            def is_set(self):
                return stop.is_set()

        def follow():
            for message in view.follow(view.max_physical_offset + ahead, 10, Watched()):
                got.append((message.physical_offset, message.body))
                if message.body == b"last":
                    stop.set()

        thread = threading.Thread(target=follow)
        thread.start()
        assert begun.wait(10)
        with open_small(tmp_path) as store:
            offset = view.max_physical_offset + ahead
            put = [
                store.put(Message("T", body)) for body in (b"a", b"b", b"c", bytes(3000), b"d", bytes(3000), b"last")
            ]
        thread.join(20)
        stop.set()
        assert [at for at, _ in got] == [r.physical_offset for r in put if r.physical_offset >= offset]


class Steps:
    """A `stop` event that does one thing at each wait, in a thread as another program would, and then ends."""

    def __init__(self, *things):
        self.things = list(things)

    def is_set(self):
        return False

    def wait(self, _seconds):
        if not self.things:
            return True
        thread = threading.Thread(target=self.things.pop(0))
        thread.start()
        thread.join()
        return False


def searches(monkeypatch):
    """The positions where a search for a record after a stop began; at 0 it looks for the last file with records."""
    begun, search = [], resync._Search.run

    def counted(searching, position, stop):
        begun.extend([position] if position else [])
        return search(searching, position, stop)

    monkeypatch.setattr(resync._Search, "run", counted)
    return begun


@pytest.mark.parametrize("from_the_end", [True, False])
def test_later_looks_at_a_live_store_do_not_search_the_zeros_again(tmp_path, monkeypatch, from_the_end):
    """Its writer has allocated tens of MiB of zeros: to read them five times a second takes a process its time."""
    begun = searches(monkeypatch)
    with MessageStore(tmp_path / "store") as store:
        store.put(Message("T", b"first"))
        view = open_store(tmp_path / "store")
        end, first = view.max_physical_offset, len(begun)
        put = [lambda: None, lambda: store.put(Message("T", b"second")), lambda: None, lambda: None]
        found = [message.body for message in view.follow(end if from_the_end else 0, 1, Steps(*put))]
    assert found == [b"first", b"second"][from_the_end:]
    assert first == 1 and len(begun) == 2, "one search of the view, and one of the follower's first look"


def test_a_live_store_that_was_made_anew_is_searched_again(tmp_path, monkeypatch):
    """What an earlier look saw says nothing of another log."""
    begun, path = searches(monkeypatch), tmp_path / "store"
    stores = [MessageStore(path)]
    for number in range(3):
        stores[0].put(Message("T", b"%d" % number))
    view = open_store(path)
    end = view.max_physical_offset

    def make_anew():
        stores.pop().close()
        shutil.rmtree(path)
        stores.append(MessageStore(path))
        stores[0].put(Message("Another", b"x" * 40))

    try:
        assert list(view.follow(end, 1, Steps(make_anew))) == []
        assert len(begun) == 3, "by the view and by both looks"
    finally:
        stores.pop().close()


# -- Views of stores that are damaged at random, and beside a process that holds the store's lock ----------------------

STORES = ("basic", "batch", "lmq", "rolled", "crash", "config", "stale", "cqext")
SEEDS = 48
SECONDS_MAX = 30
HOLDER = """
import fcntl, struct, sys
file = open(sys.argv[1], "r+b")
fcntl.fcntl(file, fcntl.F_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 1, 0))
print("locked", flush=True)
sys.stdin.read()
"""


def ask_everything(path, store, seed):
    """Every kind of question; what is not there may be said, nothing else may be raised."""
    chance = random.Random(seed)
    view = open_store(path, set=store.config if seed % 2 else None)
    rows = chance.sample(store.rows, 4)
    for queue in view.queues():
        assert 0 <= queue.min_offset <= queue.max_offset
    for queue in chance.sample(view.queues(), min(4, len(view.queues()))):
        for offset in (queue.min_offset, queue.max_offset - 1, queue.max_offset):
            try:
                found = view.get(queue.topic, queue.queue_id, offset)
                assert view.get_at(found.physical_offset) == found
            except MessageNotFoundError:
                pass  # damaged, or behind the end
        for boundary in ("lower", "upper"):
            at = view.offset_at_time(queue.topic, queue.queue_id, rows[0]["store_timestamp"], boundary)
            assert queue.min_offset <= at <= queue.max_offset
    for row in rows:
        key = (row["keys"] or row["msg_id"] or "none").split(" ")[0]
        for message in view.query(row["topic"], key):
            assert (message.topic, key in (message.keys or "").split(" ") or key == message.msg_id) == (
                row["topic"],
                True,
            )
    count = sum(1 for _ in view.messages(strict=False))
    try:
        assert sum(1 for _ in view.messages()) <= count
    except CorruptStoreError as error:
        assert error.file.startswith(str(path)) and error.position >= 0
    assert view.broker is not None
    view.refresh()
    assert view.max_physical_offset >= 0


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_damage_gives_short_answers_and_nothing_worse(golden, tmp_path, seed):
    store = golden(STORES[seed % len(STORES)])
    copy = store.copy(tmp_path)
    for number in range(1 + seed % 4):
        random_damage(copy, 100 * seed + number)
    began = time.monotonic()
    ask_everything(copy, store, seed)
    assert time.monotonic() - began < SECONDS_MAX


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_to_queues_and_index_the_log_is_enough(store, copy, seed):
    for number in range(6):
        random_damage(copy, 100 * seed + number, folder="consumequeue")
    random_damage(copy, seed, kinds=("zero", "rubbish", "cut"), folder="index")
    view = open_store(copy, set=store.config)
    queues = {queue[:2]: queue for queue in view.queues()}
    for row in random.Random(seed).sample(store.rows, 100):
        queue = queues[row["topic"], row["queue_id"]]
        if queue.min_offset <= row["queue_offset"] < queue.max_offset:
            found = view.get(row["topic"], row["queue_id"], row["queue_offset"])
            assert found.physical_offset == row["physical_offset"]
        if row["keys"]:
            found = view.query(row["topic"], row["keys"].split(" ")[0], limit=10_000)
            assert row["physical_offset"] in [message.physical_offset for message in found]


@pytest.mark.skipif(sys.platform != "linux", reason="how a lock is asked for is known for Linux only")
def test_a_live_store_is_read_without_touching_its_lock(golden, tmp_path):
    store = golden("crash")
    copy = store.copy(tmp_path)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, os.fspath(copy / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline() == b"locked\n"
        view = open_store(copy, set=store.config)
        assert view.live
        assert len(list(view.messages())) == len(store.rows)
        assert [queue.max_offset for queue in view.queues("Ash")] == [20, 13, 21]
        view.refresh()
        assert view.live and is_live(str(copy))
    finally:
        holder.stdin.close()
        holder.wait()
        holder.stdout.close()
    view.refresh()
    assert not view.live
