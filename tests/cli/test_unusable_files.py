"""Every door says which file of config/ it could not use, and which queues it lacks."""

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


@pytest.mark.parametrize("door", ["inspect", "metrics", "sql"])
def test_offsets_outside_their_queue_are_said(
    run: Run, golden: Callable[[str], Golden], tmp_path: Path, door: str
) -> None:
    store = golden("config").copy(tmp_path)
    path = store / "config" / OFFSETS
    whole = path.read_text()
    if door == "sql":
        pytest.importorskip("duckdb", reason="duckdb is not installed")
    words = (door, store, *(["select * from offsets"] if door == "sql" else []))
    for old, new, text in (
        ('"Trade@TradeGroup":{0:17', '"Trade@TradeGroup":{0:19', None),  # the end itself
        ('"Trade@TradeGroup":{0:17', '"Trade@TradeGroup":{0:-1', None),  # nothing consumed
        (
            '"Trade@TradeGroup":{0:17',
            '"Trade@TradeGroup":{0:20',
            "offset 20 in queue Trade/0, which ends at 19: it gets",
        ),
        (
            '"Trade@TradeGroup":{0:17',
            '"Trade@TradeGroup":{0:-5',
            "offset -5 in queue Trade/0, which ends at 19: it beg",
        ),
        (
            '"Trade@TradeGroup":{0:17',
            '"Trade@TradeGroup":{9:17',
            "offset 17 in queue Trade/9, which ends at 0: it gets",
        ),
        ('"Trade@TradeGroup"', '"Gone@TradeGroup"', None),  # a deleted topic leaves its offsets
    ):
        assert old in whole
        path.write_text(whole.replace(old, new))
        result = run(*words)
        said = result.out + result.err
        assert result.code == 0 and 'code="offset-absent"' not in said
        if door == "metrics":
            assert ('code="offset-ahead"} 1' in said) == (text is not None)
        else:
            assert said.count("whatever its lag is") == (text is not None) and (text or "") in said


@pytest.mark.parametrize("door", ["inspect", "metrics", "sql", "verify"])
def test_the_offsets_of_another_broker_are_said(
    run: Run, golden: Callable[[str], Golden], tmp_path: Path, door: str
) -> None:
    store = golden("config").copy(tmp_path)
    (store / "config" / OFFSETS).write_text(
        '{"offsetTable":{"RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS":{0:30},"Bills@b":{0:5},"Mail@m":{0:7}}}'
    )
    if door == "sql":
        pytest.importorskip("duckdb", reason="duckdb is not installed")
    result = run(door, store, *(["select * from offsets"] if door == "sql" else []))
    text = "no topic of the committed offsets is in this store (Bills, Mail)"
    assert ('code="offset-absent"} 1' if door == "metrics" else text) in result.out + result.err
