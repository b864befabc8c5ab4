"""Functions as Spark tasks: answers in order, errors as what they were."""

import os
import re

import pytest

from flintmq.errors import CorruptStoreError, StoreError, UnsupportedFormatError
from flintmq.spark.jobs.run import parallelism, run_tasks

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


def test_progress_ends_with_all(spark):
    seen = []
    run_tasks(spark, square, list(range(5)), lambda done, of: seen.append((done, of)))
    assert seen[-1] == (5, 5) and all(of == 5 for _, of in seen)


def test_parallelism_is_that_of_the_session(spark):
    assert parallelism(spark) == 2
    assert parallelism(object()) == os.cpu_count()
