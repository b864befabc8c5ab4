"""Every door says which file of config/ it could not use, and which queues it lacks."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import flintmq
from tests.cli.conftest import Run
from tests.compat.stores import Golden

OFFSETS = "consumerOffset.json"
CUT = b'{"dataVersion":{"counter":3,'
BAK = "consumerOffset.json.bak is used, which may be older"
EMPTY = "it counts as empty"
# what is in the file (None: no file), whether `.bak` is left, the reason, and what is used
STATES = {
    "cut": (CUT, False, "the text ends early", EMPTY),
    "cut, with .bak": (CUT, True, "the text ends early", BAK),
    "empty": (b"", True, "the file is empty", BAK),
    "missing": (None, True, "the file is missing", BAK),
    "no table": (b"{}", True, "offsetTable is no object", EMPTY),
    "null": (b'{"offsetTable":null}', False, "offsetTable is no object", EMPTY),
}
DOORS = ("inspect", "metrics", "retention", "sql", "consumer")


def through(door: str, run: Run, store: Path, caplog: pytest.LogCaptureFixture) -> tuple[int, str]:
    """Return the exit code of a door, and all that it says."""
    if door == "consumer":
        caplog.clear()
        with flintmq.open_store(store) as view, caplog.at_level(logging.WARNING, "flintmq.store"):
            view.consumer("TradeGroup", "Trade").position(0)
        return 0, caplog.text
    if door == "sql":
        pytest.importorskip("duckdb", reason="duckdb is not installed")
    words = {"retention": ("retention", "explain", store), "sql": ("sql", store, "select * from offsets")}
    result = run(*words.get(door, (door, store)))
    return result.code, result.out + result.err


@pytest.mark.parametrize("door", DOORS)
def test_offsets_that_cannot_be_used_are_said(
    run: Run, golden: Callable[[str], Golden], tmp_path: Path, caplog: pytest.LogCaptureFixture, door: str
) -> None:
    store = golden("config").copy(tmp_path)
    code, said = through(door, run, store, caplog)
    assert code == 0 and OFFSETS not in said and 'code="config"' not in said
    path, bak = store / "config" / OFFSETS, store / "config" / f"{OFFSETS}.bak"
    kept = path.read_bytes()
    for data, has_bak, reason, instead in STATES.values():
        path.unlink(missing_ok=True)
        bak.unlink(missing_ok=True)
        if data is not None:
            path.write_bytes(data)
        if has_bak:
            bak.write_bytes(kept)
        code, said = through(door, run, store, caplog)
        assert code == 0
        if door == "metrics":
            assert 'code="config"' in said
        else:
            assert f"{path}, position" in said and f": {reason}; {instead}" in said, said


def test_numbers_that_depend_on_them_are_upper_bounds(
    run: Run, golden: Callable[[str], Golden], tmp_path: Path
) -> None:
    store = golden("config").copy(tmp_path)
    assert "note halves-unsettled: 3 half messages" in run("inspect", store).out
    (store / "config" / f"{OFFSETS}.bak").unlink()
    (store / "config" / OFFSETS).write_bytes(b"{}")
    assert "note halves-unsettled: up to 33 half messages" in run("inspect", store).out


@pytest.mark.parametrize("door", ["inspect", "metrics", "sql", "queues", "topics"])
def test_queues_without_a_directory_are_said(
    run: Run, golden: Callable[[str], Golden], tmp_path: Path, caplog: pytest.LogCaptureFixture, door: str
) -> None:
    store = golden("basic").copy(tmp_path)

    def said() -> str:
        if door in ("queues", "topics"):
            caplog.clear()
            with flintmq.open_store(store) as view, caplog.at_level(logging.WARNING, "flintmq.store"):
                for _ in range(2):
                    view.queues() if door == "queues" else view.topics()
                    view.refresh()
            assert len(caplog.records) <= 1  # once in the life of the view
            return caplog.text
        if door == "sql":
            pytest.importorskip("duckdb", reason="duckdb is not installed")
        result = run(door, store, *(["select count(*) from queues"] if door == "sql" else []))
        assert result.code == 0
        return result.out + result.err

    text = 'code="queue-files"' if door == "metrics" else "files of Orders/1 are missing"
    assert text not in said()
    shutil.rmtree(store / "consumequeue" / "Orders" / "1")
    assert text in said()
