"""What holds for every command: numbers of any size, packages that are not there, how usage is told, odd words."""

import errno
import sys
import tomllib
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

import flintmq
from flintmq.cli import app, parser
from flintmq.cli.declare import parameters
from flintmq.cli.names import COMMANDS
from flintmq.cli.parser import load
from tests.cli.conftest import Run
from tests.compat.stores import Golden

NUMBERS = ("0", "-1", "2147483648", "9223372036854775808", "99999999999999999999")
MORE: dict[str, list[str]] = {
    "explain": ["--at", "0"],
    "query": ["Orders", "key"],
    "tail": ["Orders"],
    "put": ["Orders", "body"],
    "get": ["Orders", "0", "0"],
    "sql": ["select 1"],
    "export": ["--out", "lake"],
    "offsets set": ["0", "--group", "G", "--topic", "T", "--create", "--dry-run"],
}
PARAMETERS = [
    (name, option)
    for name in COMMANDS
    for one in parameters(load(name))
    for option in one.declared.names[:1]
    if not name.startswith("spark")  # a session each; their numbers go through the same `value_of`
    and one.declared.metavar in ("N", "PERCENT", "POSITION")
]


def test_the_table_has_numbers():
    assert {
        ("scan", "--limit"),
        ("scan", "--queue"),
        ("tail", "--limit"),
        ("query", "--limit"),
        ("retention explain", "--used"),
    } <= set(PARAMETERS)


@pytest.mark.parametrize(("name", "option"), PARAMETERS)
def test_numbers_of_any_size(
    run: Run,
    golden: Callable[[str], Golden],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    option: str,
):
    """They count, or are refused in one line."""
    monkeypatch.chdir(tmp_path)
    store = golden("poison").path if name != "put" else tmp_path / "new"
    place = store / "checkpoint" if name == "explain" else store
    for number in NUMBERS:
        found = run(*name.split(), place, *MORE.get(name, []), f"{option}={number}")
        assert found.code in (0, 1, 2, 3, 7, 11), (number, found)
        assert len(found.err.splitlines()) <= 2, (number, found.err)
        assert found.code != 2 or option in found.err or "give" in found.err or "queue" in found.err, (
            number,
            found.err,
        )


@pytest.mark.parametrize("number", NUMBERS)
def test_arguments_of_any_size(run: Run, golden: Callable[[str], Golden], number: str):
    for words in (["0", number], [number, "0"]):
        assert run("get", golden("basic").path, "Orders", "--", *words).code in (0, 2, 7)


@pytest.mark.parametrize(
    ("words", "missing", "extra"),
    [
        (["sql", "STORE", "select 1"], "duckdb", "duckdb"),
        (["spark", "stats", "STORE"], "pyspark", "spark"),
        (["spark", "verify", "STORE"], "pyspark", "spark"),
        (["spark", "replay", "STORE", "--out", "x"], "pyspark", "spark"),
        (["rebuild", "STORE", "--out", "x", "--engine", "spark"], "pyspark", "spark"),
    ],
)
def test_the_extra_that_is_named_is_enough(
    run: Run,
    golden: Callable[[str], Golden],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    missing: str,
    extra: str,
):
    """On an installation without extras the first word is not of pyarrow, which is only a part of what is needed."""
    for name in ("pyarrow", missing):
        monkeypatch.setitem(sys.modules, name, None)
    found = run(*[str(golden("poison").path) if word == "STORE" else word for word in words])
    assert (found.code, found.out) == (8, "") and f"pip install 'flintmq[{extra}]'" in found.err


def test_words_about_the_program(run: Run):
    assert run("version").out == run("-V").out == run("--version").out == f"flintmq {flintmq.__version__}\n"
    assert "_FLINTMQ_COMPLETE" in run("completion", "bash").out
    assert run("completion", "csh").code == 2
    assert "143" in run("help", "exit-codes").out and "ISO 8601" in run("help", "times").out
    assert run("help", "scan").out == run("scan", "--help").out
    assert run("help", "scn").code == 2


