"""A consumer with retries: what it gives back comes again, or is a dead letter; nothing is passed over."""

import pickle
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flintmq import GroupSettings
from flintmq.errors import PutFailedError, UsageError
from flintmq.format import config_json
from flintmq.message import Message
from flintmq.store.consumer.retry import sent_back
from flintmq.store.message_store import MessageStore
from flintmq.store.view import open_store
from tests.support.engine import open_small
from tests.support.faults import Faulty
from tests.support.threads import within

NOW = 1_700_000_000_000
LEVEL_MS = 1000


class Aged:
    """A store whose clock only `age` moves, by a level, delivering what is due."""

    def __init__(self, root, **keys):
        self.disk = Faulty()
        self.disk.clock = NOW
        keys.setdefault("messageDelayLevel", "1s 1s 1s 1s 1s")
        self.store = open_small(root, self.disk, **keys)
        self.store._parts.housekeeping.stop()

    def put(self, *bodies, topic="T", **more):
        for body in bodies:
            self.store.put(Message(topic, body, **more)).raise_for_status()
        assert self.store.wait_dispatched(60)

    def age(self):
        assert self.store.wait_dispatched(60)
        self.disk.clock += LEVEL_MS
        while self.store._parts.housekeeping.delay.deliver_once():
            pass
        assert self.store.wait_dispatched(60)


@pytest.fixture
def aged(tmp_path):
    made = Aged(tmp_path / "s")
    with made.store:
        yield made


def seen(messages):
    return [(m.topic, m.queue_id, m.body, m.reconsume_times) for m in messages]


def test_a_message_comes_again_until_it_is_a_dead_letter(aged):
    store = aged.store
    store.create_group("G", GroupSettings(retry_max_times=2))
    aged.put(b"a", b"b", tags="t", keys="k", born_timestamp=7)
    with store.consumer("G", "T", retries=True) as consumer:
        first, second = consumer.poll()
        assert consumer.retry(second) and consumer.commit() == {0: 2}
        assert consumer.poll() == [], "it waits"
        aged.age()
        (again,) = consumer.poll()
        assert seen([again]) == [("T", -1, b"b", 1)] and consumer.queues == [-1, 0]
        assert (again.tags, again.keys, again.born_timestamp) == ("t", "k", 7)
        assert again.properties["ORIGIN_MESSAGE_ID"] == second.offset_msg_id != first.offset_msg_id
        assert consumer.lag() == {-1: 1, 0: 0} and consumer.in_flight() == {-1: 1, 0: 0}
        assert consumer.retry(again, delay=2) and consumer.commit({again.queue_id: again.queue_offset + 1}) == {-1: 1}
        aged.age()
        (last,) = consumer.poll()
        assert seen([last]) == [("T", -1, b"b", 2)]
        assert not consumer.retry(last), "its group gives up"
        consumer.commit()
        aged.age()
        assert consumer.poll() == [] and consumer.lag() == {-1: 0, 0: 0}
    assert store.wait_dispatched(60)
    (dead,) = store.get("%DLQ%G", 0, 0).messages
    assert (dead.body, dead.reconsume_times, dead.properties["RETRY_TOPIC"]) == (b"b", 3, "T")
    assert store.group_offsets("G") == {("T", 0): 2, ("%RETRY%G", 0): 2}


def test_what_was_given_back_goes_on_after_a_restart(aged, tmp_path):
    aged.put(b"a")
    with aged.store.consumer("G", "T", retries=True) as consumer:
        consumer.retry(*consumer.poll())
        consumer.commit()
    aged.store.close()
    later = Aged(tmp_path / "s")
    with later.store:
        later.age()
        with later.store.consumer("G", "T", retries=True) as consumer:
            assert seen(consumer.poll()) == [("T", -1, b"a", 1)]
    raw = (tmp_path / "s/config/consumerOffset.json").read_bytes()
    assert config_json.parse(raw)["offsetTable"] == {"T@G": {0: 1}}, "a broker goes on there"


