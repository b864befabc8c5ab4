"""Conditions in SQL92: what RocketMQ's own filters answered, three-valued logic, and input that means harm."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flintmq.broker import sql
from flintmq.broker.sql import DEPTH_MAX, LENGTH_MAX, compiled, wanted
from flintmq.errors import FormatError

TABLE = json.loads((Path(__file__).parents[1] / "compat" / "sql92.json").read_text(encoding="utf-8"))
"""By three versions of RocketMQ (labs/sql_filters.py)."""
LETTERS = {True: "T", False: "F", None: "N"}
Logic = bool | None


def letters(text: str, messages: Sequence[dict[str, str]]) -> str | None:
    """The answers of a condition as the table has them; None: it is refused."""

    def letter(message: dict[str, str]) -> str:
        try:
            return LETTERS[of(message)]
        except ValueError:
            return "!"

    try:
        of = compiled(text)
    except FormatError:
        return None
    return "".join(map(letter, messages))


def test_answers_are_those_of_rocketmq():
    assert len(TABLE["conditions"]) > 900 and len(TABLE["messages"]) > 90
    for text, answers in TABLE["conditions"]:
        found = letters(text, TABLE["messages"])
        assert found == answers, f"{text}: {list(zip(TABLE['messages'], found or (), answers or (), strict=False))}"


def test_only_what_is_true_is_wanted():
    """A message does not match where its condition is unknown, or its evaluation fails."""
    is_wanted = wanted("a > 5 OR TRUE")
    assert [is_wanted(one) for one in ({"a": "6"}, {"a": "1"}, {}, {"a": "abc"})] == [True, True, True, False]
    assert [wanted("a > 5")(one) for one in ({"a": "6"}, {"a": "1"}, {}, {"a": "abc"})] == [True, False, False, False]


def test_a_hexadecimal_text_is_no_number():
    """Java's Double.valueOf reads it; nobody writes properties so."""
    assert letters("a = 8.0", [{"a": "0x1p3"}, {"a": "8"}]) == "!T"


# -- three-valued logic ------------------------------------------------------------------------------------------------


def texts_and_values() -> st.SearchStrategy[tuple[str, Logic]]:
    """Conditions of constants, and of a property that is not there, with their values by Kleene's tables."""
    order: list[Logic] = [False, None, True]  # AND is the least, OR the greatest, NOT turns it round
    leaves = st.sampled_from(
        [("TRUE", True), ("FALSE", False), ("NULL", None), ("gone > 1", None), ("gone IS NULL", True)]
    )

    def joined(parts: list[tuple[str, Logic]], word: str) -> tuple[str, Logic]:
        values = [order.index(value) for _, value in parts]
        text = f" {word} ".join(f"({part})" for part, _ in parts)
        return text, order[min(values) if word == "AND" else max(values)]

    def grown(parts: st.SearchStrategy[tuple[str, Logic]]) -> st.SearchStrategy[tuple[str, Logic]]:
        opposite = parts.map(lambda one: (f"NOT ({one[0]})", order[2 - order.index(one[1])]))
        return opposite | st.builds(joined, st.lists(parts, min_size=2, max_size=4), st.sampled_from(["AND", "OR"]))

    return st.recursive(leaves, grown, max_leaves=12)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts_and_values())
def test_three_values(case: tuple[str, Logic]):
    text, value = case
    assert compiled(text)({}) is value, text


@settings(deadline=None)
@given(*[st.sampled_from([("TRUE", True), ("FALSE", False), ("NULL", None)])] * 3)
def test_and_binds_more_than_or(a: tuple[str, Any], b: tuple[str, Any], c: tuple[str, Any]):
    for one, other in ((f"{a[0]} OR {b[0]} AND {c[0]}", f"{a[0]} OR ({b[0]} AND {c[0]})"),
                       (f"{a[0]} AND {b[0]} OR {c[0]}", f"({a[0]} AND {b[0]}) OR {c[0]}"),
                       (f"NOT {a[0]} AND {b[0]}", f"(NOT {a[0]}) AND {b[0]}")):  # fmt: skip
        assert compiled(one)({}) is compiled(other)({})


@settings(deadline=None)
@given(st.text(max_size=60), st.text(max_size=20))
def test_texts_in_quotes_are_any(text: str, other: str):
    quoted = "'" + text.replace("'", "''") + "'"
    assert compiled(f"a = {quoted}")({"a": text}) is True
    assert compiled(f"a IN ({quoted})")({"a": other}) is (text == other)
    assert compiled(f"a CONTAINS {quoted}")({"a": other + text + other}) is bool(text)


@settings(deadline=None)
@given(st.text(alphabet="ab5.=<>()'-+ \n,NOTANDIS/*", max_size=40), st.dictionaries(st.just("a"), st.text(max_size=5)))
def test_any_text_is_refused_or_evaluated(text: str, properties: dict[str, str]):
    try:
        is_wanted = wanted(text)
    except FormatError as error:
        assert 0 <= error.position <= len(text)
    else:
        assert is_wanted(properties) in (True, False)


# -- limits ------------------------------------------------------------------------------------------------------------