def test_quiet_stands_anywhere(run: Run, golden: Callable[[str], Golden], monkeypatch: pytest.MonkeyPatch):
    store, seen = golden("poison").path, []
    monkeypatch.setattr(parser, "be_quiet", lambda wanted: seen.append(wanted) or nullcontext())
    for words in (
        ["-q", "scan", store],
        ["scan", store, "--quiet"],
        ["scan", "-q", store],
        ["scan", store, "--grep", "-q"],
    ):
        assert run(*words).code == 0
    assert seen == [True, True, True, False]


@pytest.mark.parametrize("words", [["scan", "--topic"], ["query"], ["tail"], ["get"]])
def test_one_answer_to_a_topic_that_is_not_there(run: Run, golden: Callable[[str], Golden], words: list[str]):
    rest = {"query": ["key"], "get": ["0", "0"]}.get(words[0], [])
    store = golden("basic").path
    found = run(words[0], store, *words[1:], "Order", *rest)
    assert (found.code, found.out) == (7, "")
    assert "there is no such topic; topics are Orders, Payments" in found.err
    assert run(words[0], store, *words[1:], "Order", *rest, "--json").code == 7


def test_tags_as_consumers_write_them(run: Run, golden: Callable[[str], Golden]):
    store = golden("basic").path
    one, two = (run("scan", store, "--tag", tag, "--json").rows for tag in ("TagA", "TagB"))
    both = run("scan", store, "--tag", "TagA || TagB", "--json").rows
    assert (
        one
        and two
        and sorted(row["physical_offset"] for row in both) == sorted(row["physical_offset"] for row in one + two)
    )
    assert run("scan", store, "--tag", "*", "--json").rows == run("scan", store, "--json").rows
    tails = [
        run("tail", store, "Orders", "-n", "99", *words, "--json").rows
        for words in (["--tag", "TagA||TagB"], ["--tag", "TagA", "--tag", "TagB"])
    ]
    assert tails[0] == tails[1] != []


def test_tail_between_two_times(run: Run, golden: Callable[[str], Golden]):
    store = golden("basic").path
    rows = run("scan", store, "--topic", "Orders", "--json").rows
    first, end = rows[10]["store_timestamp"], rows[-10]["store_timestamp"]
    wanted = [row for row in rows if first <= row["store_timestamp"] < end]
    assert run("tail", store, "Orders", "--since", first, "--until", end, "--json").rows == wanted
    assert run("tail", store, "Orders", "--until", end).code == 2


def test_a_question_that_is_none(run: Run, golden: Callable[[str], Golden]):
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    store = golden("poison").path
    assert "the views are messages, queues and offsets" in run("sql", store, "select * from nope").err
    for question, complaint in (("", "QUERY is empty"), (" ;\n", "the question is empty")):
        found = run("sql", store, question)
        assert found.code == 2 and complaint in found.err


def test_times_with_a_zone_reach_python(golden: Callable[[str], Golden]):
    """The extra duckdb brings pytz, which DuckDB needs for them."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert "pytz" in extras["duckdb"] and any("duckdb" in wanted for wanted in extras["all"])
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    m = flintmq.dataset(golden("poison").path)  # noqa: F841  (DuckDB finds it by its name)
    assert duckdb.sql("select store_timestamp from m limit 1").fetchall()[0][0].tzinfo is not None


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOSPC, errno.ENOTDIR, errno.EROFS, errno.EIO, errno.EMFILE])
def test_advice_fits_the_error(number: int):
    import os

    text = app._system(OSError(number, os.strerror(number), "a/file"))
    assert text.startswith(f"a/file: {os.strerror(number)}; ") and text.endswith(app.ADVICE[number])
    assert len(set(app.ADVICE.values())) >= len(app.ADVICE) - 1


def test_a_file_where_a_directory_should_be(run: Run, golden: Callable[[str], Golden], tmp_path: Path):
    (tmp_path / "afile").touch()
    for words in (
        ["put", tmp_path / "afile", "Orders", "hi"],
        ["copy", golden("poison").path, "--out", tmp_path / "afile" / "x"],
        ["rebuild", golden("poison").path, "--out", tmp_path / "afile"],
    ):
        found = run(*words)
        assert found.code in (2, 5) and "permissions" not in found.err and "director" in found.err, found
