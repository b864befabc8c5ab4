"""Command lines: each option in each form, its old names, and what is said of wrong ones."""

import inspect
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from flintmq.cli import parser
from flintmq.cli.declare import REQUIRED, Parameter, parameters
from flintmq.cli.names import COMMANDS, GROUPS
from flintmq.errors import UsageError
from tests.cli.conftest import Run
from tests.compat.stores import Golden

WORDS: dict[type, list[tuple[str, Any]]] = {
    str: [("a", "a"), ("a b", "a b"), ("é=1", "é=1"), ("-2d", "-2d"), ("--json", "--json"), ("--", "--")],
    int: [("5", 5), ("007", 7)],
    float: [("1.5", 1.5), ("2", 2.0)],
}
"""Words and the values that they mean, by type."""
OLD = [
    ("copy", "--into", "--out"),
    ("rebuild", "--into", "--out"),
    ("salvage", "--into", "--out"),
    ("spark dispatch", "--into", "--out"),
    ("spark rebuild", "--into", "--out"),
    ("spark replay", "--into", "--out"),
    ("sql", "--output", "--out"),
    ("follow", "--store", "--out"),
    ("export", "--stream", "--follow"),
    ("spark export", "--stream", "--follow"),
    ("export", "--bodies", "--body"),
    ("spark export", "--bodies", "--body"),
    *((name, "--bodies", "--body") for name in ("scan", "tail", "get", "query", "sql", "ui")),  # of one declaration
    ("tail", "--lines", "--limit"),
    ("tail", "--from", "--since"),
]
"""Command, the name that an option had, and its name."""


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """given(name, words): the values that the command is called with."""
    called: list[dict[str, Any]] = []
    monkeypatch.setattr(parser, "need", lambda *_: None)
    monkeypatch.setattr(parser, "call", lambda _, values: called.append(values) or 0)

    def values_of(name: str, words: list[str]) -> dict[str, Any]:
        assert parser.run([*name.split(), *words]) == 0
        return called.pop()

    return values_of


def needed(name: str, but: str = "") -> list[tuple[Parameter, str, Any]]:
    """The parameters that a command must be given, each with a right word and its value."""
    found = [one for one in parameters(parser.load(name)) if one.default is REQUIRED and one.name != but]
    words = [(one.choices[0] if one.choices else "3" if one.kind is int else "x") for one in found]
    return [(one, word, _value(one, word)) for one, word in zip(found, words, strict=True)]


def _value(one: Parameter, word: str) -> Any:
    value = one.kind(word)
    return [value] if one.several else value


def line(rows: list[tuple[Parameter, str, Any]]) -> list[str]:
    return [part for one, word, _ in rows for part in (*one.declared.names[:1], word)]


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_needed_is_enough(name: str, given: Callable[..., dict[str, Any]]) -> None:
    rows = needed(name)
    assert given(name, line(rows)) == {one.name: value for one, _, value in rows}


OPTIONS = [
    (name, one, word) for name in COMMANDS for one in parameters(parser.load(name)) for word in one.declared.names
]


@pytest.mark.parametrize(("name", "one", "option"), OPTIONS, ids=[f"{name} {option}" for name, _, option in OPTIONS])
def test_each_option_in_each_form(name: str, one: Parameter, option: str, given: Callable[..., dict[str, Any]]) -> None:
    rows = needed(name, one.name)
    besides = {each.name: value for each, _, value in rows}
    if one.kind is bool:
        forms = [([option], True), ([option, option], True)]
    else:
        words = [(each, each) for each in one.choices] or WORDS[one.kind]
        joined = "{}={}" if option.startswith("--") else "{}{}"
        forms = [([option, word], value) for word, value in words]
        forms += [([joined.format(option, word)], value) for word, value in words]
        if one.several:
            (first, one_value), (last, other) = words[0], words[-1]
            forms = [(form, [value]) for form, value in forms] + [([option, first, option, last], [one_value, other])]
    for form, value in forms:
        for words in ([*line(rows), *form], [*form, *line(rows)]):
            assert given(name, words) == {**besides, one.name: value}, words


