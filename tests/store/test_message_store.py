"""The store as a user has it: open, put, get, close; what a failing disk makes of the answers; refusals."""

import ast
import contextlib
import errno
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq.errors import (
    ConfigError,
    CorruptStoreError,
    FlintError,
    LostLogError,
    NotAStoreError,
    StoreAccessError,
    StoreLockedError,
    UnsupportedFormatError,
    UsageError,
)
from flintmq.format import checkpoint
from flintmq.message import GetMessageStatus, Message, Outcome, PutMessageStatus
from flintmq.storage.files.dispatch_lock import DispatchLock
from flintmq.storage.files.lock import is_live
from flintmq.store.commitlog.end_of_log import read_facts
from flintmq.store.message_store import MessageStore
from flintmq.store.recovery.apply import Recovery
from tests.support.crashed import flip, killed, make
from tests.support.engine import (
    FIRST_LOG,
    KEYS,
    check_derived,
    message,
    open_small,
    put_all,
    put_messages,
    records,
    stored,
)
from tests.support.faults import Faulty, unclean
from tests.support.threads import beside

OK = PutMessageStatus.PUT_OK


def test_hello(tmp_path: Path):
    """What the README shows, with the defaults."""
    with flintmq.MessageStore(tmp_path / "store") as store:
        result = store.put(flintmq.Message("orders", b"hello", tags="paid", keys="order-1", queue_id=0))
        assert (result.status, result.outcome, result.queue_offset, result.physical_offset) == (OK, Outcome.OK, 0, 0)
        assert result.offset_msg_id == "7F00000100002A9F0000000000000000"
        assert store.wait_dispatched(60)
        got = store.get("orders", 0, 0, max_messages=32)
        assert (got.status, got.next_begin_offset, got.min_offset, got.max_offset) == (
            GetMessageStatus.FOUND, 1, 0, 1,
        )  # fmt: skip
        m = got.messages[0]
        assert (m.topic, m.queue_id, m.queue_offset, m.physical_offset, m.body) == ("orders", 0, 0, 0, b"hello")
        assert (m.tags, m.keys, m.msg_id) == ("paid", "order-1", result.msg_id)
        assert m.properties == {"KEYS": "order-1", "TAGS": "paid", "UNIQ_KEY": result.msg_id}
        assert [m.body for m in store.query("orders", result.msg_id)] == [b"hello"]
        assert m.store_timestamp == result.store_timestamp and m.size == result.size
        assert [m.body for m in store.query("orders", "order-1")] == [b"hello"]
    assert sorted(os.listdir(tmp_path / "store")) == [
        "checkpoint", "commitlog", "config", "consumequeue", "flintmq.mark", "flintmq.queues", "index", "lock",
    ]  # fmt: skip


def test_offset_at_time(tmp_path: Path):
    """RocketMQ's rules: before, at and after the messages' times."""
    disk = Faulty()
    with open_small(tmp_path, disk) as store:
        for disk.clock in (1000, 2000, 2000, 3000):
            store.put(Message("T", b"x"))
        assert store.wait_dispatched(60)
        lower = {ms: store.offset_at_time("T", 0, ms) for ms in (0, 1000, 1500, 2000, 3000, 3001)}
        assert lower == {0: 0, 1000: 0, 1500: 1, 2000: 1, 3000: 3, 3001: 4}
        upper = {ms: store.offset_at_time("T", 0, ms, "upper") for ms in (0, 1000, 2500, 2000, 9000)}
        assert upper == {0: 0, 1000: 0, 2500: 2, 2000: 2, 9000: 3}
    with pytest.raises(UsageError):
        store.offset_at_time("T", 0, 0)


def test_what_was_put_is_there_after_a_restart(tmp_path: Path):
    told = []
    for life in range(4):
        with open_small(tmp_path) as store:
            told += put_all(store, 30, first=30 * life, queue_id=life % 2)
    with open_small(tmp_path) as store:
        found = list(store)
        assert [(m.physical_offset, m.queue_offset, m.size) for m in found] == [
            (r.physical_offset, r.queue_offset, r.size) for r in told
        ]
        assert [m.body[:6] for m in found] == [b"%06d" % n for n in range(120)]
        assert [m.keys for m in store.query("T", "k77")] == ["k77"]
    check_derived(tmp_path)


