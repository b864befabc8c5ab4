"""What a broker took from its store once, and what becomes of it when the store changes underneath."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.broker import Broker
from flintmq.errors import StoreAccessError
from flintmq.message import Message
from tests.broker.talk import KEYS, Line, heartbeat, pull, records
from tests.support.engine import log_files, open_small, put_all, put_dispatched, stored
from tests.support.threads import within

Serve = Callable[..., Broker]
Connected = Callable[[Broker], Line]
PULL, GET, COMMIT, HEARTBEAT, ROUTE, END = 11, 14, 15, 34, 105, 30
FOUND, SYSTEM_ERROR, NO_TOPIC, NOT_FOUND, MOVED = 0, 1, 17, 19, 21
HOLD = {"sysFlag": 6, "suspendTimeoutMillis": 8000}


def offset_of(talk: Line, topic: str = "T") -> int | None:
    answer = talk.ask(GET, {"consumerGroup": "G", "topic": topic, "queueId": 0})
    return int(answer.fields["offset"]) if answer.code == 0 else None


def test_a_store_that_is_gone_for_a_while(
    served: Serve, store: Path, line: Connected, caplog: pytest.LogCaptureFixture
):
    """A disk that is unmounted: no pull may pass over what cannot be read, and all goes on when it is back."""
    broker = served(store)
    talk = line(broker)
    talk.ask(HEARTBEAT, body=heartbeat("a", "G"))
    talk.ask(COMMIT, {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 12})
    away = store.with_name("away")
    store.rename(away)
    for _ in range(3):
        for _ in range(20):
            answer = talk.ask(PULL, pull(offset=12))
            assert answer.code == SYSTEM_ERROR or len(list(records(answer.body))) == 18, answer
            assert offset_of(talk) == 12 and talk.ask(ROUTE, {"topic": "T"}).code == 0
        assert within(lambda: bool(caplog.records))
    away.rename(store)
    assert within(lambda: talk.ask(PULL, pull(offset=12)).code == FOUND)
    assert offset_of(talk) == 12
    with open_small(store, **KEYS) as made:
        put_dispatched(made, 1, 30)
    assert within(lambda: talk.ask(PULL, pull(offset=30)).code == FOUND)
    errors = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
    assert len(errors) < 20, "not a line for each pull or look"


def test_an_empty_folder_in_its_place(served: Serve, store: Path, line: Connected):
    """The mount point is there, without the disk: the broker does not take it for a store without topics."""
    broker = served(store)
    talk = line(broker)
    talk.ask(HEARTBEAT, body=heartbeat("a", "G"))
    talk.ask(COMMIT, {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 12})
    away = store.with_name("away")
    store.rename(away)
    store.mkdir()
    for _ in range(60):
        answer = talk.ask(PULL, pull(offset=12))
        assert answer.code == SYSTEM_ERROR or len(list(records(answer.body))) == 18, answer
        assert offset_of(talk) == 12 and talk.ask(ROUTE, {"topic": "T"}).code == 0
    store.rmdir()
    away.rename(store)
    assert within(lambda: talk.ask(PULL, pull(offset=12)).code == FOUND)


def test_another_store_in_its_place(served: Serve, store: Path, tmp_path: Path, line: Connected):
    """A newer backup under the same name: what there is now is served."""
    broker = served(store)
    talk = line(broker)
    with open_small(tmp_path / "newer", **KEYS) as made:
        put_all(made, 40)
        made.put(Message("Fresh", b"x", queue_id=0))
    number = talk.start(PULL, pull(offset=30, **HOLD))
    assert within(lambda: broker.stats().held == 1)
    store.rename(tmp_path / "older")
    (tmp_path / "newer").rename(store)
    answer = talk.answer(number)
    assert answer.code == FOUND and len(list(records(answer.body))) == 10
    assert talk.ask(ROUTE, {"topic": "Fresh"}).code == 0


def test_a_shorter_store_in_its_place(served: Serve, store: Path, tmp_path: Path, line: Connected):
    """An older backup: a pull beyond its end goes to the end, and does not wait for what is not there."""
    broker = served(store)
    talk = line(broker)
    stored(tmp_path / "older", 10, **KEYS)
    number = talk.start(PULL, pull(offset=30, **HOLD))
    assert within(lambda: broker.stats().held == 1)
    store.rename(tmp_path / "newer")
    (tmp_path / "older").rename(store)
    answer = talk.answer(number, 4)
    assert (answer.code, answer.fields["nextBeginOffset"]) == (MOVED, "10")


def test_a_topic_that_is_deleted_and_made_again(served: Serve, store: Path, tmp_path: Path, line: Connected):
    """Its offsets go with it, as a broker's do: the group gets what is in the new one."""
    for name, topic, count in (("without", "Other", 5), ("again", "T", 3)):
        stored(tmp_path / name, count, topic=topic, **KEYS)
    broker = served(store)
    talk, held = line(broker), line(broker)
    talk.ask(HEARTBEAT, body=heartbeat("a", "G"))
    talk.ask(COMMIT, {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 30})
    number = held.start(PULL, pull(offset=30, **HOLD))
    assert within(lambda: broker.stats().held == 1)
    store.rename(tmp_path / "before")
    (tmp_path / "without").rename(store)
    assert within(lambda: talk.ask(ROUTE, {"topic": "T"}).code == NO_TOPIC)
    assert held.answer(number, 4).code in (NO_TOPIC, MOVED), "a held pull ends"
    assert talk.ask(PULL, pull(offset=30)).code == NO_TOPIC
    store.rename(tmp_path / "between")
    (tmp_path / "again").rename(store)
    assert within(lambda: talk.ask(ROUTE, {"topic": "T"}).code == 0)
    assert offset_of(talk) == 0
    answer = talk.ask(PULL, pull(offset=0))
    assert answer.code == FOUND and len(list(records(answer.body))) == 3