def nested(depth: int) -> list[str]:
    return [
        "(" * depth + "a = 5" + ")" * depth,
        "NOT " * depth + "TRUE",
        "+" * depth + "5 = a",
        "a = " + "- " * depth + "5",
        "a = 5" + " = TRUE" * depth,
        "a" + " IS NULL" * depth,
        "a" + " CONTAINS 'x'" * depth,
    ]


def test_depth():
    for text in nested(DEPTH_MAX - 4):
        assert compiled(text)({"a": "5"}) in (True, False)
    for text in nested(DEPTH_MAX + 1):
        with pytest.raises(FormatError, match=f"more than {DEPTH_MAX} "):
            compiled(text)
    chain = "a = 4" + " OR a = 4" * 400 + " OR a = 5"  # one beside the other
    assert compiled(chain)({"a": "5"}) is True


def test_length():
    text = "a = '" + "x" * (LENGTH_MAX - 6) + "'"
    assert compiled(text)({"a": "x" * (LENGTH_MAX - 6)}) is True
    with pytest.raises(FormatError, match=f"{LENGTH_MAX + 1} letters; {LENGTH_MAX} are the most"):
        compiled(text + " ")
    with pytest.raises(FormatError, match="1000000 letters"):
        compiled("a = " + "9" * 999_996)


HOSTILE = [
    "(" * 4096, ")" * 4096, "(" * 2047 + "a" + ")" * 2048, "NOT " * 1024, "-" * 4096, "+" * 4096, "'" * 4095,
    "a" + "=a" * 2047, "a IN (" + "'x'," * 1000, "/*" * 2048, "/*" + "*" * 4094, "--" * 2048, "9" * 4096,
    "1" + "0" * 4000 + ".0", "1e" + "9" * 4000, "a" + " IS NULL" * 511, "a > " * 1024, "a BETWEEN " * 400,
    "a NOT " * 600, "." * 4096, "\0" * 4096, "\ud800" * 4096,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: f"{text[:4]!a}")
def test_what_means_harm_is_refused_soon(text: str):
    assert len(text) <= LENGTH_MAX
    begin = time.process_time()
    with pytest.raises(FormatError):
        compiled(text)
    assert time.process_time() - begin < 1


@pytest.mark.parametrize("text", ["-", "0", "--\n", "0-", "-0.5"])
def test_each_letter_is_looked_at_a_few_times(text: str):
    """Times of this thread are compared: ten times the letters take a hundred times as long, if each looks at all."""

    def taken(letters: int) -> float:
        times = list[float]()
        for _ in range(3):
            asked = text * (letters // len(text))
            begin = time.thread_time()
            words = list(sql._words(asked))
            times.append(time.thread_time() - begin)
            assert words[-1] == ("", "", len(asked))
        return min(times)

    assert taken(40_000) < 40 * taken(4000)


def test_refusals_are_kept(monkeypatch: pytest.MonkeyPatch):
    parsed = list[str]()

    class Counted(sql._ConditionParser):
        def __init__(self, text: str) -> None:
            parsed.append(text)
            super().__init__(text)

    monkeypatch.setattr(sql, "_ConditionParser", Counted)
    refusals = list[FormatError]()
    for _ in range(3):
        with pytest.raises(FormatError, match="cannot follow what comes before") as refused:
            compiled("a = refusals >")
        refusals.append(refused.value)
    assert parsed == ["a = refusals >"]
    assert len({str(one) for one in refusals}) == 1 and len({id(one) for one in refusals}) == 3


def test_digits_that_are_several_words():
    """A number begins with no zero, but for 0 itself; one with a point does."""
    words = [word for _, word, _ in sql._words("007 00.5 0001e5 00L 1.5.5 0.0 00")][:-1]
    assert words == ["0", "0", "7", "00.5", "0001e5", "0", "0", "L", "1.5", ".5", "0.0", "0", "0"]


def test_comments():
    words = [word for _, word, _ in sql._words("a--b\n=--\r1 --c")][:-1]
    assert words == ["a", "=", "1", "-", "-", "c"], "one without an end of line is none"


LONG = 1_000_000
PROPERTIES = [
    "9" * LONG, "-" + "9" * LONG, "0" * LONG + "x", "0" * LONG + "5", "1." + "3" * LONG, "1" * LONG + "x",
    "1e" + "9" * LONG, "1." + "1" * LONG + "x", " " * LONG + "5", "." * LONG, "5" + "f" * LONG, "'" * LONG, "٥" * LONG,
]  # fmt: skip


@pytest.mark.parametrize("value", PROPERTIES, ids=lambda value: f"{value[:3]!a}{value[-1:]!a}")
def test_numbers_of_a_million_digits(value: str):
    """A property is looked at once, whatever it is compared with. A record has 32 KiB of properties at most."""
    begin = time.process_time()
    for text in ("a > 5", "a > 5.5", "a = 9223372036854775807", "a > b", "a BETWEEN 1 AND 6", "a NOT IN ('5')"):
        assert wanted(text)({"a": value, "b": "1"}) in (True, False)
    assert time.process_time() - begin < 2
    assert wanted("a = 5")({"a": value}) is (value == "0" * LONG + "5"), "Java reads zeros before a number"


def test_a_condition_is_compiled_once():
    assert compiled("a = 1 AND compiled = 'once'") is compiled("a = 1 AND compiled = 'once'")
