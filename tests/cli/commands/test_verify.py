"""`flintmq verify`: what is printed. What is found is tested in tests/forensics."""

from __future__ import annotations

import io
import json as json_module
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.cli.commands.verify import print_verification
from flintmq.cli.output import Console, Json
from flintmq.forensics.verify.findings import Defect, Note
from flintmq.forensics.verify.run import Verification
from tests.cli.conftest import Run
from tests.compat.stores import Golden

Expected = Callable[[str, str], None]


@pytest.mark.parametrize("name", ["basic", "crash", "rolled"])
def test_sound_stores_and_their_notes(name: str, run: Run, golden, expected: Expected) -> None:  # type: ignore[no-untyped-def]
    store = golden(name)
    result = run("verify", store.path, *store.sets)
    assert (result.code, result.err) == (0, "")
    expected(f"verify-{name}.txt", result.out.replace(str(store.path), "STORE"))


def test_json_is_a_line_a_finding_and_one_with_the_counts(run: Run, golden, expected: Expected) -> None:  # type: ignore[no-untyped-def]
    store = golden("crash")
    result = run("verify", store.path, "--json", *store.sets)
    assert result.code == 0
    expected("verify-crash.jsonl", result.out.replace(str(store.path), "STORE"))


def damaged(store: Golden, into: Path) -> Path:
    """A copy with a flipped bit in a body and one in a queue unit's position."""
    copy = store.copy(into)
    for file, position, bit in (
        ("commitlog/00000000000000131072", 5071 + 90, 4),
        ("consumequeue/Orders/0/00000000000000000000", 45, 1),
    ):
        data = bytearray((copy / file).read_bytes())
        data[position] ^= bit
        (copy / file).write_bytes(data)
    return copy


def test_defects_tell_place_expected_found_and_cost(run: Run, golden, expected: Expected, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = damaged(golden("basic"), tmp_path)
    result = run("verify", store)
    assert (result.code, result.err) == (1, "")
    expected("verify-damaged.txt", result.out.replace(str(store), "STORE"))
    lines = run("verify", store, "--json").rows
    defects = [line for line in lines if line["kind"] == "defect"]
    assert [(d["code"], d["position"]) for d in defects] == [("record-damaged", 5071), ("unit-wrong", 40)]
    assert all(list(d) == ["kind", "code", "file", "position", "expected", "found", "cost", "mend"] for d in defects)
    assert lines[-1]["kind"] == "summary" and lines[-1]["defect_count"] == 2


def test_one_command_for_most_and_others_where_they_are_needed(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic").copy(tmp_path)
    (store / "consumequeue" / "Orders" / "0" / "00000000000000000000").unlink()
    (store / "flintmq.mark").write_bytes(b"x")
    text = run("verify", store).out
    mends = [line for line in text.splitlines() if "mend" in line]
    assert mends[0] == f"        mend: flintmq recover {store}"
    assert mends[1].startswith("mend    the other") and f": flintmq salvage {store} --in-place  (first" in mends[1]
    assert len(mends) == 2


def printed(found: Verification, monkeypatch: pytest.MonkeyPatch, json: bool = False) -> str:
    stdout = io.TextIOWrapper(io.BytesIO(), "utf-8")
    monkeypatch.setattr("sys.stdout", stdout)
    assert print_verification(Json() if json else Console(), found) == found.exit_code
    return stdout.buffer.getvalue().decode()  # type: ignore[attr-defined,no-any-return]


def test_hostile_texts_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Verification(
        "s",
        defect_count=1,
        defect_counts={"unit-wrong": 1},
        note_counts={"unknown-file": 1},
        defects=[Defect("unit-wrong", "q\x1b/0", 20, "a\x9bb", "c\u202ed", "e\nf")],
        notes=[Note("unknown-file", "g\x07h", "i\x1b", None)],
    )
    text = printed(found, monkeypatch)
    assert text.replace("\n", "").isprintable()
    assert "q\\x1b/0, position 20" in text and "expected a\\x9bb; found c\\u202ed" in text and "e\\nf" in text
    assert printed(found, monkeypatch, json=True).isascii()


def test_many_findings_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Verification(
        "s",
        defect_count=7,
        defect_counts={"unit-extra": 7},
        note_counts={"units-ghost": 5, "abort": 1},
        defects=[Defect("unit-extra", f"q{n}", None, "x", "y", "z") for n in range(2)],
        notes=[Note("units-ghost", f"queue {n}") for n in range(5)] + [Note("abort", "there")],
    )
    lines = printed(found, monkeypatch).splitlines()
    assert "        and 5 more defects" in lines
    assert [line for line in lines if line.startswith("note")] == [
        "note    units-ghost: queue 0",
        "note    units-ghost: queue 1",
        "note    units-ghost: queue 2",
        "note    abort: there",
        "note    units-ghost: 5 in all",
    ]
    assert lines[-1] == "result  7 defects (unit-extra 7), 6 notes (abort 1, units-ghost 5)"


def test_runs_that_go_on_tell_in_the_end_what_one_run_tells(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store, state = damaged(golden("basic"), tmp_path / "store"), tmp_path / "state"
    first = run("verify", store, "--to", "00000000000000131072", "--resume", state)
    assert first.code == 0 and "result  so far no defects, no notes" in first.out
    rest = f"flintmq verify {store} --resume {state}"
    assert first.err == f"flintmq: ended at log offset 131072, as requested; continue with: {rest}\n"
    second = run("verify", store, "--to", 200_000, "--resume", state)
    assert second.code == 1 and "ended at log offset" in second.err and "so far 1 defect" in second.out
    assert run("verify", store, "--resume", state).out == run("verify", store).out
    assert not state.exists()


def test_time_that_is_up_has_an_exit_code_of_its_own(run: Run, golden) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic")
    result = run("verify", store.path, "--max-seconds", 0.000001, "--json")
    assert (result.code, result.rows[-1]["stopped"]) == (11, "time")
    error = json_module.loads(result.err)
    assert (error["error"], error["exit_code"]) == ("UnfinishedError", 11)
    assert error["message"].endswith(f"--from {result.rows[-1]['part_end']}")


def test_progress_for_programs(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    result = run("verify", damaged(golden("basic"), tmp_path), "--progress", "json")
    lines = [json_module.loads(line) for line in result.err.splitlines()]
    assert all(list(line) == ["kind", "done", "total", "seconds", "defects", "notes"] for line in lines)
    assert (lines[-1]["done"], lines[-1]["total"], lines[-1]["defects"]) == (737_416, 786_432, 2)
    assert [line["done"] for line in lines] == sorted(line["done"] for line in lines)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--from", "x"), "--from: 'x' is neither a log offset nor the name of a log file"),
        (("--to", "-5"), "--to: '-5' is neither"),
        (("--from", "9", "--to", "9"), "the end must be after the begin"),
        (("--from", "99999999"), "there is no intact record there or later"),
        (("--max-seconds", "0"), "give more than 0"),
        (("--progress", "loud"), "--progress: 'loud' is none of bar, json"),
    ],
)
def test_parts_that_cannot_be(run: Run, golden, words: tuple[str, ...], says: str) -> None:  # type: ignore[no-untyped-def]
    result = run("verify", golden("basic").path, *words)
    assert (result.code, result.out) == (2, "") and says in result.err
