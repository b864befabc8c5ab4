"""What callers give that is of the wrong type: every public method of a store, view and consumer says it by name."""

import copy
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from flintmq.errors import ConfigError, UsageError
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from tests.support.engine import open_small

GOOD: dict[str, dict[str, Any]] = {
    "get": {"topic": "T", "queue_id": 0, "offset": 0, "max_messages": 1, "wait_ms": 0, "tags": "t"},
    "get_batch": {"topic": "T", "queue_id": 0, "offset": 0, "max_messages": 1, "max_bytes": 100, "wait_ms": 0},
    "get_raw": {"topic": "T", "queue_id": 0, "offset": 0, "max_messages": 1, "tags": "t", "max_bytes": 100},
    "bounds": {"topic": "T", "queue_id": 0},
    "get_at": {"physical_offset": 0},
    "get_by_offset_msg_id": {"offset_msg_id": "7F00000100002A9F0000000000000000"},
    "query": {"topic": "T", "key": "k", "begin": 0, "end": 1},
    "offset_at_time": {"topic": "T", "queue_id": 0, "ms": 5, "boundary": "lower"},
    "consumer": {"group": "g", "topic": "T", "tags": "t", "start": "earliest", "idle_ms": 1},
    "create_topic": {"name": "U", "queues": 1, "queue_type": "SimpleCQ"},
    "commit_offset": {"group": "g", "topic": "T", "queue_id": 0, "offset": 0},
    "consumer_offset": {"group": "g", "topic": "T", "queue_id": 0},
    "consumer.poll": {"max_messages": 1, "wait_ms": 0},
    "consumer.seek": {"queue_id": 0, "where": 0},
    "consumer.seek_to_time": {"when": 5},
    "consumer.position": {"queue_id": 0},
    "consumer.committed": {"queue_id": 0},
    "view.queues": {"topic": "T"},
    "view.get": {"topic": "T", "queue_id": 0, "offset": 0},
    "view.get_raw": {"topic": "T", "queue_id": 0, "offset": 0, "max_messages": 1, "tags": "t", "max_bytes": 100},
    "view.bounds": {"topic": "T", "queue_id": 0},
    "view.read": {"topic": "T", "queue_id": 0, "offset": 0, "count": 1},
    "view.get_at": {"physical_offset": 0},
    "view.get_by_offset_msg_id": {"offset_msg_id": "7F00000100002A9F0000000000000000"},
    "view.query": {"topic": "T", "key": "k", "begin": 0, "end": 1, "limit": 1},
    "view.offset_at_time": {"topic": "T", "queue_id": 0, "ms": 5, "boundary": "lower"},
    "view.consumer": {"group": "g", "topic": "T", "tags": "t", "start": "earliest", "idle_ms": 1},
    "view.messages": {"begin": 0, "strict": True},
    "view.follow": {"begin": 0, "poll_ms": 1},
}
WRONG: dict[type, list[Any]] = {str: [b"T", 5, None, ["T"]], int: ["0", 1.0, True, b"0"], bool: ["no", 0, None]}
OPTIONAL = {"tags", "begin", "end", "idle_ms"}
CASES = [
    (method, name, wrong)
    for method, arguments in GOOD.items()
    for name, value in arguments.items()
    for wrong in WRONG[type(value)]
    if not (wrong is None and (name in OPTIONAL or method == "view.queues"))
    and not (name == "where" and isinstance(wrong, str))
]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with open_small(tmp_path_factory.mktemp("store")) as opened:
        opened.put(Message("T", b"1", tags="t", keys="k"))
        assert opened.wait_dispatched(60)
        yield opened


def called(store: MessageStore, method: str, arguments: dict[str, Any]) -> object:
    """Call a method by its name here; of an iterator, take the first message."""
    with store.consumer("others", "T", queues=[0]) as consumer, store.view() as view:
        owner, _, name = method.rpartition(".")
        given = getattr({"": store, "consumer": consumer, "view": view}[owner], name)(**arguments)
        if name == "consumer":
            given.close()
        return next(given) if isinstance(given, Iterator) else given


@pytest.mark.parametrize(("method", "name", "wrong"), CASES, ids=str)
def test_a_wrong_type_is_said_by_name(store: MessageStore, method: str, name: str, wrong: object):
    with pytest.raises(TypeError, match=f"^{name} is of type {type(wrong).__name__}; give "):
        called(store, method, GOOD[method] | {name: wrong})


@pytest.mark.parametrize("wrong", ["no", "false", 0, None])
def test_a_switch_is_true_or_false(tmp_path: Path, wrong: Any):
    """The text "no" would be a yes: a lost log would be accepted."""
    for name in ("dev", "accept_lost_log", "services", "unique_keys", "sync_in_caller", "ha_durable_only"):
        with pytest.raises(TypeError, match=f"^{name} is of type {type(wrong).__name__}; give True or False"):
            MessageStore(tmp_path / "new", **cast(Any, {name: wrong}))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["until_refused", "delivered"])
def test_a_switch_of_put_many_is_true_or_false(store: MessageStore, name: str):
    before = list(store)
    with pytest.raises(TypeError, match=f"^{name} is of type str; give True or False"):
        store.put_many([Message("T", b"x", queue_id=0)], **cast(Any, {name: "no"}))
    assert list(store) == before


