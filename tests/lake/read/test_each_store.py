"""Answers are in the order of the items; the first error of this order is raised."""

from __future__ import annotations

import time

import pytest

from flintmq.lake.read.each_store import AT_ONCE, of_each


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
