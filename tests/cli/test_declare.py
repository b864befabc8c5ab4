"""Words that a command line gives to parameters: none is empty, lost, or another text."""

import os
from dataclasses import dataclass
from typing import Annotated

import pytest

from flintmq.cli.declare import REQUIRED, Argument, Option, Parameter, call, parameters, value_of
from flintmq.cli.names import COMMANDS
from flintmq.cli.parser import load
from flintmq.errors import UsageError
from tests.cli.conftest import Run


def right(name: str, but: str) -> dict[str, str]:
    """Return a word for each parameter that a command needs, but one."""
    needed = [one for one in parameters(load(name)) if one.default is REQUIRED and one.name != but]
    return {one.name: "3" if one.kind is int else "x" for one in needed}


def line(name: str, values: dict[str, str]) -> list[str]:
    rows = [(one.declared, values[one.name]) for one in parameters(load(name)) if one.name in values]
    named = [f"{declared.names[0]}={value}" for declared, value in rows if declared.names]
    return [*named, "--", *(value for declared, value in rows if not declared.names)]


ALL = [(name, one) for name in COMMANDS for one in parameters(load(name))]
TEXTS = [(name, one) for name, one in ALL if one.kind is str]
SINGLE = [(name, one) for name, one in ALL if one.declared.names and one.kind is not bool and not one.several]
NUMBERS = [(name, one) for name, one in ALL if one.kind in (int, float)]


def ids(rows: list[tuple[str, Parameter]]) -> list[str]:
    return [f"{name} {one.declared.name}" for name, one in rows]


@pytest.mark.parametrize(("name", "one"), TEXTS, ids=ids(TEXTS))
def test_an_empty_word_is_refused(name: str, one: Parameter, run: Run) -> None:
    if one.declared.may_be_empty:
        assert (name, one.declared.name) == ("put", "BODY")
        return
    result = run(*name.split(), *line(name, {**right(name, one.name), one.name: ""}))
    assert (result.code, result.out) == (2, "")
    assert result.err == f"flintmq: {one.declared.name} is empty, as a variable that is not set; give a value\n"


@pytest.mark.parametrize(("name", "one"), SINGLE, ids=ids(SINGLE))
def test_a_second_value_is_not_lost(name: str, one: Parameter, run: Run) -> None:
    """Also if it is given by another of its names."""
    names = (*one.declared.names, *one.declared.old)
    result = run(*name.split(), f"{names[0]}=3", names[-1], "4", *line(name, right(name, one.name)))
    assert (result.code, result.out) == (2, "")
    assert result.err == f"flintmq: {names[0]} is given 2 times, and has one value; give it once\n"


@pytest.mark.parametrize(("name", "one"), NUMBERS, ids=ids(NUMBERS))
def test_a_number_is_written_in_digits(name: str, one: Parameter, run: Run) -> None:
    """Python also reads 1_0, as 10, and digits of other scripts."""
    for word in ("1_0", " 1", "1_0.5", "１", "inf", "x", "9" * 5000 + "x"):
        result = run(*name.split(), *line(name, {**right(name, one.name), one.name: word}))
        what = "a whole number" if one.kind is int else "a number"
        shown = word if len(word) < 60 else "9" * 59 + "…"
        assert (result.code, result.out) == (2, "")
        assert result.err == f"flintmq: {one.declared.name}: '{shown}' is not {what}\n"


@pytest.mark.parametrize("place", [("0", "9" * 23), ("9" * 23, "0"), ("0", "9223372036854775808")])
def test_a_place_beyond_64_bits_is_named_as_it_was_given(run: Run, place: tuple[str, str]) -> None:
    result = run("get", "store", "T", *place)
    name, word = ("QUEUE", place[0]) if place[0] != "0" else ("OFFSET", place[1])
    assert (result.code, result.out) == (2, "")
    assert result.err == f"flintmq: {name}: {word} does not fit 64 bits; no store has such a place\n"


def test_a_flag_may_be_repeated(run: Run) -> None:
    assert run("doctor", "--json", "--json").code in (0, 1)


TEXT = Parameter("topic", str, (), True, None, Option("--topic T", "A topic.", text=True))
PATH = Parameter("store", str, (), False, REQUIRED, Argument("STORE", "A store."))


def test_texts_are_utf8() -> None:
    assert [value_of(TEXT, word) for word in ("库", "a\ufffd", "\udce5\udcba\udc93")] == ["库", "a\ufffd", "库"]
    with pytest.raises(UsageError) as caught:
        value_of(TEXT, "a\udcff")
    assert str(caught.value) == "--topic: 'a\udcff' is not UTF-8, as names, tags, keys and SQL are"


def test_other_words_stay_as_they_are() -> None:
    raw = os.fsdecode(b"\xff\xe5")
    assert value_of(PATH, raw) == raw


@dataclass(frozen=True)
class Several:
    """Words that commands share."""

    store: Annotated[str, Argument("STORE", "A store.")]
    fast: Annotated[bool, Option("--fast", "Faster.")] = False


def command(words: Several, limit: Annotated[int, Option("--limit N", "At most.")] = 7) -> int:
    return len(words.store) + 10 * words.fast + 100 * limit


def test_a_dataclass_stands_for_its_fields() -> None:
    found = [(one.name, one.kind, one.default, one.declared.name) for one in parameters(command)]
    fast, limit = ("fast", bool, False, "--fast"), ("limit", int, 7, "--limit")
    assert found == [("store", str, REQUIRED, "STORE"), fast, limit]
    assert call(command, {"store": "abc"}) == 703
    assert call(command, {"store": "abc", "fast": True, "limit": 1}) == 113