@pytest.mark.parametrize("method", GOOD)
def test_right_types_are_taken(store: MessageStore, method: str):
    called(store, method, GOOD[method])


def test_queues_and_offsets_are_numbers(store: MessageStore):
    with pytest.raises(TypeError, match=r"queues\[1\] is of type str"):
        store.consumer("g", "T", queues=[0, "1"])  # type: ignore[list-item]
    with store.consumer("others", "T", queues=[0]) as consumer, pytest.raises(TypeError, match="offset is of type str"):
        consumer.commit({0: "1"})  # type: ignore[dict-item]


@pytest.mark.parametrize("kind", [np.int64, np.uint8])
def test_integers_that_are_no_int_are_kept_as_ints(tmp_path: Path, kind: type):
    """What is kept in config/ is JSON: one that could not be written there would hinder all later ones."""
    with open_small(tmp_path) as store:
        store.put(Message("T", b"1"))
        assert store.wait_dispatched(60)
        store.create_topic("U", queues=kind(3))
        store.commit_offset("by itself", "T", kind(0), kind(1))
        with store.consumer("g", "T", queues=[kind(0)]) as consumer:
            assert [m.queue_offset for m in consumer.poll(kind(5), kind(0))] == [0]
            consumer.seek(kind(0), kind(0))
            consumer.seek_to_time(kind(5))
            assert consumer.commit({kind(0): kind(1)}) == {0: 1}
        with store.consumer("h", "T", queues=[kind(0)]) as consumer:
            consumer.poll(1)
            assert consumer.commit() == {0: 1}
    table = json.loads((tmp_path / "config/consumerOffset.json").read_text().replace("{0:", '{"0":'))
    assert table["offsetTable"] == {"T@by itself": {"0": 1}, "T@g": {"0": 1}, "T@h": {"0": 1}}
    with open_small(tmp_path) as store:
        assert store.consumer_offset("g", "T", 0) == store.consumer_offset("by itself", "T", 0) == 1


def test_small_integers_of_numpy_do_not_overflow(tmp_path: Path):
    """np.uint8(250) + 10 is 4, with no more than a warning."""
    near = np.uint8(250)
    with open_small(tmp_path) as store:
        store.put_many([Message("T", b"", keys="k") for _ in range(300)])
        assert store.wait_dispatched(60)
        read = [m.queue_offset for m in store.get("T", np.uint8(0), near, near).messages]
        assert read == [m.queue_offset for m in store.get("T", 0, 250, 250).messages] and max(read) > 255
        batch = store.get_batch("T", np.uint8(0), near, near).batch
        assert batch == store.get_batch("T", 0, 250, 250).batch and batch.num_rows > 5
        with store.consumer("g", "T") as consumer:
            assert [m.queue_offset for m in consumer.poll(near)] == list(range(250))
            consumer.seek(np.uint8(0), near)
            assert [m.queue_offset for m in consumer.poll(near)] == list(range(250, 300))
        with store.view() as view:
            assert view.get("T", np.uint8(0), near).queue_offset == 250
            read = [m.queue_offset for m in view.read("T", 0, near, near)]
            assert read == [m.queue_offset for m in view.read("T", 0, 250, 250)] and max(read) > 255
            assert len(view.query("T", "k", limit=near)) == 250
            assert len(list(view.messages(np.uint8(0)))) == 300


@pytest.mark.parametrize("names", [("g\ud800", "T"), ("g", "T\udce9"), ("", "T"), ("g@", "T")])
def test_names_that_the_table_cannot_hold(store: MessageStore, names: tuple[str, str]):
    """Half of a surrogate pair would become `?`, and two groups one."""
    with pytest.raises(UsageError, match="cannot be a (group|topic)'s name"):
        store.commit_offset(*names, 0, 1)


def test_tags_that_name_none_are_no_request_for_all(store: MessageStore):
    for tags in ("||", " || ", " "):
        with pytest.raises(UsageError, match="names no tag"):
            store.consumer("others", "T", tags=tags)
    with store.consumer("others", "T", tags="|| t ||") as consumer:
        assert len(consumer.poll()) == 1 and repr(consumer) == "<flintmq.Consumer of 'T' in group 'others'>"
        with pytest.raises(TypeError, match="offsets is of type list; give a dict"):
            consumer.commit([(0, 1)])  # type: ignore[arg-type]


@pytest.mark.parametrize("config", ["broker.conf", b"", [], 5, [("flushDiskType", "SYNC_FLUSH")]])
def test_a_configuration_is_a_dict_or_a_config(tmp_path: Path, config: Any):
    with pytest.raises(TypeError, match=f"^config is of type {type(config).__name__}; give a StoreConfig"):
        MessageStore(tmp_path / "s", config)
    assert not (tmp_path / "s").exists()


def test_a_key_of_another_type(tmp_path: Path):
    with pytest.raises(ConfigError, match="'1' is of type int; a key is a text"):
        MessageStore(tmp_path / "s", {1: 2})  # type: ignore[dict-item]


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_an_open_store_is_not_copied(store: MessageStore, how: Any):
    """A copy that is closed would close the original."""
    with pytest.raises(TypeError, match="neither copied nor pickled"):
        how(store)
