"""`flintmq spark trace`: rows as Parquet, and how many are in which state."""

from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from flintmq.cluster.member import Member
from flintmq.forensics.answers.collect import TraceAsked
from flintmq.forensics.answers.trace import trace
from tests.cli.conftest import Run
from tests.spark.conftest import spark as spark  # the session that the command finds running


@pytest.mark.spark
def test_rows_and_counts(run: Run, spark: Any, golden: Any, tmp_path: Path) -> None:
    path, out = golden("config").path, tmp_path / "became"
    result = run("spark", "trace", path, "--topic", "Trade", "--topic", "Tx", "--out", out)
    want = [row for topic in ("Trade", "Tx") for row in trace([Member(str(path), "")], TraceAsked(topic=topic)).rows]
    assert result.code == 0, result.err
    states = {state: sum(row.state == state for row in want) for state in sorted({row.state for row in want})}
    assert len(states) == 3
    assert result.out == (
        f"messages  {len(want)} ({', '.join(f'{state}: {number}' for state, number in states.items())})\n"
        f"of them   retried: 2, dead letters: 0\nresult    {out}\n"
    )
    rows = pyarrow.dataset.dataset(out).to_table()
    assert sorted(rows["offset_msg_id"].to_pylist()) == sorted(row.offset_msg_id or "" for row in want)
    assert str(rows.schema.field("stored_ms").type).startswith("timestamp[")
    again = run("spark", "trace", path, "--topic", "Trade", "--out", out)
    assert again.code == 2 and f"{out} exists" in again.err
    [told] = run("spark", "trace", path, "--topic", "Trade", "--out", tmp_path / "other", "--json").rows
    assert told == {
        "messages": 85, "states": {"delivered": 85}, "retried": 2, "dead": 0, "out": str(tmp_path / "other")
    }  # fmt: skip


@pytest.mark.spark
def test_damage(run: Run, spark: Any, golden: Any, tmp_path: Path) -> None:
    copy, out = golden("basic").copy(tmp_path), tmp_path / "became"
    with (copy / "commitlog" / "00000000000000131072").open("rb+") as file:
        file.seek(40_000)
        file.write(b"\xff" * 300)
    result = run("spark", "trace", copy, "--out", out)
    assert result.code == 3 and result.err.count("\n") == 1 and "00000000000000131072, position" in result.err
    skipped = run("spark", "trace", copy, "--out", out, "--skip-damage")
    assert skipped.code == 1 and "damaged places of the log were skipped" in skipped.err, skipped.err
    assert 0 < pyarrow.dataset.dataset(out).count_rows() < len(golden("basic").live)


def test_what_is_refused(run: Run, golden: Any) -> None:
    result = run("spark", "trace", golden("basic").path, "--out", golden("basic").path / "x")
    assert result.code == 2 and "Traceback" not in result.err