def test_a_running_store_says_that_it_runs_and_a_stopped_one_that_it_stopped(tmp_path: Path):
    store = open_small(tmp_path)
    assert (tmp_path / "abort").read_text().split()[0] == str(os.getpid())
    assert is_live(str(tmp_path))
    results = put_all(store, 3)
    store.close()
    assert not (tmp_path / "abort").exists() and not is_live(str(tmp_path))
    facts, last = read_facts(str(tmp_path)), results[-1]
    assert (facts.clean, facts.mark.flushed) == (True, last.physical_offset + last.size)
    times = checkpoint.decode((tmp_path / "checkpoint").read_bytes())
    assert times.physic_timestamp == times.logics_timestamp == last.store_timestamp


def test_close_may_be_called_again_and_everything_else_is_refused(tmp_path: Path):
    store = open_small(tmp_path)
    put_all(store, 1)
    store.close()
    store.close()
    calls = [
        lambda: store.put(message(1)),
        lambda: store.put_many([message(1)]),
        lambda: store.put_batch([message(1)]),
        lambda: store.put_columns("T", None),
        lambda: store.put_async(message(1)),
        lambda: store.get("T", 0, 0),
        lambda: store.query("T", "k0"),
        store.flush,
        lambda: store.wait_dispatched(1),
        store.view,
        lambda: list(store),
    ]
    for call in calls:
        with pytest.raises(UsageError, match="is closed"):
            call()
    assert len(records(tmp_path)) == 1


def test_puts_that_race_with_close_are_stored_or_refused(tmp_path: Path):
    """Nothing is acknowledged that is not there, and no other error comes out."""
    for life in range(10):
        store = open_small(tmp_path)
        told: list[int] = []

        def work() -> None:
            with contextlib.suppress(UsageError):
                while True:
                    result = store.put(message(0))  # noqa: B023
                    if result.status is OK:
                        told.append(result.physical_offset)  # noqa: B023

        with beside(*[work] * 3):
            time.sleep(0.01 + life / 1000)
            store.close()
        with open_small(tmp_path) as again:
            assert set(told) <= {m.physical_offset for m in again}
    check_derived(tmp_path)


def test_a_second_store_is_refused(tmp_path: Path):
    with open_small(tmp_path) as store:
        put_all(store, 1)
        with pytest.raises(StoreLockedError):
            open_small(tmp_path)
        code = "import sys, flintmq; flintmq.MessageStore(sys.argv[1])"
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
        assert done.returncode != 0 and "StoreLockedError" in done.stderr
        assert (tmp_path / "abort").exists(), "the refused ones left it alone"
        put_all(store, 1, first=1)
    assert len(records(tmp_path)) == 2


def test_a_store_that_could_not_be_opened_is_free_again(tmp_path: Path):
    stored(tmp_path, 1)
    effects = Faulty()
    effects.refuse("rename", "abort", times=1)
    with pytest.raises(OSError):
        open_small(tmp_path, effects)
    open_files = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        effects.refuse("rename", "abort", times=1)
        with pytest.raises(OSError):
            open_small(tmp_path, effects)
    assert len(os.listdir("/proc/self/fd")) == open_files, "T22: no descriptor leaks on the way out"
    stored(tmp_path, 1, first=1)


def test_closing_leaves_no_descriptor_thread_or_map(tmp_path: Path):
    def held() -> tuple[int, int, int]:
        with open("/proc/self/maps") as maps:
            mapped = sum(str(tmp_path) in line for line in maps)
        return len(os.listdir("/proc/self/fd")), threading.active_count(), mapped

    before = held()
    for _ in range(3):
        with open_small(tmp_path) as store:
            put_all(store, 100)
            store.get("T", 0, 0)
            store.query("T", "k1")
    assert held() == before


def test_a_forked_child_is_refused_and_harms_nothing(tmp_path: Path):
    with open_small(tmp_path) as store:
        put_all(store, 1)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                store.put(message(1))
            except UsageError as error:
                code = 0 if "fork" in str(error) else 2
                store.close()
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (tmp_path / "abort").exists() and is_live(str(tmp_path))
        put_all(store, 1, first=1)
    assert len(records(tmp_path)) == 2


