"""`flintmq verify`: what is printed. What is found is tested in tests/forensics."""

import io
import json as json_module
import os
import shlex
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.cli.commands.verify import print_verification
from flintmq.cli.output import Console, Json
from flintmq.forensics.verify.findings import Defect, Note
from flintmq.forensics.verify.log_check import LogCheck
from flintmq.forensics.verify.run import Verification
from flintmq.store.commitlog.walk import Piece
from tests.cli.conftest import Result, Run
from tests.compat.stores import Golden
from tests.support.makers import flip, hurt_body

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
    hurt_body(copy, 131072 + 5071)
    flip(copy / "consumequeue" / "Orders" / "0" / "00000000000000000000", 45)
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


def test_a_run_that_ends_early_names_the_place_where_the_next_one_continues(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = damaged(golden("basic"), tmp_path)
    first = run("verify", store, "--to", "00000000000000131072")
    assert first.code == 1 and "result  so far 1 defect (unit-wrong 1), no notes" in first.out
    rest = f"flintmq verify {store} --from 131072"
    assert first.err == f"flintmq: ended at log offset 131072, as requested; continue with: {rest}\n"
    second = run(*shlex.split(rest)[1:])
    assert second.code == 1 and "part    log offsets 131072 to 737416" in second.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_tells_what_it_found_and_how_to_continue(
    run: Run,
    golden,  # type: ignore[no-untyped-def]
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    """The signal comes amid a block of the log, which is checked whole."""
    store = damaged(golden("basic"), tmp_path)
    whole = run("verify", store, "--json").rows
    monkeypatch.setattr("flintmq.forensics.verify.verify_pass.PIECE_BYTES", 1 << 16)
    take, blocks = LogCheck.take, [0]

    def signalled(self: LogCheck, piece: Piece) -> None:
        blocks[0] += 1
        if blocks[0] == 3:
            os.kill(os.getpid(), number)
        take(self, piece)

    monkeypatch.setattr(LogCheck, "take", signalled)
    monkeypatch.setattr("signal.getsignal", lambda number: signal.SIG_DFL)  # Spark leaves a handler of its own
    first = run("verify", store, "--json")
    assert (first.code, blocks[0]) == (128 + number, 3)
    summary = first.rows[-1]
    note = json_module.loads(first.err)["note"]
    rest = f"flintmq verify {store} --from {summary['part_end']}"
    assert note == f"stopped at log offset {summary['part_end']}; continue with: {rest}"
    assert (summary["stopped"], summary["ending"]) == ("asked", "unseen") and 0 < summary["part_end"] < 737_416
    second = run(*shlex.split(rest)[1:], "--json")
    assert summary["records"] + second.rows[-1]["records"] == whole[-1]["records"]
    defects = [line["code"] for line in [*first.rows, *second.rows] if line["kind"] == "defect"]
    assert sorted(defects) == [line["code"] for line in whole if line["kind"] == "defect"]


def test_a_second_signal_does_not_wait(run: Run, golden, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    def signalled(self: LogCheck, piece: Piece) -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(LogCheck, "take", signalled)
    monkeypatch.setattr("signal.getsignal", lambda number: signal.SIG_DFL)
    assert run("verify", golden("basic").path) == Result(130, "", "")


def test_stores_after_the_one_that_was_stopped_are_not_begun(
    run: Run,
    golden,  # type: ignore[no-untyped-def]
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stores = golden("basic").copy(tmp_path / "a"), golden("basic").copy(tmp_path / "b")
    finish = LogCheck.finish

    def signalled(self: LogCheck) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        finish(self)

    monkeypatch.setattr(LogCheck, "finish", signalled)
    monkeypatch.setattr("signal.getsignal", lambda number: signal.SIG_DFL)
    result = run("verify", *stores)
    assert result.code == 130 and result.out.count("result  ") == 1
    assert result.err == "flintmq: stopped: 1 more store not checked\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            "--max-seconds 5",
            "--max-seconds is gone: stop it with Ctrl-C or --to, and it prints the --from that continues",
        ),
        ("--resume s", "--resume is gone: --from continues where a run that is stopped says that it ended"),
        ("--resume=s", "--resume is gone: --from continues where a run that is stopped says that it ended"),
    ],
)
def test_options_that_were_given_up_say_what_to_use(run: Run, tmp_path: Path, words: str, says: str) -> None:
    result = run("verify", tmp_path, *words.split())
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1) and says in result.err


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
        (("--progress", "loud"), "--progress: 'loud' is none of bar, json"),
    ],
)
def test_parts_that_cannot_be(run: Run, golden, words: tuple[str, ...], says: str) -> None:  # type: ignore[no-untyped-def]
    result = run("verify", golden("basic").path, *words)
    assert (result.code, result.out) == (2, "") and says in result.err