def test_a_retry_that_was_not_committed_comes_as_both(aged):
    aged.put(b"a")
    with aged.store.consumer("G", "T", retries=True) as consumer:
        consumer.retry(*consumer.poll())
    aged.age()
    with aged.store.consumer("G", "T", retries=True) as consumer:
        assert sorted(seen(consumer.poll())) == [("T", -1, b"a", 1), ("T", 0, b"a", 0)]


def test_a_put_that_is_refused_leaves_the_message_in_flight(aged):
    aged.put(b"a")
    with aged.store.consumer("G", "T", retries=True) as consumer:
        (message,) = consumer.poll()
        aged.disk.refuse("create", "commitlog", times=99)
        aged.disk.refuse("allocate", "commitlog", times=99)
        with pytest.raises(PutFailedError):
            while consumer.retry(message):  # until the log's file is full
                pass
        assert consumer.in_flight() == {0: 1}
    aged.disk.rules.clear()


def test_dead_letters_at_once_also_without_retries(aged):
    aged.put(b"a", b"b")
    with aged.store.consumer("G", "T") as consumer:
        first, _ = consumer.poll()
        assert consumer.dead(first) is None
        with pytest.raises(UsageError, match="make it with retries=True"):
            consumer.retry(first)
    assert aged.store.wait_dispatched(60)
    assert seen(aged.store.get("%DLQ%G", 0, 0).messages) == [("%DLQ%G", 0, b"a", 1)]


def test_retries_come_whatever_their_tags_are_and_foreign_tags_do_not(aged):
    aged.put(b"a", tags="a")
    with aged.store.consumer("G", "T", retries=True) as consumer:
        consumer.retry(*consumer.poll())
        consumer.commit()
    aged.age()
    aged.put(b"b", tags="a"), aged.put(b"c", tags="c")
    with aged.store.consumer("G", "T", tags="c", retries=True) as consumer:
        assert sorted(m.body for m in consumer.poll()) == [b"a", b"c"]


def test_latest_is_meant_for_new_messages_and_passes_over_no_retry(aged):
    aged.put(b"a")
    with aged.store.consumer("G", "T", retries=True) as consumer:
        consumer.retry(*consumer.poll())  # and it dies before a commit
    aged.age()
    with aged.store.consumer("G", "T", start="latest", retries=True) as consumer:
        assert seen(consumer.poll()) == [("T", -1, b"a", 1)]


def test_one_consumer_of_the_group_has_the_retries(aged):
    for queue in range(3):
        aged.put(b"%d" % queue, queue_id=queue)
    one, two = (aged.store.consumer("G", "T", retries=True) for _ in range(2))
    for message in [*one.poll(), *two.poll()]:
        (one if message.queue_id in one.queues else two).retry(message)
    one.commit(), two.commit()
    aged.age()
    owner, other = (one, two) if -1 in one.queues else (two, one)
    assert len(one.queues) == len(two.queues) == 2
    assert sorted(m.body for m in owner.poll()) == [b"0", b"1", b"2"] and other.poll() == []
    owner.close()
    assert sorted(m.body for m in other.poll()) == [b"0", b"1", b"2"], "nobody committed them"


def test_a_group_with_more_queues_for_its_retries(aged):
    aged.store.create_group("G", GroupSettings(retry_queues=2))
    aged.put(b"a", b"b", b"c")
    with aged.store.consumer("G", "T", retries=True) as consumer:
        for message in consumer.poll():
            consumer.retry(message)
        consumer.commit()
        aged.age()
        assert sorted((m.queue_id, m.queue_offset, m.body) for m in consumer.poll()) == [
            (-2, 0, b"b"), (-1, 0, b"a"), (-1, 1, b"c"),
        ]  # fmt: skip
        assert consumer.commit() == {-2: 1, -1: 2, 0: 3}
        consumer.seek(-1, 1)
        assert [m.body for m in consumer.poll()] == [b"c"]
        consumer.seek_to_earliest()
        assert len(consumer.poll()) == 6
    assert aged.store.topic("%RETRY%G").read_queues == 2