def test_configuration_by_both_spellings(tmp_path: Path):
    with MessageStore(tmp_path, flush_disk_type="SYNC_FLUSH", config={"mappedFileSizeCommitLog": 8192}) as store:
        assert (store.config.flush_disk_type, store.config.mapped_file_size_commit_log) == ("SYNC_FLUSH", 8192)
        put_all(store, 1)
    with MessageStore(tmp_path) as store:
        assert store.config.mapped_file_size_commit_log == 8192, "what is on disk, where nothing is said"
    with pytest.raises(ConfigError, match="flushDiskType"):
        MessageStore(tmp_path, flush_disk_typ="SYNC_FLUSH")  # type: ignore[call-arg]
    with pytest.raises(ConfigError):
        MessageStore(tmp_path, config={"flushDiskType": "SOMETIMES"})
    with MessageStore(tmp_path / "dev", dev=True) as store:
        put_all(store, 10)
    assert sum(p.stat().st_blocks * 512 for p in (tmp_path / "dev").rglob("*")) < 2 << 20


def test_a_slave_takes_no_puts(tmp_path: Path):
    with open_small(tmp_path, brokerRole="SLAVE") as store:
        assert store.put(message(0)).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        assert {r.status for r in store.put_many([message(0)] * 2)} == {PutMessageStatus.SERVICE_NOT_AVAILABLE}


def test_put_many_answers_each_message(tmp_path: Path):
    with open_small(tmp_path, flushDiskType="SYNC_FLUSH") as store:
        results = store.put_many([message(0), Message("a/b", b"x"), message(1), message(2, queue_id=1)])
        assert [r.status for r in results] == [OK, PutMessageStatus.MESSAGE_ILLEGAL, OK, OK]
        assert [r.queue_offset for r in results] == [0, -1, 1, 0]
        assert store._parts.files.flushed_where >= results[-1].physical_offset + results[-1].size
        assert store.put_many([]) == []
        assert store.stats().puts_refused == {"MESSAGE_ILLEGAL": 1}
    assert [r.body[:6] for r in records(tmp_path)] == [b"000000", b"000001", b"000002"]


@pytest.mark.parametrize("call", ["sync", "rename"])
def test_a_close_that_could_not_write_all_says_so(tmp_path: Path, call: str):
    """The log under ASYNC_FLUSH, whose puts are answered already; or a file of the next start."""
    effects = Faulty()
    with unclean(), open_small(tmp_path, effects, flushIntervalCommitLog=60_000) as store:
        put_all(store, 1)
        effects.refuse(call, FIRST_LOG if call == "sync" else "checkpoint")
    store.close()  # it is closed, and told that
    assert (tmp_path / "abort").exists()


def test_an_exception_that_leaves_a_block_is_not_hidden_by_the_close(tmp_path: Path):
    effects = Faulty()
    with pytest.raises(LookupError, match="the user's"), open_small(tmp_path, effects) as store:
        put_all(store, 1)
        effects.refuse("sync", FIRST_LOG)
        raise LookupError("the user's")


def test_d8_a_record_that_no_file_can_hold_is_refused_before_it_costs_anything(tmp_path: Path):
    with open_small(tmp_path) as store:
        put_all(store, 1)
        result = store.put(Message("T", bytes(5000)))
        assert (result.status, result.outcome) == (PutMessageStatus.MESSAGE_ILLEGAL, Outcome.FAILED)
        [next_one] = put_all(store, 1, first=1)
        assert next_one.queue_offset == 1
    assert len(list((tmp_path / "commitlog").iterdir())) == 1 and len(records(tmp_path)) == 2


def test_d9_a_topic_that_can_be_no_directory_is_refused_and_stops_nobody(tmp_path: Path):
    with open_small(tmp_path) as store:
        for topic in ("t" * 256, "a/b", "..", "x\0y"):
            assert store.put(Message(topic, b"x")).status is PutMessageStatus.MESSAGE_ILLEGAL
        put_all(store, 1)
        assert store.wait_dispatched(60) and store.get("T", 0, 0).messages


def test_d11_a_restart_reads_from_the_flushed_time_on(tmp_path: Path):
    """The walk of a recovery begins in the file of the mark, not at the log's beginning."""
    with open_small(tmp_path, flushDiskType="SYNC_FLUSH") as store:
        for _ in range(100):
            store.put(Message("T", bytes(300), wait=False))
        store.flush()
    (tmp_path / "abort").touch()
    with open_small(tmp_path) as store:
        [line] = [line for line in store.recovered.decisions if line.startswith("recovery")]
        begin = int(line.split("read from ")[1].split(",")[0])
        assert begin == store._parts.files.files[-1].start > 0


