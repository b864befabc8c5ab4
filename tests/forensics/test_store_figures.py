"""What is kept of a store from look to look, and what is read again."""

import shutil
from pathlib import Path

import pytest

import flintmq
from flintmq import Message, MessageStore, NotAStoreError
from flintmq.cluster.member import Member
from flintmq.config.keys import StoreConfig
from flintmq.forensics import store_figures as module
from flintmq.forensics.store_figures import StoreFigures, StoreWatch
from flintmq.store.commitlog import log_end
from tests.support.engine import put_messages
from tests.support.prometheus import only, samples

KEYS = {"mapped_file_size_commit_log": 1 << 16}


def watch(path: Path) -> StoreWatch:
    return StoreWatch(Member(str(path), "a"), StoreConfig())


def lag(figures: StoreFigures) -> int:
    return sum(lag.messages for lag in figures.lags)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each look that reads the queues."""
    calls: list[str] = []
    real = module.inspect_messages
    monkeypatch.setattr(module, "inspect_messages", lambda lookup: calls.append("queues") or real(lookup))
    return calls


def put(store: MessageStore, count: int) -> None:
    for number in range(count):
        assert store.put(Message("T", b"%d" % number)).status.name == "PUT_OK"
    assert store.wait_dispatched(60)


def test_a_live_store_is_followed(tmp_path: Path) -> None:
    with MessageStore(tmp_path, **KEYS) as store:
        put(store, 3)
        store.commit_offset("g", "T", 0, 1)
        one = watch(tmp_path)
        first = one.look()
        assert first.content.live and not first.content.clean and first.content.messages == 3
        put(store, 1000)
        second = one.look()
        assert second.content.messages == 1003 and second.content.log.end == store.stats().log_bytes
        assert second.dispatch_behind == 0
    third = one.look()
    assert third.content.clean and not third.content.live and third.flush_behind == 0
    assert lag(third) == 1002 and third.lags[0].oldest_ms is not None


def test_an_idle_store_is_not_read_again(tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with MessageStore(tmp_path, **KEYS) as store:
        put(store, 3000)
        store.commit_offset("g", "T", 0, 7)
    one = watch(tmp_path)
    first = one.look()
    begins: list[object] = []
    real = log_end.LogWalk
    monkeypatch.setattr(log_end, "LogWalk", lambda *args, **more: begins.append(args[2]) or real(*args, **more))
    second = one.look()
    assert reads == ["queues"] and second.content is first.content and second.lags == first.lags
    last = first.snapshot.log_end.last
    assert begins == [last], "the search for the log's end begins at its last record"
    monkeypatch.setattr(module, "QUEUES_AGAIN_S", 0)
    assert lag(one.look()) == lag(first) == 2993 and reads == ["queues"] * 2


def test_a_commit_alone_is_seen(tmp_path: Path) -> None:
    with MessageStore(tmp_path, **KEYS) as store:
        put(store, 10)
        store.commit_offset("g", "T", 0, 2)
    one = watch(tmp_path)
    assert lag(one.look()) == 8
    with MessageStore(tmp_path, **KEYS) as store:
        store.commit_offset("g", "T", 0, 9)
    assert lag(one.look()) == 1


def test_offsets_that_are_none_of_their_queues_are_counted(tmp_path: Path) -> None:
    """Their lag alone would say that all is consumed, or that nothing is."""
    put_messages(tmp_path, (Message("T", b"x", queue_id=queue) for queue in range(4)), **KEYS)
    offsets = {"T@ahead": "0:999,1:1,2:-5,3:-1", "T@right": "0:1,1:0", "Deleted@old": "0:7"}
    tables = ",".join(f'"{name}":{{{queues}}}' for name, queues in offsets.items())
    (tmp_path / "config" / "consumerOffset.json").write_text(f'{{"offsetTable":{{{tables}}}}}')
    found = samples(flintmq.store_metrics(tmp_path))
    shown = only(found, "flintmq_group_offsets_outside", "consumer_group", "topic")
    assert shown == {("ahead", "T"): 2, ("right", "T"): 0, ("old", "Deleted"): 0}
    assert only(found, "rocketmq_consumer_lag_messages", "consumer_group")["ahead",] == 2


def test_another_store_in_its_place(tmp_path: Path) -> None:
    root, other = tmp_path / "s", tmp_path / "o"
    for path, count in ((root, 50), (other, 5)):
        with MessageStore(path, **KEYS) as store:
            put(store, count)
            store.commit_offset("g", "T", 0, 1)
    one = watch(root)
    assert lag(one.look()) == 49
    shutil.rmtree(root)
    with pytest.raises(NotAStoreError):
        one.look()
    root.mkdir()  # where a disk was mounted
    with pytest.raises(NotAStoreError):
        one.look()
    root.rmdir()
    shutil.move(other, root)
    assert lag(one.look()) == 4


def test_a_store_that_became_shorter_is_read_anew(tmp_path: Path, reads: list[str]) -> None:
    root, other = tmp_path / "s", tmp_path / "o"
    for path, count in ((root, 50), (other, 5)):
        with MessageStore(path, **KEYS) as store:
            put(store, count)
    one = watch(root)
    one.look()
    shutil.rmtree(root)
    shutil.move(other, root)
    assert one.look().content.messages == 5 and len(reads) == 2


def test_a_log_alone_has_messages_and_is_not_dispatched(tmp_path: Path) -> None:
    with MessageStore(tmp_path, **KEYS) as store:
        put(store, 20)
        end = store.stats().log_bytes
    for name in ("consumequeue", "index", "config"):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
    figures = watch(tmp_path).look()
    assert figures.content.messages == 20 and figures.dispatch_behind == end and figures.lags == []


def test_nothing_is_written(tmp_path: Path) -> None:
    with MessageStore(tmp_path, **KEYS) as store:
        put(store, 5)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    one = watch(tmp_path)
    one.look()
    one.look()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_nothing_is_kept_of_a_store_that_was_replaced_by_a_longer_one(tmp_path: Path) -> None:
    root = tmp_path / "store"
    one = watch(root)
    for count in (5, 50):
        with MessageStore(root, **KEYS) as store:
            put(store, count)
            store.commit_offset("g", "T", 0, 1)
        (found,) = one.look().lags
        with flintmq.open_store(root) as view:
            assert found.oldest_ms == view.get("T", 0, 1).store_timestamp and found.messages == count - 1
        root.rename(tmp_path / f"away-{count}")