def foreign(aged):
    """Retries of a group: one of T, one of another topic, one of T."""
    for topic in ("T", "Other", "T"):
        put = aged.store.put(Message(topic, topic.encode()))
        made = sent_back(aged.store.get_at(put.physical_offset), "G")
        aged.store.put(made).raise_for_status()
    aged.store.commit_offset("G", "T", 0, 2)
    aged.age()


def test_a_retry_of_another_topic_is_not_passed_over(aged):
    foreign(aged)
    with aged.store.consumer("G", "T", retries=True, idle_ms=0) as consumer:
        assert seen(consumer.poll()) == [("T", -1, b"T", 1)], "those before it come"
        said = "offset 1 of queue -1 is a retry of topic 'Other', and this consumer of group 'G' reads 'T'"
        for _ in range(2):
            with pytest.raises(UsageError, match=said):
                consumer.poll()
        with pytest.raises(UsageError, match=said):
            list(consumer)
        assert consumer.commit() == {-1: 1, 0: 2}
        consumer.seek(-1, 2)
        assert seen(consumer) == [("T", -1, b"T", 1)]
    with aged.store.consumer("G", "%RETRY%G") as consumer:
        assert [m.properties["RETRY_TOPIC"] for m in consumer.poll()] == ["Other", "T"], "as the error says"


def test_a_message_that_names_no_topic_comes_as_in_rocketmq(aged):
    aged.put(b"by hand", topic="%RETRY%G")
    with aged.store.consumer("G", "T", retries=True) as consumer:
        for times in range(2):
            (message,) = consumer.poll()
            assert seen([message]) == [("%RETRY%G", -1, b"by hand", times)]
            consumer.retry(message)
            aged.age()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("T", True), ("T", False)),
        (("T", False), ("T", True)),
        (("T", True), ("Other", True)),
        (("T", True), ("%RETRY%G", False)),
        (("%RETRY%G", False), ("T", True)),
    ],
)
def test_a_group_reads_its_retries_in_one_way(aged, first, second):
    one = aged.store.consumer("G", first[0], retries=first[1])
    with pytest.raises(UsageError, match="a group has one subscription"):
        aged.store.consumer("G", second[0], retries=second[1])
    aged.store.consumer("H", second[0]).close()
    one.close()
    aged.store.consumer("G", second[0], retries=second[1]).close()


def test_what_may_not_be(aged, tmp_path):
    store = aged.store
    aged.put(b"a"), aged.put(b"b", topic="Other")
    for topic in ("%RETRY%G", "%DLQ%H", "%LMQ%x"):
        with pytest.raises(UsageError, match="holds messages of other topics"):
            store.consumer("G", topic, retries=True)
    with pytest.raises(UsageError, match="the queues of retries would be nobody's"):
        store.consumer("G", "T", queues=[0], retries=True)
    with pytest.raises(TypeError, match="retries is of type str"):
        store.consumer("G", "T", retries="no")
    with store.consumer("G", "T", retries=True) as consumer:
        (message,) = consumer.poll()
        for delay in (0, -1):
            with pytest.raises(UsageError, match="from 1, or None"):
                consumer.retry(message, delay)
        with pytest.raises(TypeError, match="delay is of type str"):
            consumer.retry(message, "3")
        with pytest.raises(TypeError, match="message is of type bytes"):
            consumer.dead(b"a")
        with pytest.raises(UsageError, match="of topic 'Other' is not one of this consumer of 'T'"):
            consumer.retry(store.get("Other", 0, 0).messages[0])
        store.create_group("G", GroupSettings(retry_queues=0))
        with pytest.raises(UsageError, match="retryQueueNums 0"):
            consumer.retry(message)
        consumer.dead(message)
    with pytest.raises(UsageError, match="is closed"):
        consumer.retry(message)
    with open_store(store.root) as view, view.consumer("G", "T") as reading:
        with pytest.raises(UsageError, match="cannot give messages back, the store is open for reading only"):
            reading.dead(*reading.poll())