def test_d32_properties_together_too_long_are_refused(tmp_path: Path):
    """Upstream's 16-bit length wraps; the record is never consumable and a restart cuts the log there."""
    with open_small(tmp_path, mappedFileSizeCommitLog=1 << 20) as store:
        many = {f"n{n}": "v" * 3990 for n in range(10)}
        assert store.put(Message("T", b"", properties=many)).status is PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
        halves = Message("T", b"", properties={"a": "v" * 20_000}, keys="k" * 20_000)
        assert store.put(halves).status is PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
        fits = Message("T", b"", properties={"a": "v" * (32767 - 3)})
        assert store.put(fits).status is OK
        crc = store.config.enabled_append_prop_crc
        assert not crc
        put_all(store, 1)
    assert len(records(tmp_path, 1 << 20)) == 2


def test_a_full_disk_at_the_roll_over_is_a_status_and_passes(tmp_path: Path):
    effects = Faulty()
    with open_small(tmp_path, effects) as store:
        put_all(store, 3, size=1000)
        effects.refuse("allocate", "commitlog", error=errno.ENOSPC, times=2)
        results = [store.put(message(n, size=1000)) for n in range(3, 8)]
        failed = [r for r in results if r.status is not OK]
        assert {(r.status, r.outcome) for r in failed} == {(PutMessageStatus.CREATE_MAPPED_FILE_FAILED, Outcome.FAILED)}
        assert len(failed) == 2
        assert store.wait_dispatched(60)
    check_derived(tmp_path)
    assert [r.queue_offset for r in records(tmp_path)] == list(range(6))


def test_a_store_tells_where_it_is(tmp_path: Path):
    with MessageStore(tmp_path, dev=True) as store:
        assert repr(store) == f"<flintmq.MessageStore {str(tmp_path)!r}, open>"
    assert repr(store) == f"<flintmq.MessageStore {str(tmp_path)!r}, closed>"


@pytest.mark.parametrize("number", range(5))
def test_a_start_without_threads_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int):
    """The system refuses one of the threads; nobody gets the store, so nobody could close it."""
    start, left = threading.Thread.start, [number]

    def refused(self: threading.Thread) -> None:
        if left[0] == 0:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        start(self)

    before = set(threading.enumerate())
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            open_small(tmp_path)
    assert set(threading.enumerate()) <= before and not (tmp_path / "abort").exists()
    with open_small(tmp_path) as store:
        assert store.put(Message("T", b"x")).status is PutMessageStatus.PUT_OK


@pytest.mark.parametrize("value", [True, False])
def test_an_argument_that_was_given_up_is_refused_and_says_what_to_do(tmp_path: Path, value: bool):
    given: dict[str, Any] = {"direct_io": value}
    with pytest.raises(UsageError) as refused:
        MessageStore(tmp_path / "store", transient_store_pool_enable=True, **given)
    said = "direct_io is gone; leave it out: the transient pool writes through the page cache"
    assert str(refused.value) == said and not (tmp_path / "store").exists()


# -- An opening that is refused leaves every file and directory as it was; at most `lock` is new -----------------------


def everything(root: Path) -> dict[str, bytes | None]:
    """Content of each file, None for a directory; without `lock`, which must be taken before anything is read."""
    found = {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}
    return {name: data for name, data in found.items() if name != "lock"}


def damaged(root: Path) -> None:
    """A record below the mark is no record any more, in the file that recovery reads."""
    kept = make(root)
    killed(root, flushed=kept[-1].physical_offset)
    flip(root, kept[-2].physical_offset + 90)


def lost(root: Path) -> None:
    make(root, count=40)
    sorted((root / "commitlog").iterdir())[-1].unlink()
    sorted((root / "commitlog").iterdir())[-1].unlink()


def without_log(root: Path) -> None:
    make(root)
    shutil.rmtree(root / "commitlog")


def in_rocksdb(root: Path) -> None:
    (root / "consumequeue_rocksdb").mkdir(parents=True)
    (root / "consumequeue_rocksdb" / "CURRENT").write_text("MANIFEST-000004\n")


def of_dledger(root: Path) -> None:
    (root / "dledger-n0").mkdir(parents=True)


def of_another_division(root: Path) -> None:
    """The index files fit no division that the keys allow."""
    make(root)
    for path in (root / "index").iterdir():
        path.write_bytes(path.read_bytes() + bytes(7))