def test_retention_while_a_pull_is_held_and_others_run(served: Serve, tmp_path: Path, line: Connected):
    """The first files of a live store go: pulls below its begin are sent to the begin."""
    with open_small(tmp_path / "store", **KEYS) as made:
        put_dispatched(made, 200)
        made.flush()
        broker = served(tmp_path / "store")
        talk, held = line(broker), line(broker)
        number = held.start(PULL, pull(offset=200, **HOLD))
        assert talk.ask(PULL, pull()).code == FOUND
        files = log_files(tmp_path / "store")
        for file in files[:3]:
            file.unlink()
        answers = []

        def moved() -> bool:
            answers.append(talk.ask(PULL, pull()))
            return answers[-1].code == MOVED

        assert within(moved)
        begin = int(answers[-1].fields["nextBeginOffset"])
        assert 0 < begin < 200 and answers[-1].fields["minOffset"] == str(begin)
        assert {one.code for one in answers} <= {FOUND, 20, SYSTEM_ERROR, MOVED}
        for one in answers:  # whoever was sent on before was not sent beyond what is there
            assert int(one.fields.get("nextBeginOffset", "0")) <= begin
        assert talk.ask(PULL, pull(offset=begin)).code == FOUND
        put_dispatched(made, 1, 200)
        assert held.answer(number).code == FOUND


def test_topics_are_read_again(served: Serve, store: Path, line: Connected):
    """config/topics.json is rewritten: more queues, and then one that cannot be used."""
    broker = served(store)
    talk = line(broker)
    path = store / "config" / "topics.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    told["topicConfigTable"]["T"]["readQueueNums"] = 5
    path.write_text(json.dumps(told), encoding="utf-8")

    def queues() -> int:
        return int(json.loads(talk.ask(ROUTE, {"topic": "T"}).body)["queueDatas"][0]["readQueueNums"])

    assert within(lambda: queues() == 5)
    (store / "config" / "topics.json.bak").unlink(missing_ok=True)
    path.write_bytes(b'{"topicConfigTable":{"T":{')
    looks = broker._now.served.looks
    assert within(lambda: broker._now.served.looks > looks + 2) and queues() >= 1


def test_offsets_of_the_store_that_cannot_be_read_for_a_while(
    served: Serve, store: Path, line: Connected, caplog: pytest.LogCaptureFixture
):
    """A group must not begin anew because its file was torn just now."""
    path = store / "config" / "consumerOffset.json"
    path.write_bytes(b'{"offsetTable":{"T@G":{0:12}}}')
    path.with_suffix(".json.bak").unlink(missing_ok=True)
    broker = served(store)
    talk = line(broker)
    assert offset_of(talk) == 12
    path.write_bytes(b'{"offsetTable":{"T@G"')
    for _ in range(100):
        assert offset_of(talk) == 12
    path.write_bytes(b'{"offsetTable":{"T@G":{0:13}}}')
    assert within(lambda: offset_of(talk) == 13)


@pytest.mark.parametrize("error", [StoreAccessError("it is away"), OSError(24, "Too many open files"), ValueError("x")])
def test_a_refresh_that_fails_for_a_while(
    served: Serve,
    store: Path,
    line: Connected,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
):
    """What was read before is served; the log has one line; then it goes on."""
    broker = served(store)
    talk, tries = line(broker), []
    number = talk.start(PULL, pull(offset=30, **HOLD))

    def refresh() -> None:
        tries.append(1)
        raise error

    monkeypatch.setattr(broker.store, "refresh", refresh)
    with open_small(store, **KEYS) as made:
        put_dispatched(made, 1, 30)
        assert within(lambda: len(tries) > 5)
        assert talk.ask(PULL, pull(offset=29)).code == FOUND
        lines = [one for one in caplog.records if one.levelno >= logging.ERROR]
        assert len(lines) == 1 and str(error) in lines[0].getMessage()
        monkeypatch.undo()
        assert talk.answer(number).code == FOUND


def test_an_offset_beyond_the_end(served: Serve, store: Path, line: Connected):
    """A group with an offset of another life of the store: it is sent to the end, and then gets what comes."""
    broker = served(store)
    talk = line(broker)
    talk.ask(HEARTBEAT, body=heartbeat("a", "G"))
    talk.ask(COMMIT, {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 5000})
    assert offset_of(talk) == 5000
    answer = talk.ask(PULL, pull(offset=5000, **HOLD))
    assert (answer.code, answer.fields["nextBeginOffset"]) == (MOVED, "30")
