"""A store that a manifest or a list names twice: every command that takes several stores refuses it, or says it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.errors import UsageError
from flintmq.store.commitlog.report import Report
from tests.cli.conftest import Run
from tests.compat.stores import Golden

pytest.importorskip("duckdb", reason="duckdb is not installed")

COMMANDS = {
    "scan": ("scan", "STORES"),
    "inspect": ("inspect", "STORES"),
    "verify": ("verify", "STORES"),
    "sql": ("sql", "STORES", "SELECT count(*) FROM messages"),
    "sql with history": ("sql", "STORES", "SELECT count(*) FROM messages", "--history", "TABLE"),
    "export": ("export", "STORES", "--out", "NEW"),
    "export --follow": ("export", "STORES", "--out", "NEW", "--follow", "--once"),
    "diff": ("diff", "STORES", "TABLE"),
}


@pytest.fixture
def root(golden: Callable[[str], Golden], tmp_path: Path) -> Path:
    shutil.copytree(golden("basic").path, tmp_path / "a" / "store")
    return tmp_path


def manifest(root: Path, other: str) -> Path:
    """A manifest with one store as broker A, and again by another path as `other`."""
    path = root / "cluster.toml"
    path.write_text(
        f'[[stores]]\nstore = "a/store"\nbroker = "A"\n[[stores]]\nstore = "./a/../a/store"\nbroker = "{other}"\n'
    )
    return path


def words(command: str, root: Path, stores: Path) -> list[str]:
    there = {"STORES": str(stores), "NEW": str(root / "new"), "TABLE": str(root / "table")}
    return [there.get(word, word) for word in COMMANDS[command]]


@pytest.mark.parametrize("command", COMMANDS)
def test_two_brokers_for_one_directory(run: Run, root: Path, command: str) -> None:
    if "TABLE" in COMMANDS[command]:
        assert run("export", manifest(root, "A"), "--out", root / "table").code == 0
    result = run(*words(command, root, manifest(root, "B")))
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        f"flintmq: {root}/cluster.toml: {root}/a/store is the store of broker 'A' and of broker 'B'; correct or "
        "remove one of the two entries\n"
    )
    assert not (root / "new").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_one_broker_named_twice_is_read_once_and_said(run: Run, root: Path, command: str) -> None:
    if "TABLE" in COMMANDS[command]:
        assert run("export", manifest(root, "A"), "--out", root / "table").code == 0
    result = run(*words(command, root, manifest(root, "A")))
    assert result.code == 0
    assert f"{root}/a/store: named more than once; read once" in result.out + result.err


def test_readers_of_python(root: Path) -> None:
    import flintmq

    def polars(stores: object, report: Report) -> int:
        pytest.importorskip("polars", reason="polars is not installed")
        return int(flintmq.scan_polars(stores, report=report).collect().height)

    readers: list[Callable[..., int]] = [
        lambda stores, report: flintmq.scan_arrow(stores, report=report).read_all().num_rows,
        lambda stores, report: flintmq.dataset(stores, report=report).to_table().num_rows,
        polars,
    ]
    rows = flintmq.scan_arrow(root / "a" / "store").read_all().num_rows
    for read in readers:
        with pytest.raises(UsageError, match="broker 'A' and of broker 'B'"):
            read(manifest(root, "B"), Report())
        report = Report()
        assert read(manifest(root, "A"), report) == rows
        assert {note.text for note in report.notes} == {f"{root}/a/store: named more than once; read once"}


def test_metrics_say_it_once(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    from flintmq.config.keys import StoreConfig
    from flintmq.metrics.stores import StoresWatch

    with pytest.raises(UsageError, match="broker 'A' and of broker 'B'"):
        StoresWatch(str(manifest(root, "B")), StoreConfig()).text()
    watch = StoresWatch(str(manifest(root, "A")), StoreConfig())
    for _ in range(2):
        assert watch.text()
    assert [one.getMessage() for one in caplog.records] == [f"{root}/a/store: named more than once; read once"]