def abort_is_a_directory(root: Path) -> None:
    """RocketMQ asks only whether the name is there."""
    make(root)
    (root / "abort").mkdir()


def abort_is_a_link(root: Path) -> None:
    """For RocketMQ the store did not stop cleanly, as long as there is something at its end."""
    make(root)
    (root.parent / "abort").write_bytes(b"")
    (root / "abort").symlink_to(root.parent / "abort")


def abort_is_a_link_to_nothing(root: Path) -> None:
    make(root)
    (root / "abort").symlink_to("/no/such/file")


def beside_an_empty_log(root: Path) -> None:
    """The disk of the log is not mounted: its directory is there, and holds nothing."""
    make(root)
    shutil.rmtree(root / "commitlog")
    (root / "commitlog").mkdir()


def odd_log_file(root: Path) -> None:
    make(root)
    (root / "commitlog" / f"{1 << 20:020d}").symlink_to(root / "commitlog" / ("0" * 20))


REFUSED: dict[str, tuple[Callable[[Path], object], type[FlintError], dict[str, object]]] = {
    "damage": (damaged, CorruptStoreError, {}),
    "lost files": (lost, LostLogError, {}),
    "lost log": (without_log, LostLogError, {}),
    "a link": (odd_log_file, CorruptStoreError, {}),
    "queues in RocksDB": (in_rocksdb, UnsupportedFormatError, {}),
    "DLedger": (of_dledger, UnsupportedFormatError, {}),
    "index files of another size": (of_another_division, ConfigError, {"maxHashSlotNum": None, "maxIndexNum": None}),
    "abort is a directory": (abort_is_a_directory, StoreAccessError, {}),
    "abort is a link": (abort_is_a_link, StoreAccessError, {}),
    "abort is a link to nothing": (abort_is_a_link_to_nothing, StoreAccessError, {}),
    "a directory that is not there": (make, NotAStoreError, {"storePathCommitLog": "/no/such/directory"}),
    "one, and the log is lost": (beside_an_empty_log, NotAStoreError, {"storePathCommitLog": "/no/such/directory"}),
    "one of two": (make, NotAStoreError, {"storePathCommitLog": "/tmp,/no/such/directory"}),
    "a read-only directory that is not there": (
        Path.mkdir, NotAStoreError, {"readOnlyCommitLogStorePaths": "/no/such/directory"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("why", REFUSED)
def test_a_refused_opening_changes_nothing(tmp_path: Path, why: str, index: bool):
    """Without `index/` too, which an open store always has."""
    break_it, error, keys = REFUSED[why]
    root, config = tmp_path / "s", {key: value for key, value in (KEYS | keys).items() if value is not None}
    break_it(root)
    if not index and error is not ConfigError:
        shutil.rmtree(root / "index", ignore_errors=True)
    before = everything(root)
    for _ in range(2):
        with pytest.raises(error):
            MessageStore(root, config)
        assert everything(root) == before


def test_a_store_that_another_process_dispatches_is_left_alone(tmp_path: Path):
    make(tmp_path)
    shutil.rmtree(tmp_path / "index")
    dispatcher = DispatchLock(str(tmp_path))
    try:
        before = everything(tmp_path)
        with pytest.raises(StoreLockedError):
            MessageStore(tmp_path, KEYS)
        assert everything(tmp_path) == before
    finally:
        dispatcher.release()


def test_a_store_that_can_be_opened_gets_its_index_directory(tmp_path: Path):
    """Also if nothing is put: RocketMQ makes it when it starts."""
    MessageStore(tmp_path, KEYS).close()
    assert (tmp_path / "index").is_dir() and not any((tmp_path / "index").iterdir())


def test_a_new_store_gets_the_directories_of_its_log_and_no_other_store_does(tmp_path: Path):
    """As RocketMQ makes them; but beside messages one is missing because its disk is not mounted."""
    places = [tmp_path / "a" / "log", tmp_path / "b"]
    keys = KEYS | {"storePathCommitLog": ",".join(map(str, places))}
    MessageStore(tmp_path / "s", keys).close()
    assert all(place.is_dir() for place in places), "nothing was put: they may be made again"
    shutil.rmtree(places[0])
    put_messages(tmp_path / "s", (Message("T", b"%0300d" % number) for number in range(40)), keys)
    assert all(any(place.iterdir()) for place in places)
    shutil.rmtree(places[0])
    with pytest.raises(NotAStoreError, match=f"{places[0]}: storePathCommitLog names it, .* mount its disk"):
        MessageStore(tmp_path / "s", keys)
    assert not places[0].exists()


def test_an_error_of_the_disk_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A write to an open file fails without its path; and a lock that cannot be signed is not kept."""

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space left") as error:
            MessageStore(tmp_path / "s", KEYS)
    assert error.value.filename == str(tmp_path / "s" / "lock")
    with monkeypatch.context() as patch:
        patch.setattr(Recovery, "run", full)
        with pytest.raises(OSError, match="No space left") as error:
            MessageStore(tmp_path / "s", KEYS)
    assert error.value.filename == str(tmp_path / "s")
    MessageStore(tmp_path / "s", KEYS).close()


def test_threads_that_gevent_replaced_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening would hang without a word: the module says what it replaced."""
    patched = types.SimpleNamespace(is_module_patched=lambda name: name == "threading")
    monkeypatch.setitem(sys.modules, "gevent.monkey", patched)
    with pytest.raises(UsageError, match=r"gevent .* monkey\.patch_all"):
        MessageStore(tmp_path / "store", KEYS)
    assert not (tmp_path / "store").exists()
    patched.is_module_patched = lambda name: False
    MessageStore(tmp_path / "store", KEYS).close()


# -- Log lines name their store: two stores of one process are told apart ----------------------------------------------

SRC = Path(__file__).parents[2] / "src" / "flintmq"
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
NAMES = {"root", "path", "folder", "place"}
"""Names of values that are the store's path, or a path in it."""
NAMED_IN_TEXT = {
    "store/view.py: text",  # of a file of config/, or with the root before it
    "store/assembly.py: text",
    "store/services/housekeeping.py: problem.text",
    "store/read/key_query.py: error",  # of an index file
    "storage/memory/mapped_file_queue.py: unused[start]",
}


def calls(path: Path) -> Iterator[ast.Call]:
    """The calls of a module's logger."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
            holder = node.func.value
            yield from [node] if isinstance(holder, ast.Name) and holder.id == "log" else []


def test_each_line_of_the_engine_has_a_path_of_its_store():
    found = {}
    for room in ("store", "storage"):
        for path in sorted((SRC / room).rglob("*.py")):
            for call in calls(path):
                words = {getattr(one, "id", getattr(one, "attr", "")) for arg in call.args for one in ast.walk(arg)}
                texts = [ast.unparse(arg) for arg in call.args]
                found[path.relative_to(SRC).as_posix(), call.lineno] = words, texts
    assert len(found) > 40
    nameless = {
        where: texts
        for where, (words, texts) in found.items()
        if not words & NAMES and not any(f"{where[0]}: {text}" in NAMED_IN_TEXT for text in texts)
    }
    assert nameless == {}


def test_lines_of_recovery_and_dispatch_are_told_apart(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "flintmq")
    for name in ("a", "b"):
        with MessageStore(tmp_path / "before" / name, dev=True) as store:
            put_all(store, 3)
            shutil.copytree(tmp_path / "before" / name, tmp_path / name)  # as a kill leaves it
    caplog.clear()
    with MessageStore(tmp_path / "a", dev=True) as a, MessageStore(tmp_path / "b", dev=True) as b:
        for store in (a, b):
            store.put(message(3))
            store.wait_dispatched(60)
    lines = [record.getMessage() for record in caplog.records]
    recovered = [line for line in lines if "recovery after" in line]
    assert [line.partition(":")[0] for line in recovered] == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert [line for line in lines if str(tmp_path) not in line] == []


def test_the_page_lists_each_logger():
    page = (SRC.parents[1] / "docs" / "guide" / "engine.md").read_text(encoding="utf-8")
    table = page.partition("## Logging")[2].partition("\n## ")[0]
    listed = {name for row in re.findall(r"^\|([^|]*)\|", table, re.MULTILINE) for name in re.findall(r"`(.*?)`", row)}
    texts = [path.read_text(encoding="utf-8") for path in sorted(SRC.rglob("*.py"))]
    made = {name for text in texts for name in re.findall(r"^log = logging.getLogger\((.*)\)$", text, re.MULTILINE)}
    assert listed == {name.strip('"') for name in made}
