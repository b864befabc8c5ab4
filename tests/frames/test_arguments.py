"""Arguments of a wrong type or value are refused in one line that says what is accepted, by every way to read."""

import datetime
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flintmq
from flintmq import Message, MessageStore
from flintmq.errors import CorruptStoreError, UsageError
from flintmq.frames.sql import ask
from flintmq.lake.export.export_once import export
from tests.support.makers import patch

TIME = "give ms since 1970 or a datetime with a time zone"
TEXTS = "give a list of texts, or one text"
QUEUE = "give an id, (topic, id) or (topic, id, first, stop)"
WRONG: list[tuple[str, Any, str]] = [
    ("since", "2020", f"since is '2020', of type str; {TIME}"),
    ("until", "2020", f"until is '2020', of type str; {TIME}"),
    ("since", datetime.date(2020, 1, 2), f"since is datetime.date(2020, 1, 2), of type date; {TIME}"),
    ("until", np.datetime64("2020-01-01"), ", of type datetime64; give ms since 1970"),
    ("since", 1.5, f"since is 1.5, of type float; {TIME}"),
    ("since", True, f"since is True, of type bool; {TIME}"),
    ("since", 2**63, f"since is {2**63}, which is no number of ms since 1970"),
    ("since", datetime.datetime(2020, 1, 1), "since is 2020-01-01 00:00:00, which has no time zone; give one"),
    ("tags", [None], f"tags has None, of type NoneType; {TEXTS}"),
    ("tags", 5, f"tags is 5, of type int; {TEXTS}"),
    ("tags", b"x", f"tags is b'x', of type bytes; {TEXTS}"),
    ("topics", ["T", 5], f"topics has 5, of type int; {TEXTS}"),
    ("topics", 5, f"topics is 5, of type int; {TEXTS}"),
    ("queues", 1, "queues is 1, of type int; give a list of ids, (topic, id) or (topic, id, first, stop)"),
    ("queues", ["T"], f"'T' is not a queue; {QUEUE}"),
    ("queues", [True], f"True is not a queue; {QUEUE}"),
    ("queues", [("T",)], f"('T',) is not a queue; {QUEUE}"),
    ("queues", [(0, "T")], f"(0, 'T') is not a queue; {QUEUE}"),
    ("queues", [("T", "0")], f"('T', '0') is not a queue; {QUEUE}"),
    ("queues", [2**31], "2147483648 is not a queue: ids are below 2**31"),
    (
        "queues",
        [("T", 0, "a", None)],
        "the first offset of ('T', 0, 'a', None) is 'a', of type str; give a queue offset",
    ),
    ("queues", [("T", 0, 0, 1.5)], "the offset to stop before of ('T', 0, 0, 1.5) is 1.5, of type float"),
    ("threads", "2", "threads is '2', of type str; give a whole number"),
    ("threads", 0, "both must be 1 at least"),
]
OF_ARROW: list[tuple[str, Any, str]] = [
    ("columns", 5, "columns is 5, of type int; give a list of names"),
    ("columns", [None], "no column 'None'"),
    ("columns", "body", "columns is a list of names, not a string"),
    ("begin", "0", "begin is '0', of type str; give a whole number"),
    ("begin", 1.0, "begin is 1.0, of type float; give a whole number"),
    ("end", "9", "end is '9', of type str; give a whole number"),
    ("batch_bytes", 1e6, "batch_bytes is 1000000.0, of type float; give a whole number"),
    ("batch_bytes", None, "batch_bytes is None, of type NoneType; give a whole number"),
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    """Three messages, in queues 0, 1 and 1."""
    with MessageStore(tmp_path / "store", dev=True) as opened:
        for number in range(3):
            opened.put(Message("T", b"%d" % number, queue_id=min(number, 1)))
    yield tmp_path / "store"


def polars(*given: Any, **named: Any) -> Any:
    return flintmq.scan_polars(*given, **named)


@pytest.mark.parametrize("read", [flintmq.scan_arrow, flintmq.dataset, polars])
@pytest.mark.parametrize(("name", "value", "said"), WRONG)
def test_what_every_way_to_read_refuses(
    store: Path, read: Callable[..., Any], name: str, value: Any, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read(store, **{name: value})
    assert said in str(caught.value) and len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(("name", "value", "said"), OF_ARROW)
def test_what_a_scan_refuses(store: Path, name: str, value: Any, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        flintmq.scan_arrow(store, **{name: value})
    assert said in str(caught.value) and len(str(caught.value).splitlines()) == 1


def test_numbers_of_numpy_are_numbers(store: Path) -> None:
    def bodies(**named: Any) -> list[bytes]:
        found: list[bytes] = flintmq.scan_arrow(store, ["body"], **named).read_all()["body"].to_pylist()
        return found

    assert bodies(queues=[np.int64(1)]) == [b"1", b"2"]
    assert bodies(queues=[("T", np.int32(1), np.int64(1), None)]) == [b"2"]
    assert bodies(since=np.int64(0), until=np.int64(2**62), threads=np.int8(2), batch_bytes=np.int64(100)) == [
        b"0", b"1", b"2",
    ]  # fmt: skip
    assert bodies(queues=iter([0]), tags=None) == [b"0"]


def test_a_begin_within_a_record_is_the_callers_mistake(store: Path) -> None:
    places: list[int] = flintmq.scan_arrow(store, ["physical_offset"]).read_all()["physical_offset"].to_pylist()
    sizes: list[int] = flintmq.scan_arrow(store, ["size"]).read_all()["size"].to_pylist()
    end = places[2] + sizes[2]
    for begin, near in ((10, 0), (places[1] - 1, 0), (places[1] + 1, 1), (end - 1, 2)):
        before, after = places[near], [*places, end][near + 1]
        with pytest.raises(UsageError) as caught:
            flintmq.scan_arrow(store, begin=begin)
        assert str(caught.value) == (
            f"begin {begin} is within a record of {store}; the nearest records begin at {before} and {after}"
        )
    for begin, rows in ((0, 3), (places[1], 2), (np.int64(places[2]), 1), (end, 0)):
        assert flintmq.scan_arrow(store, begin=begin).read_all().num_rows == rows
    assert flintmq.scan_arrow(store, begin=places[1], end=places[2]).read_all().num_rows == 1


def test_a_begin_at_a_damaged_record_is_damage(store: Path) -> None:
    places: list[int] = flintmq.scan_arrow(store, ["physical_offset"]).read_all()["physical_offset"].to_pylist()
    (file,) = (path for path in (store / "commitlog").iterdir() if path.name == "0" * 20)
    patch(file, places[1] + 8, b"\xff" * 4)
    with pytest.raises(CorruptStoreError):
        flintmq.scan_arrow(store, begin=places[1]).read_all()


def test_a_question_is_a_text(store: Path) -> None:
    messages: Any = flintmq.dataset(store)
    wrong: list[tuple[Any, ...]] = [(5,), ("select 1", "1GB")]
    for given, said in zip(wrong, ("the question is 5, of type int", "memory is '1GB', of type str"), strict=True):
        with pytest.raises(UsageError, match=said), ask(messages, *given):
            pass


@pytest.mark.parametrize("bound", ["begin", "end"])
def test_each_log_offset_is_of_one_store(store: Path, bound: str) -> None:
    shutil.copytree(store, store.parent / "other")
    with pytest.raises(UsageError, match="are log offsets of one store"):
        flintmq.scan_arrow([store, store.parent / "other"], **{bound: 0})


@pytest.mark.parametrize("bound", ["begin", "end"])
def test_no_log_offset_applies_beside_a_history(store: Path, tmp_path: Path, bound: str) -> None:
    """Nor 0, which as an end would leave no row."""
    export(str(store), str(tmp_path / "out"))
    with pytest.raises(UsageError, match=f"{bound} does not apply to a read with history"):
        flintmq.scan_arrow(store, history=tmp_path / "out", **{bound: 0})