@pytest.mark.parametrize(("name", "old", "new"), OLD)
def test_an_old_name_means_the_same_and_is_not_shown(
    name: str, old: str, new: str, given: Callable[..., dict[str, Any]], run: Run
) -> None:
    [one] = [one for one in parameters(parser.load(name)) if new in one.declared.names]
    rows = needed(name, one.name)
    value = [] if one.kind is bool else [one.choices[0] if one.choices else "3"]
    found = given(name, [*line(rows), old, *value])
    assert one.name in found and found == given(name, [*line(rows), new, *value])
    shown = run(*name.split(), "--help").out.split()
    assert new in shown and old not in shown


def test_the_table_has_each_old_name() -> None:
    found = {(name, old) for name in COMMANDS for one in parameters(parser.load(name)) for old in one.declared.old}
    assert found == {(name, old) for name, old, _ in OLD}


def test_one_name_for_one_option() -> None:
    """A short name belongs to the same option in every command."""
    names = {
        (short, one.declared.names[0])
        for name in COMMANDS
        for one in parameters(parser.load(name))
        for short in one.declared.names[1:]
    }
    assert names == {("-n", "--limit"), ("-f", "--follow")}


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["tail", "s", "-fn", "5", "t"], {"store": "s", "topic": "t", "follow": True, "limit": 5}),
        (["tail", "s", "-fn5", "t"], {"store": "s", "topic": "t", "follow": True, "limit": 5}),
        (["tail", "--since", "-15m", "s", "t"], {"store": "s", "topic": "t", "begin": "-15m"}),
        (["get", "s", "t", "0", "--", "1"], {"store": "s", "topic": "t", "queue_id": 0, "queue_offset": 1}),
        (["get", "--", "s", "--json", "0", "1"], {"store": "s", "topic": "--json", "queue_id": 0, "queue_offset": 1}),
        (["put", "s", "t", "--queue", "1", "-"], {"store": "s", "topic": "t", "queue_id": 1, "body": "-"}),
        (["put", "s", "t", "--", "--"], {"store": "s", "topic": "t", "body": "--"}),
        (["put", "s", "t", ""], {"store": "s", "topic": "t", "body": ""}),
        (["put", "s", "--json", "t"], {"store": "s", "topic": "t", "as_json": True}),
        (["sql", "a", "b", "--json", "select 1"], {"stores": ["a", "b"], "question": "select 1", "as_json": True}),
        (["scan", "=s", "--topic", "=t"], {"stores": ["=s"], "topic": ["=t"]}),
        (["scan", "s", "--queue", "-1", "--queue", "9" * 30], {"stores": ["s"], "queue": [-1, (1 << 63) - 1]}),
        (["help", "spark", "export"], {"topic": ["spark", "export"]}),
        (["help"], {}),
        (["follow", "--out", "d"], {"store": "d"}),
    ],
)  # fmt: skip
def test_odd_lines(words: list[str], values: dict[str, Any], given: Callable[..., dict[str, Any]]) -> None:
    name, *rest = words
    assert given(name, rest) == values


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("sql shop", "the following arguments are required: QUERY; see 'flintmq sql --help'"),
        ("get", "the following arguments are required: STORE, TOPIC, QUEUE, OFFSET; see 'flintmq get --help'"),
        ("rebuild x", "the following arguments are required: --out; see 'flintmq rebuild --help'"),
        ("scan shop --topic", "--topic needs a value; see 'flintmq scan --help'"),
        ("tail s t -fn", "-n needs a value; see 'flintmq tail --help'"),
        ("scan x --limit x", "--limit: 'x' is not a whole number"),
        ("scan x -n 1.5", "--limit: '1.5' is not a whole number"),
        ("scan x -n -1", "--limit: '-1' is less than 0"),
        ("retention explain x --used 101", "--used: '101' is more than 100"),
        ("verify x --access mmap", "--access: 'mmap' is none of pread, map"),
        ("export x --out y --follow --interval nan", "--interval: 'nan' is not a number"),
        ("export x --out y --follow --interval -0.5", "--interval: '-0.5' is less than 0"),
        ("completion csh", "SHELL: 'csh' is none of bash, zsh, fish"),
        ("get s t 0 1 2", "there is no argument for '2'; see 'flintmq get --help'"),
        ("get s t 0 1 -- -x", "there is no argument for '-x'; see 'flintmq get --help'"),
        ("get s t 0 -1", "OFFSET: '-1' is less than 0"),
        ("get s t 0 -x", "no such option '-x'; see 'flintmq get --help'"),
        ("get s t 0 1 --jsn", "no such option '--jsn'; did you mean '--json'; see 'flintmq get --help'"),
        ("get s t 0 1 --js", "no such option '--js'; did you mean '--json'; see 'flintmq get --help'"),
        ("copy s --int x", "no such option '--int'; see 'flintmq copy --help'"),
        ("get s t 0 1 --raw=1", "argument --raw: ignored explicit argument '1'; see 'flintmq get --help'"),
        ("spark exprt s", "no such command 'exprt'; did you mean 'export'; see 'flintmq spark --help'"),
        ("--topic T get s t 0 1", "no such option '--topic'; see 'flintmq --help'"),
        ("scn", "no such command 'scn'; did you mean 'scan'; see 'flintmq --help'"),
        ("--versio", "no such option '--versio'; did you mean '--version'; see 'flintmq --help'"),
    ],
)
def test_wrong_use_in_words_of_our_own(words: str, text: str, run: Run) -> None:
    result = run(*words.split())
    assert (result.code, result.out, result.err) == (UsageError.exit_code, "", f"flintmq: {text}\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_of_itself(name: str) -> None:
    text = inspect.getdoc(parser.load(name))
    assert text is not None and text.splitlines()[0].startswith(COMMANDS[name][1])


def test_no_help_shows_a_type_or_an_escape(run: Run) -> None:
    for name in (*COMMANDS, *GROUPS):
        text = run(*name.split(), "--help").out
        assert not {"<int", "range>", "\\t", "\t", "%%", "REQUIRED", "==SUPPRESS=="} & set(text.split())
        assert "  %(" not in text and "object at" not in text and "<str>" not in text
        assert "docs/" not in text.replace("/blob/main/docs/", "")
        assert name in GROUPS or text.startswith(f"Usage: flintmq {name} ")
        assert not {"{", "}"} & set(text.splitlines()[0])


@pytest.mark.parametrize(
    "words", ["--help", "get STORE Orders 0 0", "get STORE Orders 0 0 --json", "query STORE Orders k99"]
)
def test_a_command_loads_no_library_that_it_does_not_need(words: str, golden: Callable[[str], Golden]) -> None:
    code = "import sys; from flintmq.cli import app; app.run(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    store = [sys.executable, "-c", code, *(str(golden("basic").path) if w == "STORE" else w for w in words.split())]
    done = subprocess.run(store, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    heavy = {"pyarrow", "pyspark", "numpy", "pandas", "typer", "click", "rich", "pydantic", "asyncio"}
    assert "flintmq" in loaded and not loaded & heavy and not loaded & {"_hashlib", "html"}


@pytest.mark.parametrize("words", [["--help"], ["scan", "--help"], ["scn"], ["scan", "x", "--limit", "x"], ["spark"]])
def test_help_and_mistakes_take_no_time(words: list[str]) -> None:
    """CPU seconds, of which Python itself takes a fifth; other programs may be busy."""
    assert min(cpu_seconds(words) for _ in range(5)) < 0.15


def cpu_seconds(words: list[str], **env: str) -> float:
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "flintmq", *words], capture_output=True, env={**os.environ, **env})
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime


def test_a_signal_in_the_first_moment_ends_without_a_traceback() -> None:
    """Before the command line takes over, SIGINT ends the process as it ends any program."""
    code = (
        "import sys, time, flintmq.__main__ as entry\n"
        "class Slow:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'flintmq.cli':\n"
        "            print('importing', flush=True); time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow()); sys.argv = ['flintmq', 'scan', 'x']; entry.main()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"importing\n"
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (-signal.SIGINT, b"") and time.monotonic() - began < 20
