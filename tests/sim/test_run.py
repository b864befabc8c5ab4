"""Cases: numbered, drawn from a seed, and run in one order."""

from __future__ import annotations

from flintmq.testing.contract import check_contract
from tests.sim.disk import SimDisk
from tests.sim.run import BEFORE, PAIRS, SHORT, STEPS, STORE, Case, SimRun


def test_short_cases_are_all_there():
    def told(seed: int, count: int) -> tuple[str, str]:
        case = Case.of(seed, "ext4")
        return repr(case.ops), repr(case.keys)

    assert len({told(seed, 2) for seed in range(PAIRS)}) == PAIRS == len(BEFORE) * len(STEPS) ** 2 * 4
    assert {len(Case.of(seed, "ext4").ops) for seed in range(PAIRS, PAIRS + 4)} == {3}
    assert Case.of(SHORT + 3, "ext4") == Case.of(SHORT + 3, "ext4") != Case.of(SHORT + 4, "ext4")


def test_a_case_ends_in_a_store_that_keeps_the_contract():
    run = SimRun(Case.of(SHORT + 1, "ext4"), SimDisk(1))
    run.go()
    assert run.life > 1 and run.complaints == []
    disk = SimDisk(1, image=run.disk.shown(), watched=False)
    found = check_contract(STORE, run.now(power=False), run.case.keys, effects=disk, services=False)
    assert found.wrong == {} and found.stored > 0
