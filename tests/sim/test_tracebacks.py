"""What a failed case says goes into files of the repository: it names no directory of a machine."""

from __future__ import annotations

from pathlib import Path

import flintmq
from flintmq.store.view import open_store
from tests.sim.tracebacks import portable_traceback

STATES = Path(__file__).parents[2] / "labs" / "torture" / "state"


def test_paths_begin_with_the_package(tmp_path: Path) -> None:
    try:
        open_store(tmp_path / "nothing")
    except flintmq.FlintError:
        said = portable_traceback()
    assert 'File "flintmq/store/view.py", line' in said and "nothing" in said
    assert 'File "tests/sim/test_tracebacks.py", line' in said
    assert str(Path(flintmq.__file__).parents[1]) not in said and str(Path(__file__).parents[2]) not in said


def test_the_states_of_long_runs_name_none() -> None:
    found = sorted(STATES.glob("*.json"))
    assert len(found) > 5
    for path in found:
        text = path.read_text(encoding="utf-8")
        assert "/src/flintmq/" not in text and str(Path.home()) not in text, path.name
