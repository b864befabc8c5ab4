"""Runs cells of the matrix over stores, made anew each run, and counts what is wrong."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from labs.matrix.cells import CELLS, try_cell
from labs.matrix.judge import Subject
from tests.robustness.matrix.stores import CASES

TENTHS = 10


def share(turn: int | None, *, spark: bool) -> Iterator[tuple[str, list[str]]]:
    """(store, its cells) of a turn: a tenth of the stores with all cells; everything where `turn` is None.

    Ten turns are all pairs, but for stores that take seconds a cell: one of them is met every other turn, with a fifth
    of the cells, so that twenty turns are all of theirs.
    """
    for row, name in enumerate(CASES):
        live = CASES[name].state == "live"
        cells = [one for one in CELLS if CELLS[one].spark == spark and (CELLS[one].live or not live)]
        if turn is not None and CASES[name].large:
            cells = [] if (turn + 2 * (row % 2)) % 4 else cells[turn % (2 * TENTHS) // 4 :: TENTHS // 2]
        elif turn is not None and row % TENTHS != turn % TENTHS:
            cells = []
        if cells:
            yield name, cells


def run_share(
    shares: Iterable[tuple[str, list[str]]], work: Path, say: Callable[[str], None] = print
) -> tuple[Counter[str], list[str]]:
    """Make each store, ask its cells, remove it.

    Returns:
        How many cells were asked, by store; and everything that was wrong, a line each.
    """
    asked: Counter[str] = Counter()
    wrong: list[str] = []
    for name, cells in shares:
        began = time.process_time()
        folder = work / str(len(asked))
        store = folder / "store"
        store.mkdir(parents=True)
        stop = CASES[name].make(store)
        subject = Subject(name, CASES[name], store, folder / "work")
        subject.work.mkdir()
        try:
            for cell in cells:
                found = try_cell(cell, subject)
                wrong += found
                asked[name] += 1
                for line in found:
                    say(f"WRONG {line}")
        finally:
            if stop is not None:
                stop()
        shutil.rmtree(folder)
        say(f"{name}: {len(cells)} cells, {time.process_time() - began:.1f} s of CPU")
    return asked, wrong