def test_a_retried_message_is_pickled_as_what_it_is(aged):
    aged.put(b"a")
    with aged.store.consumer("G", "T", retries=True) as consumer:
        consumer.retry(*consumer.poll())
        aged.age()
        (message,) = consumer.poll()
    copy = pickle.loads(pickle.dumps(message))
    assert copy == message and seen([copy]) == seen([message]) and "topic='T'" in repr(message)
    assert message.as_row()["topic"] == "T" and message.fields.topic == b"%RETRY%G"


@pytest.mark.parametrize("name", ["delay", "delay550"])
def test_a_group_of_javas_goes_on_with_its_retries(golden, tmp_path, name):
    """A broker's store: its group has consumed the topic, and retries that were not consumed wait for it."""
    store_of_java = golden(name)
    root = store_of_java.copy(tmp_path)
    wanted = [row for row in store_of_java.rows if row["topic"] == "%RETRY%DelayGroup"]
    with MessageStore(root, config=store_of_java.config) as store:
        store.commit_offset("DelayGroup", "%RETRY%DelayGroup", 0, 0)
        with store.consumer("DelayGroup", "Later", retries=True) as consumer:
            found = [m for m in consumer.poll(1000) if m.queue_id == -1]
    assert wanted and [(m.topic, m.msg_id, m.reconsume_times) for m in found] == [
        ("Later", row["msg_id"], 1) for row in wanted
    ]


WORKER = """
import random, sys
from flintmq import GroupSettings, MessageStore
root, seed, done = sys.argv[1:]
chance = random.Random(int(seed))
keys = {"messageDelayLevel": "1s 1s 1s", "mappedFileSizeCommitLog": 65536, "flushDelayOffsetInterval": 100}
with MessageStore(root, config=keys) as store, open(done, "a") as ledger:
    store.create_group("G", GroupSettings(retry_max_times=2))
    print("open", flush=True)
    with store.consumer("G", "T", retries=True) as consumer:
        for count, message in enumerate(consumer):
            number = message.body.decode()
            if int(number) % 3 == 0 or chance.random() < 0.3:  # a third never goes well
                consumer.retry(message, delay=1)
            else:
                ledger.write(f"{number} {message.reconsume_times}\\n")
                ledger.flush()
            if count % 7 == 6 or sum(consumer.lag().values()) < 7:
                consumer.commit(wait=chance.random() < 0.5)
"""


def test_kills_lose_no_message_and_each_is_consumed_or_dead(tmp_path):
    """kill -9 while messages are consumed, given back and delivered again: in the end each was consumed or is a dead
    letter, at most by its group's number of retries."""
    root, ledger, count = tmp_path / "s", tmp_path / "done", 60
    with MessageStore(root, config={"mappedFileSizeCommitLog": 65536}) as store:
        for number in range(count):
            store.put(Message("T", b"%d" % number, queue_id=number % 4))
    chance = random.Random(20261129)
    for life in range(5):
        worker = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(root), str(life), str(ledger)], stdout=subprocess.PIPE, text=True
        )
        assert worker.stdout is not None and worker.stdout.readline() == "open\n"
        if life < 4:
            time.sleep(chance.choice((0.05, 0.2, 1.3, 2.5)))
        else:
            assert within(lambda: settled(root, ledger) == set(range(count)), 90), settled(root, ledger)
        worker.kill()
        worker.wait()
        worker.stdout.close()
    with open_store(root) as view:
        records = list(view.messages())
    dead = {int(m.body) for m in records if m.topic == "%DLQ%G"}
    consumed = {int(line.split()[0]): int(line.split()[1]) for line in ledger.read_text().splitlines()}
    assert dead | set(consumed) == set(range(count)) and dead >= set(range(0, count, 3))
    assert max(consumed.values()) <= 2 and {m.reconsume_times for m in records if m.topic == "%DLQ%G"} == {3}


def settled(root: Path, ledger: Path) -> set[int]:
    """Numbers of the messages that were consumed or are dead letters."""
    with open_store(root) as view:
        dead = {int(m.body) for m in view.messages() if m.topic == "%DLQ%G"}
    return dead | {int(line.split()[0]) for line in ledger.read_text().splitlines() if " " in line}
