"""Functions as Spark tasks: answers in order, errors as what they were."""

import json
import os
import re
import time

import pyarrow as pa
import pytest

from flintmq.errors import (
    CorruptStoreError,
    DivergedError,
    FormatError,
    LostLogError,
    MissingExtraError,
    OffsetGoneError,
    StoreError,
    UnknownTopicError,
    UnsupportedFormatError,
)
from flintmq.spark.jobs.tasks import answer_of, error_in, parallelism, run_tasks

pytestmark = pytest.mark.spark


def square(number):
    return {"square": number * number, "text": f"\udcff {number}"}


def fail(number):
    if number == 3:
        raise CorruptStoreError("/s/commitlog/0", 17, "body CRC is wrong", "run verify")
    if number == 4:
        raise UnsupportedFormatError("s: a DLedger log")
    return {}


def break_down(number):
    raise OSError(28, "No space left on device", "/s/x")


def test_answers_come_in_the_order_of_the_items(spark):
    assert run_tasks(spark, square, list(range(20))) == [square(n) for n in range(20)]


def test_nothing_to_do(spark):
    assert run_tasks(spark, square, []) == []


def test_an_error_comes_back_as_what_it_was(spark):
    with pytest.raises(CorruptStoreError) as caught:
        run_tasks(spark, fail, [1, 2, 3, 4])
    assert (caught.value.file, caught.value.position, caught.value.reason) == (
        "/s/commitlog/0",
        17,
        "body CRC is wrong",
    )
    assert str(caught.value) == "/s/commitlog/0, position 17: body CRC is wrong; run verify"
    assert caught.value.exit_code == 1
    with pytest.raises(UnsupportedFormatError, match="^s: a DLedger log$"):
        run_tasks(spark, fail, [4])


def test_what_spark_gives_up_is_one_line(spark):
    with pytest.raises(StoreError, match="No space left on device") as caught:
        run_tasks(spark, break_down, [1])
    assert "\n" not in str(caught.value) and re.match("a Spark task failed: .*OSError", str(caught.value))


class Attempts:
    """A function that writes down each call before it fails."""

    def __init__(self, folder, error):
        self.folder, self.error = folder, error

    def __call__(self, number):
        (self.folder / f"{os.getpid()}-{time.monotonic_ns()}").touch()
        raise self.error


def answer_to(function):
    return error_in(json.loads(answer_of(0, function, None).column("answer")[0].as_py()))


@pytest.mark.parametrize(
    "error",
    [
        LostLogError("/s/commitlog/0", 17, "two files are missing", "bring them back"),
        DivergedError("diverged", "the log is another one"),
        OffsetGoneError("gone", "the master deleted it"),
        FormatError("short", 3),
        UnknownTopicError("no such topic"),
        MissingExtraError("pip install 'flintmq[delta]'"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_every_form_come_back(error, tmp_path):
    """LostLogError, and those of a follower, came back as a TypeError of their constructors."""
    found = answer_to(Attempts(tmp_path, error))
    assert type(found) is type(error)
    assert str(found) == str(error) and vars(found) == vars(error)


MISTAKES = (KeyError("a"), IndexError(1), TypeError("b"), ValueError("c\nd"), AttributeError("e"), RuntimeError("f"))


@pytest.mark.parametrize("error", [*MISTAKES, ZeroDivisionError(), pa.ArrowInvalid("g")], ids=repr)
def test_a_mistake_of_a_program_is_no_reason_to_try_again(error, tmp_path):
    """It comes back as an answer, in one line, which Spark takes for a task that is done."""
    answer = answer_to(Attempts(tmp_path, error))
    assert type(answer) is StoreError and "\n" not in str(answer)
    assert re.match(rf"internal error in a task: {type(error).__name__}: .*\(test_tasks\.py:\d+\); please", str(answer))
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("error", [OSError(5, "I/O"), MemoryError(), pa.ArrowMemoryError("a"), BrokenPipeError()])
def test_what_may_pass_is_left_to_spark(error, tmp_path):
    with pytest.raises(type(error)):
        answer_of(0, Attempts(tmp_path, error), None)


def test_a_mistake_is_told_on_the_driver(spark, tmp_path):
    with pytest.raises(StoreError, match=r"^internal error in a task: KeyError: 'group'"):
        run_tasks(spark, Attempts(tmp_path, KeyError("group")), [1])
    assert len(list(tmp_path.iterdir())) == 1


def test_progress_ends_with_all(spark):
    seen = []
    run_tasks(spark, square, list(range(5)), lambda done, of: seen.append((done, of)))
    assert seen[-1] == (5, 5) and all(of == 5 for _, of in seen)


def test_parallelism_is_that_of_the_session(spark):
    assert parallelism(spark) == 2
    assert parallelism(object()) == os.cpu_count()
