"""The steps of recovery: which, and in which order, for every kind of stop."""

import itertools

import pytest

from flintmq.store.commitlog.end_of_log import StopFacts
from flintmq.store.layout.mark import UNKNOWN, DurableMark
from flintmq.store.recovery.apply import STEPS
from flintmq.store.recovery.plan import Step, plan

LETTERS = {
    "W": Step.WITHDRAW_DERIVED,
    "R": Step.REREAD_DERIVED,
    "F": Step.FORGET_KNOWN_ENDS,
    "M": Step.WRITE_MARK,
    "A": Step.MAKE_ABORT,
    "T": Step.TRUNCATE_LOG,
    "E": Step.MARK_LOG_END,
    "D": Step.RECOVER_DERIVED,
    "L": Step.LEAVE_DERIVED,
}

# (the stop, whether there is a mark) -> steps with a list of where queues ended, steps without
TABLE = {
    ("clean", True): ("ATD", "FATD"),
    ("clean", False): ("MATD", "FMATD"),
    ("killed", True): ("TAD", "FTAD"),
    ("killed", False): ("TAD", "FTAD"),
    ("power cut", True): ("RTAD", "RFTAD"),
    ("power cut", False): ("RTAD", "RFTAD"),
    ("RocketMQ killed", True): ("WRTEAD", "WRFTEAD"),
    ("RocketMQ killed", False): ("WRTAD", "WRFTAD"),
}
# the last stop was clean, `abort` is ours, the page cache lasted
STOPS = {"clean": (True, False, False), "killed": (False, True, True), "power cut": (False, True, False),
         "RocketMQ killed": (False, False, False)}  # fmt: skip


def facts_of(clean: bool, ours: bool, lasted: bool, *, marked: bool) -> StopFacts:
    mark = DurableMark(4096) if marked else UNKNOWN
    return StopFacts(clean, mark=mark, abort_is_ours=ours, page_cache_lasted=lasted)


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize(("stop", "marked"), TABLE)
def test_each_stop_has_its_steps(stop: str, marked: bool, ends: bool, external: bool):
    wanted = TABLE[stop, marked][not ends].replace("D", "L" if external else "D")
    found = plan(facts_of(*STOPS[stop], marked=marked), known_ends=ends, external=external)
    assert found == tuple(LETTERS[letter] for letter in wanted)


def test_the_docstring_has_the_same_table():
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in (plan.__doc__ or "").splitlines() if "|" in line
    ]
    heads = [
        Step["_".join(f"{first} {second}".split()).upper()]
        for first, second in list(zip(rows[0], rows[1], strict=True))[2:]
    ]
    assert {(row[0], row[1] == "yes") for row in rows[3:]} == set(TABLE) and len(rows) == 3 + len(TABLE)
    for stop, marked, *cells in rows[3:]:
        crossed = [step for step, cell in zip(heads, cells, strict=True) if cell == "x"]
        assert [*crossed, Step.RECOVER_DERIVED] == [LETTERS[letter] for letter in TABLE[stop, marked == "yes"][0]]


@pytest.mark.parametrize("facts", list(itertools.product([False, True], repeat=3)), ids=str)
def test_a_stop_that_contradicts_itself_is_a_mistake_of_ours(facts: tuple[bool, bool, bool]):
    """A clean stop leaves no `abort` that names another program or boot; only FlintMQ writes the boot's id there."""
    if facts in STOPS.values():
        assert facts_of(*facts, marked=True).clean is facts[0]
    else:
        with pytest.raises(AssertionError):
            facts_of(*facts, marked=True)


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("facts", list(itertools.product([False, True], repeat=3)), ids=str)
def test_what_holds_of_every_plan(stop: str, facts: tuple[bool, bool, bool]):
    clean, ours, lasted = STOPS[stop]
    marked, ends, external = facts
    steps = plan(facts_of(clean, ours, lasted, marked=marked), known_ends=ends, external=external)
    assert len(set(steps)) == len(steps), "none is taken twice"
    abort, cut = steps.index(Step.MAKE_ABORT), steps.index(Step.TRUNCATE_LOG)
    assert (abort < cut) is clean, "a kill in the cut is found as an unclean stop, and hides no power cut"
    for step in (Step.WITHDRAW_DERIVED, Step.REREAD_DERIVED, Step.WRITE_MARK, Step.MARK_LOG_END):
        assert step not in steps or steps.index(step) < abort, "what `abort` tells of the last stop is used first"
    assert steps[-1] is (Step.LEAVE_DERIVED if external else Step.RECOVER_DERIVED)
    assert {Step.LEAVE_DERIVED, Step.RECOVER_DERIVED} & set(steps[:-1]) == set()


def test_each_step_can_be_taken():
    assert set(STEPS) == set(Step) == set(LETTERS.values())
