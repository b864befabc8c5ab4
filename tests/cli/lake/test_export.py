"""`flintmq export`: what it prints, the options of its errors, and options that would do nothing.

What is in the tables is tested in tests/lake."""

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.cli import signals
from flintmq.storage.threads.stop_event import StopEvent
from tests.cli.conftest import Run
from tests.compat.stores import Golden


def test_an_export_in_another_way_is_told_in_the_users_words(run: Run, golden: Any, tmp_path: Path) -> None:
    """No name of a manifest's key: the option, and what to do."""
    store, (one, follow) = golden("basic").path, (tmp_path / "one", tmp_path / "follow")
    assert run("export", store, "--out", one, "--topic", "Orders").code == 0
    assert run("export", store, "--out", follow, "--follow", "--once", "--explode").code == 0

    def said(*words: object) -> str:
        result = run("export", *words)
        assert (result.code, result.out) == (2, "")
        assert not {"many", "stream", "true", "false", "null"} & set(result.err.replace("(", " ").split())
        return result.err

    again = "export with the same, or into a new directory\n"
    assert said(store, "--out", one) == (
        f'flintmq: {one} has exports with other --topic (["Orders"] there, nothing now); {again}'
    )
    assert said(store, "--out", follow, "--follow", "--once") == (
        f"flintmq: {follow} has exports with other --explode (given there, not given now); {again}"
    )
    assert said(store, "--out", one, "--follow", "--once", "--topic", "Orders") == (
        f"flintmq: {one} has exports made without --follow, and this one is with it; export "
        "without it again, or into a new directory\n"
    )
    assert "made with --follow" in said(store, "--out", follow)
    (tmp_path / "all" / "b").mkdir(parents=True)
    for broker in ("a", "b"):
        shutil.copytree(store, tmp_path / "all" / broker / "store", dirs_exist_ok=True)
    assert said(f"{tmp_path}/all/{{broker}}/store", "--out", one, "--topic", "Orders") == (
        f"flintmq: {one} has exports of one store, and several are given now; the columns differ: name one store "
        "again, or export into a new directory\n"
    )


@pytest.mark.parametrize("words", [["--once"], ["--interval", "3"], ["--interval=10"], ["--max-offsets", "5"]])
def test_what_belongs_to_follow(run: Run, golden: Any, tmp_path: Path, words: list[str]) -> None:
    result = run("export", golden("basic").path, "--out", tmp_path / "lake", *words)
    assert (result.code, result.out) == (2, "") and not (tmp_path / "lake").exists()
    assert result.err == (
        "flintmq: --once, --interval and --max-offsets are for --follow; "
        "an export without it ends at the end of the log\n"
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--to", "iceberg", "--catalog", "nocatalog:x.y"), "catalog nocatalog: cannot be opened"),
        (("--body", "json", "--body-schema", "nosuch.ddl"), "body schema 'nosuch.ddl': no such file, and no DDL such"),
    ],
)
def test_a_refused_run_leaves_nothing(run: Run, golden: Any, tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    result = run("export", golden("basic").path, "--out", tmp_path / "lake", *words)
    assert result.code in (2, 5) and told in result.err and not (tmp_path / "lake").exists()
    (tmp_path / "lake").mkdir()  # somebody else's stays
    run("export", golden("basic").path, "--out", tmp_path / "lake", *words)
    assert (tmp_path / "lake").exists()


def test_a_topic_that_is_not_there(run: Run, golden: Any, tmp_path: Path) -> None:
    """The exit code is that of `scan --topic`."""
    result = run("export", golden("basic").path, "--out", tmp_path / "lake", "--topic", "nosuch")
    assert run("scan", golden("basic").path, "--topic", "nosuch").code == 7
    assert result.code == 7 and ": the store has no topic 'nosuch'; it has " in result.err
    assert "reads the rest" not in result.err  # there is none
    result = run("export", golden("basic").path, "--out", tmp_path / "lake", "--topic", "nosuch", "--topic", "Orders")
    assert result.err.endswith("; --skip-damage reads the rest\n") and "failOnDataLoss" not in result.err


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("gone", "/store: the store is not there any more; bring it back (is its disk mounted?), or start again\n"),
        (
            "other",
            "is another record than the one that was read there, or none: the log was truncated, is another store's, "
            "or is damaged there; bring the log that was read back, or begin anew",
        ),
    ],
)
@pytest.mark.parametrize("words", [(), ("--skip-damage",)])
@pytest.mark.usefixtures("no_grace")
def test_a_followed_store_that_is_moved(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, told: str, words: tuple[str, ...]
) -> None:
    """Its offsets say nothing of another log, so `--skip-damage` does not pass over it either."""
    store = tmp_path / "store"
    assert run("put", store, "T", "first").code == 0
    stop, waited = StopEvent(), threading.Event()

    def wait(timeout: float | None = None) -> bool:
        """Between the first two micro-batches."""
        if not waited.is_set():
            waited.set()
            shutil.rmtree(store)
            if change == "other":
                run("put", store, "T", "a longer one, of another store")
        return False

    monkeypatch.setattr(stop, "wait", wait)
    monkeypatch.setattr(signals, "stop_event", lambda: stop)
    result = run("export", store, "--out", tmp_path / "lake", "--follow", "--interval", "0", *words)
    assert result.code == 3 and waited.is_set()
    assert told in result.err and "failOnDataLoss" not in result.err


@pytest.fixture
def brokers(golden: Callable[[str], Golden], tmp_path: Path) -> Path:
    root = tmp_path / "data"
    shutil.copytree(golden("basic").path, root / "a" / "store")
    return root


def test_a_store_that_is_left_out_is_named(run: Run, brokers: Path) -> None:
    for broker in "bc":
        (brokers / broker / "store").mkdir(parents=True)
    (brokers / "d").symlink_to(brokers / "a")
    pattern, out = f"{brokers}/{{broker}}/store", brokers.parent / "lake"
    said = [
        f"no-store: {brokers}/b/store: no commitlog/ there, of broker 'b'; is its disk mounted?; left out and 1 more "
        "like it",
        f"same-store: {brokers}/d/store: another name of {brokers}/a/store; read once",
    ]
    result = run("export", pattern, "--out", out)
    assert result.code == 0
    assert [line for line in result.out.splitlines() if line.startswith("note")] == [f"note     {one}" for one in said]
    told = json.loads(run("export", pattern, "--out", out, "--json").out)
    assert told["notes"] == {"no-store": 1, "same-store": 1}
    assert told["note_texts"] == {code: [text] for code, text in (one.split(": ", 1) for one in said)}
