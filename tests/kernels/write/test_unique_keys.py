"""kernels/write/unique_keys: numbers follow the one rule, in both forms; an id that a kernel writes is Python's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.format.message_id import ClientId, client_id, unique_key
from flintmq.kernels.write import append_columns
from flintmq.kernels.write.fast_append import QueueCounter
from flintmq.kernels.write.unique_keys import Numbers

PREFIX = b"0A1B2C3D4E5F60718293"
MONTH = 31 * 86_400_000


@pytest.mark.parametrize("wrong", [(0, 1, b""), (0, 1, PREFIX + b"0"), (5, 5, PREFIX), (0, 1 << 32, PREFIX)], ids=str)
def test_a_month_that_is_none_is_refused(wrong: tuple[int, int, bytes]):
    numbers = Numbers()
    with pytest.raises(ValueError):
        numbers.start(*wrong)
    assert numbers.reserve(0, 1) == -1, "no month was started"


@given(
    begin=st.integers(0, 1 << 45),
    steps=st.lists(st.tuples(st.integers(-1000, 1000), st.integers(1, 200_000)), min_size=1, max_size=20),
)
def test_numbers_rise_carry_the_time_and_never_come_twice(begin: int, steps: list[tuple[int, int]]):
    numbers, now, free = Numbers(), begin, 0
    numbers.start(begin, begin + MONTH, PREFIX)
    counted = 0
    for step, count in steps:
        now = max(begin, now + step)
        first = numbers.reserve(now, count)
        assert first >= free, "all before it are lower"
        assert first & 0xFFFF == counted & 0xFFFF, "the counter runs on"
        timed = (now - begin) << 16
        assert first >> 16 == timed >> 16 or (first == free and free > timed), "the time, or right behind the last"
        free, counted = first + count, counted + count
        assert numbers.last == free - 1
    assert numbers.reserve(begin - 1, 1) == -1 == numbers.reserve(begin + MONTH, 1)
    assert numbers.last == free - 1, "nothing was given outside of the month"
    assert numbers.reserve(begin + MONTH - 1, 1) >= 0


@pytest.mark.skipif(not append_columns.COMPILED, reason="this kernel runs compiled only")
@pytest.mark.parametrize("number", [0, 1, 0x0123_4567_89AB, (1 << 48) - 1, MONTH << 16], ids=hex)
def test_a_key_that_a_kernel_writes_is_the_one_that_python_says(number: int):
    from tests.kernels.write.test_append_columns import columns, texts, written

    one = columns(bodies=texts(b"1"), unique_prefix=PREFIX, unique_first=number)
    (record,) = written(one, {0: QueueCounter(0)})
    parts = ClientId(bytes([10, 27, 44, 61]), 0x4E5F, 0x60718293, number >> 16, number & 0xFFFF)
    assert record.properties == b"UNIQ_KEY\1" + client_id(parts).encode() + b"\2"
    assert unique_key(PREFIX, number) == client_id(parts)
