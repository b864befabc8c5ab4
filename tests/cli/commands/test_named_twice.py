"""A store that a manifest or a list names twice: every command that takes several stores refuses it, or says it."""

import json
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
    "stats": ("stats", "STORES"),
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


# -- A store that a manifest names and that is not there: refused, or left out, said, and exit code 1 ------------------

pytest.importorskip("duckdb", reason="duckdb is not installed")
LENIENT = {
    "scan": ("scan", "STORES"),
    "sql": ("sql", "STORES", "SELECT count(*) FROM messages"),
    "sql with history": ("sql", "STORES", "SELECT count(*) FROM messages", "--history", "TABLE"),
    "sql with history of a stream": ("sql", "STORES", "SELECT count(*) FROM messages", "--history", "STREAMED"),
    "export": ("export", "STORES", "--out", "NEW"),
    "export again": ("export", "STORES", "--out", "TABLE"),
    "export --follow": ("export", "STORES", "--out", "NEW", "--follow", "--once"),
    "export --follow again": ("export", "STORES", "--out", "STREAMED", "--follow", "--once"),
}
STRICT = {
    "verify": ("verify", "STORES"),
    "inspect": ("inspect", "STORES"),
    "diff": ("diff", "STORES", "TABLE"),
    "diff of a stream": ("diff", "STORES", "STREAMED"),
}


@pytest.fixture
def gone_root(run: Run, golden: Callable[[str], Golden], tmp_path: Path) -> Path:
    """A manifest of two stores with two tables of both, the second one of a stream."""
    text = ""
    for broker in "ab":
        shutil.copytree(golden("basic").path, tmp_path / broker / "store")
        text += f'[[stores]]\nstore = "{broker}/store"\nbroker = "{broker}"\n'
    (tmp_path / "cluster.toml").write_text(text)
    assert run("export", tmp_path / "cluster.toml", "--out", tmp_path / "table").code == 0
    assert run("export", tmp_path / "cluster.toml", "--out", tmp_path / "streamed", "--follow", "--once").code == 0
    return tmp_path


def gone_words(command: tuple[str, ...], gone_root: Path) -> list[str]:
    names = {"STORES": "cluster.toml", "NEW": "new", "TABLE": "table", "STREAMED": "streamed"}
    return [str(gone_root / names[word]) if word in names else word for word in command]


def said(gone_root: Path) -> str:
    return f"{gone_root}/b/store: no commitlog/ there, of broker 'b'; is its disk mounted?"


@pytest.mark.parametrize("command", LENIENT)
def test_it_is_left_out_with_exit_code_1(run: Run, gone_root: Path, command: str) -> None:
    """Before, a whole broker was left out with exit code 0."""
    given = gone_words(LENIENT[command], gone_root)
    assert run(*given, "--skip-damage").code == 0, "all are there"
    shutil.move(gone_root / "b", gone_root / "away")
    shutil.rmtree(gone_root / "new", ignore_errors=True)
    result = run(*given)
    assert (result.code, result.out) == (2, "") and said(gone_root) in result.err
    result = run(*given, "--skip-damage")
    assert result.code == 1 and f"{said(gone_root)}; left out" in result.out + result.err


@pytest.mark.parametrize("command", STRICT)
def test_it_is_refused_where_all_are_needed(run: Run, gone_root: Path, command: str) -> None:
    given = gone_words(STRICT[command], gone_root)
    assert run(*given).code == 0
    shutil.move(gone_root / "b", gone_root / "away")
    result = run(*given)
    assert (result.code, result.out) == (2, "") and said(gone_root) in result.err


def test_the_note_of_an_export(run: Run, gone_root: Path) -> None:
    shutil.move(gone_root / "b", gone_root / "away")
    for more in ([], ["--follow", "--once"]):
        out = gone_root / f"new{len(more)}"
        result = run("export", gone_root / "cluster.toml", "--out", out, "--skip-damage", "--json", *more)
        told = json.loads(result.out.splitlines()[-1])
        assert (result.code, told["notes"]) == (1, {"lost": 1})
        assert told["note_texts"] == {"lost": [f"{said(gone_root)}; left out"]}


def test_what_only_matches_a_pattern_is_no_loss(run: Run, gone_root: Path) -> None:
    shutil.rmtree(gone_root / "b" / "store" / "commitlog")
    for gone_words in (["scan"], ["sql", "SELECT 1"], ["export", "--out", str(gone_root / "new")]):
        result = run(gone_words[0], f"{gone_root}/*/store", *gone_words[1:], "--skip-damage")
        assert result.code == 0 and said(gone_root) in result.out + result.err
