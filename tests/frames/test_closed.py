"""A question can do nothing beyond what it names, by any function, setting or statement of the DuckDB that is there."""

import os
import re
import socket
from pathlib import Path
from typing import Any

import duckdb
import pytest

import flintmq
from flintmq.config.keys import StoreConfig
from flintmq.config.releases import is_older
from flintmq.errors import UsageError
from flintmq.frames.sql import ask, connect
from flintmq.frames.statements import FREE, close

SECRET = "seen-what-nobody-named"
LOG_IS_LOCKED = not is_older(duckdb.__version__, (2, 0))


@pytest.fixture
def world(golden: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a store, a home and a file that no question names; the environment has a secret, too."""
    for name in ("home", "near"):
        (tmp_path / name).mkdir()
    golden("basic").copy(tmp_path / "data")
    (tmp_path / "near" / "canary.csv").write_text(f"{SECRET}\n1\n")
    monkeypatch.setenv("HOME", os.fspath(tmp_path / "home"))
    monkeypatch.setenv("CANARY", SECRET)
    monkeypatch.chdir(tmp_path / "near")
    return tmp_path


def listed(world: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in world.rglob("*")}


def store_of(world: Path) -> Path:
    [store] = (world / "data").iterdir()
    return store


def answer(world: Path, question: str) -> str:
    """Return the answer, or the error of one line."""
    try:
        with ask(flintmq.dataset(store_of(world)), question) as rows:
            return str(rows.read_all().to_pylist())
    except UsageError as error:
        assert "\n" not in str(error), question
        return f"refused: {error}"


def unnamed(path: Path) -> str:
    """Return an expression for a path that no text of the question names."""
    return f"replace('{os.fspath(path).replace('/', '#')}', '#', chr(47))"


def calls(world: Path) -> list[str]:
    """Make calls of every function of this DuckDB that takes a text, with paths and the name of a variable."""
    found = duckdb.sql(
        "select distinct function_name, function_type, parameters, parameter_types, varargs from duckdb_functions() "
        "where function_type not in ('aggregate', 'window') and function_name ~ '^\\w+$'"
    ).fetchall()
    made = set()
    texts = [unnamed(world / "near" / "canary.csv"), unnamed(store_of(world) / "commitlog" / "new"), "'CANARY'"]
    for name, kind, names, types, rest in found:
        types = ["ANY" if type_ is None else type_ for type_ in types]  # those of a macro
        takes = ["VARCHAR" in type_ or type_.startswith(("ANY", "VARIANT")) for type_ in types]
        if not rest and not any(takes):
            continue
        for text in texts:
            given = [f"[{text}]" if type_.endswith("[]") else text for type_ in types] or [text]
            if kind == "pragma":
                made |= {f"pragma {name}({', '.join(given)})", f"pragma {name} = {text}"}
                continue
            shapes = [given[:count] for count in range(1, min(len(given), 3) + 1)]
            if kind == "table":
                shapes += [
                    [given[0], f"{word} := {value}"]
                    for word, value, taken in zip(names[1:], given[1:], takes[1:], strict=True)
                    if taken
                ]
            source = "from" if kind.startswith("table") else "select"
            made |= {f"{source} {name}({', '.join(shape)})" for shape in shapes}
    return sorted(made)


def test_no_function_reads_or_writes_what_is_not_named(world: Path) -> None:
    """Each function that DuckDB has, also those that come with a later version."""
    before = listed(world)
    made = [call for call in calls(world) if LOG_IS_LOCKED or "enable_logging" not in call]
    assert len(made) > 1000
    assert any(call.startswith("from read_text") for call in made) and any("compression :=" in call for call in made)
    connection = connect(os.fspath(world / "spilled"))
    close(connection, [], ";\n".join(made), [os.fspath(store_of(world))], StoreConfig())
    for call in made:
        try:
            rows = str(connection.execute(call).fetchall())
        except duckdb.Error as error:
            rows = str(error)
        assert SECRET not in rows, call
    connection.close()
    assert listed(world) == before


def test_no_setting_is_changed_but_those_that_touch_no_file(world: Path) -> None:
    """Each setting that DuckDB has; `schema` and `search_path` name what is in memory."""
    found = duckdb.sql("select name, value, input_type from duckdb_settings()").fetchall()
    assert len(found) > 100 and {name.lower() for name, _, _ in found}.issuperset(FREE)
    before = listed(world)
    connection = connect(os.fspath(world / "spilled"))
    close(connection, [], "", [os.fspath(store_of(world))], StoreConfig())
    for name, value, kind in found:
        given = value if kind.endswith("]") else f"'{value or 'x'}'"
        for question in (f"set {name} = {given}", f"reset {name}", f"pragma {name} = {given}"):
            if name not in ("schema", "search_path") and (LOG_IS_LOCKED or question.startswith("set")):
                with pytest.raises(duckdb.Error):
                    connection.execute(question)
        if name.lower() in FREE and value:
            assert answer(world, f"-- first\n set {name} to {given}; select 7 as n") == "[{'n': 7}]"
    connection.close()
    assert listed(world) == before


WRITES = """select Success::varchar from enable_logging(level='trace', storage='file',
    storage_config={{'path': {place}, 'buffer_size': 1}})
union all select write_log('x', level := 'FATAL')::varchar from messages
union all (select content from read_text('canary.csv'))"""


@pytest.mark.parametrize("place", ["'{store}/commitlog'", "'{store}/config'", "'new'", "'ne' || 'w'"])
def test_a_select_starts_no_log(world: Path, place: str) -> None:
    before = listed(world)
    said = answer(world, WRITES.format(place=place.format(store=store_of(world))))
    assert re.match("refused: SQL: (no query sets enable_logging; it may begin with: set threads|DuckDB v1)", said)
    assert listed(world) == before


@pytest.mark.parametrize(
    "question",
    [
        "from read_text({canary})",
        "from read_text(['canary' || '.csv'])",
        "from read_csv({canary})",
        "with t as (from read_blob({canary})) from t",
        "from query('from read_text(''canary' || '.csv'')')",
        "from glob({store} || '/commitlog/*')",
        "from read_text('{path}/config/topics.json')",
        "from '{path}/config/topics.json'",
        "from glob('{path}/commitlog/*')",
        "explain analyze from read_text({canary})",
        "prepare p as from read_text({canary}); execute p",
        "create view v as from read_text({canary}); from v",
        "from secret_of_ours",
        "select getenv('CANARY') as n",
        "load httpfs; select 1",
        "load '{path}/x.duckdb_extension'; select 1",
        "install httpfs; select 1",
        "create persistent secret s (type http, bearer_token 'x'); select 1",
        "create external resource x; select 1",
        "attach {canary} as d; select 1",
        "set file_search_path = 'near'; from read_text('canary.csv')",
        "select 1 as n; set threads = 1",
        "create temp table t as select 1; set threads = 1; from t",
        "set threads = 1; set lock_configuration = false; set threads = 2; select 1",
        "set enable_external_access = true; from read_text({canary})",
        "set allowed_directories = ['/']; from read_text({canary})",
    ],
)
def test_what_is_not_named_is_refused(world: Path, question: str) -> None:
    secret_of_ours = duckdb.sql("select 1")  # a variable that DuckDB would find in a caller
    before, store = listed(world), store_of(world)
    canary = unnamed(world / "near" / "canary.csv")
    said = answer(world, question.format(canary=canary, store=unnamed(store), path=store))
    assert said.startswith("refused: SQL: ") and SECRET not in said and secret_of_ours is not None
    assert listed(world) == before


def test_nothing_is_asked_of_the_network(world: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/x.csv"
        assert answer(world, f"from read_csv('{address}')").startswith("refused: ")
        assert answer(world, f"load httpfs; from '{address}'").startswith("refused: ")
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.parametrize(
    "question", ["from '{near}/canary.csv'", "from 'canary.csv'", "from '../near/*.csv'", "from 'c*.csv'"]
)
@pytest.mark.parametrize("beside", [False, True])
def test_what_is_named_is_read(world: Path, question: str, beside: bool) -> None:
    """Also by a pattern, and if the directory of the pattern is above the store."""
    near = world / "near"
    if beside:
        store_of(world).rename(near / "store")
        (world / "data").rmdir()
        (world / "data").symlink_to(near / "store")
    with ask(flintmq.dataset(near / "store" if beside else store_of(world)), question.format(near=near)) as rows:
        assert rows.read_all().to_pylist() == [{SECRET: 1}]


def test_many_texts_that_are_no_paths(world: Path) -> None:
    """Each is looked up once, whatever the store."""
    texts = ", ".join(f"'key-{number}'" for number in range(5_000))
    with ask(flintmq.dataset(store_of(world)), f"select count(*) as n from messages where keys in ({texts})") as rows:
        assert rows.read_all().num_rows == 1
