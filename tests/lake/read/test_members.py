"""Planning of several stores: offsets by broker, and what all of them lack."""

import json
import threading
import time
from pathlib import Path

import pytest

from flintmq import Message
from flintmq.errors import UsageError
from flintmq.lake.read import members
from flintmq.lake.read.members import AT_ONCE, of_each, plan_members
from flintmq.lake.read.options import ReadOptions
from flintmq.store.commitlog.report import Report
from flintmq.store.read.known_topics import NOT_THERE
from tests.support.engine import put_messages


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for broker, topic in (("a", "Orders"), ("b", "Payments")):
        put_messages(tmp_path / broker, (Message(topic, b"%d" % number) for number in range(5)))
    return tmp_path


def plan(data: Path, **options: str) -> tuple[list[str], Report]:
    report = Report()
    plans = plan_members(ReadOptions.parse({"path": f"{data}/*", **options}), report)
    return [member.broker for member, _ in plans], report


def test_a_topic_of_one_store_is_enough(data: Path) -> None:
    assert plan(data, subscribe="Orders")[0] == ["a", "b"]
    assert plan(data, assign='{"Payments": [0]}')[0] == ["a", "b"]


def test_a_topic_of_no_store_is_missing(data: Path) -> None:
    with pytest.raises(UsageError, match=r"no topic 'Order'.*nor have 1 other"):
        plan(data, subscribe="Order")
    brokers, report = plan(data, subscribe="Order", failOnDataLoss="false")
    assert brokers == ["a", "b"] and [note.code for note in report.notes] == [NOT_THERE]


def test_offsets_are_those_of_the_broker(data: Path) -> None:
    text = json.dumps({"a": {"Orders": {"0": 3}}})
    report = Report()
    plans = dict(plan_members(ReadOptions.parse({"path": f"{data}/*", "startingOffsets": text}), report))
    offsets = {member.broker: plan.options.predicate.offsets for member, plan in plans.items()}
    assert [row[:3] for row in offsets["a"]] == [("Orders", 0, 3)] and offsets["b"] == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"Orders": {"0": 3}}', "brokers come first"),
        ('{"a": {}}', "has no topics"),
        ('{"a": {"Orders": {"x": 3}}}', "not a queue id"),
        ("[]", "not an object"),
        ("{", "not JSON"),
        ('{"c": {"Orders": {"0": 3}}}', "no store of broker 'c'"),
    ],
)
def test_offsets_that_are_not_understood(data: Path, text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        plan(data, startingOffsets=text)


def test_paths_of_spark(data: Path) -> None:
    options = ReadOptions.parse({"paths": json.dumps([f"{data}/a", f"{data}/b"])})
    assert options.many and [member.broker for member, _ in plan_members(options, Report())] == ["a", "b"]
    for given in ({"paths": "[]"}, {"paths": "x"}, {"paths": '["a"]', "path": "b"}):
        with pytest.raises(UsageError, match="paths"):
            ReadOptions.parse(given)


def test_stores_are_planned_at_the_same_time(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits until the other has begun; plans and notes are in the order of the brokers all the same."""
    both = threading.Barrier(2, timeout=60)

    def plan_scan(options: ReadOptions, report: Report, *_: object) -> str:
        both.wait()
        report.note("seen", options.path)
        return options.path

    monkeypatch.setattr(members, "plan_scan", plan_scan)
    report = Report()
    plans = plan_members(ReadOptions.parse({"path": f"{data}/*"}), report)
    assert [str(plan) for _, plan in plans] == [note.text for note in report.notes] == [f"{data}/a", f"{data}/b"]


def test_each_store_may_have_something_to_say(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def planned(options: ReadOptions, report: Report, *rest: object) -> None:
        report.note("ended", options.path)

    monkeypatch.setattr(members, "plan_scan", planned)
    assert [note.text for note in plan(data)[1].notes] == [str(data / "a"), str(data / "b")]


def test_answers_are_in_the_order_of_the_items() -> None:
    def slow_first(number: int) -> int:
        time.sleep(0.05 * (number == 0))
        return number * number

    assert of_each(slow_first, range(20)) == [number * number for number in range(20)]
    assert of_each(slow_first, []) == [] and of_each(slow_first, [3]) == [9]


def test_the_first_error_is_raised_and_the_rest_is_not_begun() -> None:
    begun = []

    def failing(number: int) -> int:
        begun.append(number)
        if number == 1:
            time.sleep(0.05)
        if number in (1, 2):
            raise ValueError(number)
        time.sleep(0.05)
        return number

    with pytest.raises(ValueError, match="1"):
        of_each(failing, range(50 * AT_ONCE))
    assert len(begun) < 25 * AT_ONCE
