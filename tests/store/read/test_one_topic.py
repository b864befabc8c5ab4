"""A question about one topic lists the directories of that topic, and answers as if it had listed all."""

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import MessageNotFoundError
from flintmq.forensics.topic_tail import TopicTail
from flintmq.message import Message
from flintmq.storage.files.filesystem import Effects
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.queue_lookup import QueueLookup
from flintmq.store.view import StoreView, open_store
from tests.compat.stores import Golden
from tests.support.engine import KEYS, open_small, put_all

GIVEN = {key: KEYS[key] for key in ("maxHashSlotNum", "maxIndexNum")}
"""Sizes of queue files that are given would be compared with those of the first hundred queues."""


class Lists(Effects):
    """Counts which directories of queues are listed."""

    def __init__(self) -> None:
        self.listed: list[str] = []

    def listdir(self, path: str, below: str | None = None) -> list[str]:
        self.listed += [path] if "consumequeue" in path else []
        return super().listdir(path, below)

    def entries(self, path: str, below: str | None = None):  # type: ignore[no-untyped-def]
        self.listed += [path] if "consumequeue" in path else []
        return super().entries(path, below)

    def only_file(self, path: str, below: str, count: int) -> tuple[list[tuple[str, int]], bytes | None]:
        self.listed.append(path)
        return super().only_file(path, below, count)


def make(root: Path, others: int, last: str) -> None:
    """Make a store of other topics, plain and batch, and of the topic T; `last`: the topic of the last record."""
    with open_small(root, unique_keys=True) as store:
        for number in range(others):
            store.create_topic(f"Batch{number}", 1, "BatchCQ")
            for queue_id in range(2):
                store.put(Message(f"Other{number}", b"x", queue_id=queue_id))
        put_all(store, 5, topic="T")
        put_all(store, 5, topic="T", queue_id=1)
        store.put(Message(last, b"x"))
        store.wait_dispatched(60)
    for number in range(others):
        (root / f"batchconsumequeue/Batch{number}/0").mkdir(parents=True)


def tail(view: StoreView) -> object:
    found = TopicTail(view, "T")
    return found.queues, [(one.queue_id, one.queue_offset) for one in [*found.last(3), *found.since(0)]]


def missing(view: StoreView, *place: object) -> str:
    with pytest.raises(MessageNotFoundError) as caught:
        view.get(*place)  # type: ignore[arg-type]
    return str(caught.value)


def polled(view: StoreView) -> list[tuple[int, int]]:
    with view.consumer("G", "T", idle_ms=0) as consumer:
        return sorted((one.queue_id, one.queue_offset) for one in consumer)


QUESTIONS: dict[str, Callable[[StoreView], object]] = {
    "tail": tail,
    "queues": lambda view: view.queues("T"),
    "get": lambda view: view.get("T", 1, 3).body,
    "get after the end": lambda view: missing(view, "T", 1, 99),
    "get of no queue": lambda view: missing(view, "T", 7, 0),
    "get of no topic": lambda view: missing(view, "None", 7, 0),
    "read": lambda view: [one.body for one in view.read("T", 0, 0)],
    "time": lambda view: view.offset_at_time("T", 0, 0),
    "query": lambda view: [one.body for one in view.query("T", "k1")],
    "consumer": polled,
}


