"""A signal in the middle of a command: its exit code, nothing printed, nothing left."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flintmq.cli import output, signals
from tests.cli.conftest import Run
from tests.compat.stores import Golden

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
LONG = {
    "scan": ["--grep", "nobody wrote this"],
    "sql": ["select topic, count(*) from messages group by 1"],
    "sql --out": ["select * from messages", "--out", "answer.csv"],
    "rebuild": ["--out", "made"],
    "salvage": ["--out", "made"],
    "copy": ["--out", "made"],
    "copy --topic": ["--out", "made", "--topic", "Orders"],
}
"""Commands that work long, each with what else it is told; all of them tell their progress."""


@pytest.fixture(autouse=True)
def as_in_a_process_of_its_own() -> Iterator[None]:
    """Python's own handlers: a Spark session that a test before made leaves one for SIGINT."""
    before = {number: signal.getsignal(number) for number in CODES}
    for number in CODES:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
@pytest.mark.parametrize("name", LONG)
def test_a_signal_amid_the_work(
    run: Run,
    golden: Callable[[str], Golden],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    number: signal.Signals,
):
    if name.startswith("sql"):
        pytest.importorskip("duckdb", reason="duckdb is not installed")
    store = golden("basic").path
    told = []

    @contextlib.contextmanager
    def progress(self: output.Output, title: str) -> Iterator[output.Progress]:
        def tell(done: int, total: int) -> None:
            told.append(done)
            if len(told) == 1:
                os.kill(os.getpid(), number)

        yield tell

    monkeypatch.setattr(output.Output, "progress", progress)
    monkeypatch.chdir(tmp_path)
    before = [signal.getsignal(one) for one in CODES]
    found = run(name.split()[0], store, *LONG[name])
    assert told, "the command never told its progress"
    assert (found.code, found.out, found.err) == (CODES[number], "", "")
    assert os.listdir(tmp_path) == []
    assert [signal.getsignal(one) for one in CODES] == before


@pytest.mark.parametrize("name", ["sql", "sql --out"])
def test_a_signal_that_python_drops_amid_a_finalizer(
    run: Run, golden: Callable[[str], Golden], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    """As where DuckDB lets a stream go: nothing is told of it, and no answer is written."""
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    from flintmq.frames import sql

    real, gone = sql._batch_rows, []

    class Stream:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            gone.append(1)

    def let_go(messages: object) -> int:
        Stream()
        return real(messages)  # type: ignore[arg-type]

    monkeypatch.setattr(sql, "_batch_rows", let_go)
    monkeypatch.chdir(tmp_path)
    hook = sys.unraisablehook
    found = run("sql", golden("basic").path, *LONG[name])
    assert gone == [], "the signal came behind the call"
    assert (found.code, found.out, found.err) == (130, "", "")
    assert os.listdir(tmp_path) == [] and sys.unraisablehook is hook


def test_ignored_signals_stay_ignored(monkeypatch: pytest.MonkeyPatch):
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals.stopping() as stopped:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stopped.number is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_a_killed_run_left_goes_with_the_next_one(run: Run, golden: Callable[[str], Golden], tmp_path: Path):
    store = golden("basic").path
    for name in ("copy", "salvage"):
        (tmp_path / f".{name}.flintmq-{name}" / "store").mkdir(parents=True)
        assert run(name, store, "--out", tmp_path / name).code == 0
    (tmp_path / "rebuild" / ".flintmq-rebuild" / "index").mkdir(parents=True)
    assert run("rebuild", store, "--out", tmp_path / "rebuild").code == 0
    assert [path for path in tmp_path.rglob("*") if ".flintmq" in path.name] == []


def test_a_real_process_that_is_told_to_end(golden: Callable[[str], Golden], tmp_path: Path):
    """SIGTERM while it waits for messages."""
    root = tmp_path / "store"
    shutil.copytree(golden("poison").path, root)
    words = [sys.executable, "-m", "flintmq", "tail", str(root), "Nowhere", "--follow"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None and any("waiting for the first" in line for line in process.stderr)
        time.sleep(0.1)
        process.terminate()
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (143, "", "")
