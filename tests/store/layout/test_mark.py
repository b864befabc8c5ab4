"""The mark's value: each way to let it claim less leaves the rest as it was."""

import pytest

from flintmq.format.flintmq_mark import Indexed
from flintmq.store.layout.mark import UNKNOWN, DurableMark

INDEXED = Indexed(*range(len(Indexed._fields)))
MARK = DurableMark(4000, 3000, INDEXED)


@pytest.mark.parametrize(("position", "dispatched"), [(2999, 2999), (3000, 3000), (3001, 3000), (0, 0), (-1, -1)])
def test_units_are_claimed_below_a_position_at_most(position: int, dispatched: int):
    assert MARK.with_units_below(position) == (4000, dispatched, INDEXED)
    assert UNKNOWN.with_units_below(position) == UNKNOWN, "what is not known stays so"


def test_the_index_is_left_out_alone():
    assert MARK.without_index() == (4000, 3000, None)


def test_the_log_alone_is_left():
    assert MARK.of_log_alone() == (4000, -1, None)
    assert UNKNOWN.of_log_alone() == UNKNOWN == (None, -1, None)