@pytest.fixture(scope="module", params=["T", "Other0"])
def small_and_large(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    found = []
    for others in (2, 30):
        found.append(tmp_path_factory.mktemp("store"))
        make(found[-1], others, request.param)
    return found


@pytest.mark.parametrize("question", QUESTIONS)
def test_other_topics_cost_nothing(question: str, small_and_large: list[Path]) -> None:
    lists, answers = [], []
    for root in small_and_large:
        disk = Lists()
        with open_store(root, set=GIVEN, effects=disk) as view:
            answers.append(QUESTIONS[question](view))
        lists.append([os.path.relpath(path, root) for path in disk.listed])
    assert lists[0] == lists[1] and len(lists[0]) <= 12, lists
    assert answers[0] == answers[1]


def check_all(root: Path, config: dict[str, object]) -> None:
    """Compare answers of lookups that are asked for one topic with those of one that lists all."""
    all_ = QueueLookup(Snapshot.open(root, StoreConfig.of(None, config)))
    names, lost, kinds = all_.names(), all_.without_files(), {name: all_.units(name).is_batch for name in all_.names()}
    for topic in {*(name.topic for name in names | lost), "None", "", "..", "a/b", "\udcff", "x" * 300}:
        one = QueueLookup(Snapshot.open(root, StoreConfig.of(None, config)))
        mine = {name for name in names if name.topic == topic}
        assert one.without_files(topic) == {name for name in lost if name.topic == topic}
        assert one.names(topic) == mine and one.has_files == all_.has_files
        for name in mine:
            assert one.units(name).is_batch == kinds[name] and one.bounds(name) == all_.bounds(name)
        if mine:
            assert one.type_of(topic) == all_.type_of(topic)
        assert all_.names(topic) == mine and one.names() == names, "and the other way round"


def test_every_store_answers_as_if_all_were_listed(golden_store: Golden) -> None:
    check_all(golden_store.path, golden_store.config)


def lose_topic(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "T")


def lose_queue(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "T" / "1")


def lose_all(root: Path) -> None:
    shutil.rmtree(root / "consumequeue")


def lose_other(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "Other0")


def link_topic(root: Path) -> None:
    os.rename(root / "consumequeue" / "T", root / "T")
    (root / "consumequeue" / "T").symlink_to(root / "T")


def foreign(root: Path) -> None:
    folder = root / "consumequeue"
    for name in ("a-file", "T/x", "T/1/y"):
        (folder / name).write_bytes(b"x")
    for name in ("Empty", "Odd/00", "Odd/-1", "Odd/99999999999", "Odd/1/2/3"):
        (folder / name).mkdir(parents=True)
    (root / "batchconsumequeue" / "T" / "5").mkdir(parents=True)
    (root / "batchconsumequeue" / "Unknown" / "0").mkdir(parents=True)
    (root / "batchconsumequeue" / "No" / "queue").mkdir(parents=True)


def killed(root: Path) -> None:
    (root / "abort").touch()
    (root / "flintmq.mark").unlink()


def no_config(root: Path) -> None:
    shutil.rmtree(root / "config")


HARMS = [lose_topic, lose_queue, lose_all, lose_other, link_topic, foreign, killed, no_config]


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("short", [True, False])
def test_odd_stores_answer_as_if_all_were_listed(
    harm: Callable[[Path], None], short: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`short`: the log's last part shows few queues, so that `flintmq.queues` must tell."""
    make(tmp_path, 3, "Other0")
    harm(tmp_path)
    if short:
        monkeypatch.setattr("flintmq.store.read.queue_lookup.SEGMENT_BYTES", 500)
    check_all(tmp_path, KEYS)


def test_what_is_missing_is_named_by_who_asks_for_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make(tmp_path, 3, "T")
    lose_other(tmp_path)
    lose_queue(tmp_path)
    caplog.set_level(logging.WARNING, "flintmq.store")
    with open_store(tmp_path, set=KEYS) as view:
        assert [info.queue_id for info in view.queues("T")] == [0]
        assert "files of T/1 are missing" in caplog.text and "Other0" not in caplog.text
        assert view.read_log_of("T") and len(view.queues("T")) == 2
        assert view.read_log_of("Other0"), "they still lack their files"
        assert view._now.without_files() == {QueueName("T", 1), *(QueueName("Other0", at) for at in (0, 1))}


def test_a_live_store_gets_another_topic(tmp_path: Path) -> None:
    """A view shows the queues that there were; a refreshed one those that there are."""
    make(tmp_path, 2, "T")
    with open_small(tmp_path) as store, open_store(tmp_path, set=KEYS) as view:
        assert len(view.queues("T")) == 2 and view.queues("New") == []
        store.put(Message("New", b"x"))
        put_all(store, 1, topic="T", queue_id=2)
        store.wait_dispatched(60)
        assert (view.topics() and view.queues("New") == []) or view.queues("New")[0].max_offset == 0
        view.refresh()
        assert view.get("New", 0, 0).body == b"x" and len(view.queues("T")) == 3
