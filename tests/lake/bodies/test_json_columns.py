"""Many bodies as JSON at once: values, errors and reasons are those of the parser that reads them one by one."""

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from flintmq.lake.bodies import form as forms
from flintmq.lake.bodies import json_columns
from flintmq.lake.bodies.ddl import read_schema
from flintmq.lake.bodies.failure import BadBody
from flintmq.lake.bodies.form import BodyForm, decoded
from flintmq.lake.bodies.json_body import reader

KIND = read_schema(
    "i long, b byte, s string, d double, f float, ok boolean, day date, t timestamp, "
    "n struct<x: int, e: array<double>>, l array<long>, o array<struct<q: short, r: timestamp>>"
)
NUMBERS = (
    "0 -0 1 127 128 -128 32768 2147483648 9223372036854775807 9223372036854775808 1.0 -0.0 1e3 1e999 -1e-400 3.5e38 "
    "3.4028235e38 0.1 1e-45 NaN Infinity -Infinity Inf 01 1. .5 +1 16777217.000000001 " + "1" * 400
).split()
TEXTS = [
    *('""', '"x"', '"NaN"', '": Inf"', '"a\\nb"', '"\\u0000"', '"\\ud800"', '"\\ud83d\\ude00"', '"ä"', '"}{"', '"\t"'),
    *('"2026-01-31"', '"0000-01-01"', '"9999-12-31"', '"20260131"', '"2026-02-30"', '"10000-01-01"', '"2026-01-31 "'),
    *('"2026-01-31T01:02:03Z"', '"2026-01-31T01:02:03"', '"2026-01-31 01:02:03.5+02:00"', '"2026-01-31T24:00:00Z"'),
    *('"0001-01-01T00:00:00+05:00"', '"9999-12-31T23:59:59.999999-01:00"', '"2026-01-31T01:02:03.1234567Z"'),
    *('"2026-01-31T01:02Z"', '"2026-01-31T01:02:60Z"', '"2026-01-31T01:02:03+24:00"', '"1969-12-31T23:59:59.999999Z"'),
]
RIGHT = {
    "i": ["-5", "7"], "b": ["127"], "s": ['"x"', '"Info: NaN"'], "d": ["0.1", "1e3", "5"], "f": ["0.1", "3e38"],
    "ok": ["true"], "day": ['"2026-01-31"'], "t": ['"2026-01-31T01:02:03.5+02:00"', '"0001-01-01T00:00:00Z"'],
    "n": ['{"x":1,"e":[0.5,null],"z":{"x":"q"}}', "{}"], "l": ["[1,null]", "[]"], "z": ["[[1]]", '"NaN"', "{}"],
    "o": ['[{"q":1,"r":"2020-01-01T00:00:00Z","z":1},null,{}]'],
}  # fmt: skip
STRANGE = [
    *(
        "",
        "{",
        "}",
        "[]",
        "1",
        "null",
        "{}{}",
        '{"i":1} {"i":2}',
        '{"n":',
        '{"x":1}}',
        "\ufeff{}",
        "{}\0",
        "{},{}",
        "//",
    ),
    *("{}\n\n", "\n{}", "{}\x0b", "{}\xa0", "\u2028{}", '{"z":' + "[" * 700, '{"z":' + "[" * 600 + "]" * 600 + "}"),
    *('{"z":' + "1" * 5000 + "}", '{"z":' + "1" * 990 + "}", '{"z":NaN}', '{"z":[ -Infinity]}', '{"i":1,"i":2}'),
]


def texts(rng: random.Random, wrong: float) -> Iterator[str]:
    def value(depth: int) -> str:
        kind = rng.randrange(6 if depth < 3 else 3)
        if kind > 3:
            return f"[{','.join(value(depth + 1) for _ in range(rng.randrange(3)))}]"
        if kind == 3:
            return f'{{"x":{value(depth + 1)}}}'
        return rng.choice((NUMBERS, TEXTS, ["true", "null", "nul"])[kind])

    while True:
        if rng.random() < wrong / 4:
            yield rng.choice(STRANGE)
        names = rng.sample([*RIGHT], rng.randrange(6)) * rng.choice((1, 1, 1, 1, 2))
        space = rng.choice(("", "", " ", "\n", "\r\n\t"))
        pairs = (
            f'{space}"{name}"{space}:{value(0) if rng.random() < wrong else rng.choice(["null", *RIGHT[name]])}{space}'
            for name in names
        )
        yield "{" + ",".join(pairs) + "}"


def one_by_one(bodies: list[bytes]) -> list[tuple[Any, str | None]]:
    read = reader(KIND)
    found: list[tuple[Any, str | None]] = []
    for body in bodies:
        try:
            found.append((pa.array([read(body)], KIND).to_pylist()[0], None))
        except BadBody as error:
            found.append((None, error.reason))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_any_bodies_are_read_as_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "FEW", 1)
    rng, at_once = random.Random(seed), 0
    for _ in range(30):
        wrong = rng.choice((0, 0, 0.02, 0.3))
        some = texts(rng, wrong)
        bodies = [next(some).encode() for _ in range(rng.choice((2, 3, 40)))]
        if wrong and rng.random() < 0.3:
            at = rng.randrange(len(bodies))
            bodies[at] = bodies[at].replace(b"1", bytes([rng.randrange(256)]), 1)
        column = pa.array([b"left out", *bodies], pa.binary()).slice(1)
        values, bad = decoded(BodyForm("json", KIND), column)
        values.validate(full=True)
        reasons = dict(bad)
        found = [(value, reasons.get(row)) for row, value in enumerate(values.to_pylist())]
        assert repr(found) == repr(one_by_one(bodies)), "repr tells -0.0 from 0.0"
        at_once += json_columns.read(column, KIND, json_columns.readable(KIND)) is not None
    assert at_once > 5, "else nothing was compared"


@pytest.mark.parametrize(
    "bodies",
    [
        [b'{"i":1}{"i":2}', b""],
        [b'{"i":1}{"i":2}', b" "],
        [b'{"n":', b'{"x":1}}', b"{}{}"],
        [b'{"i":1}\0', b"{}{}"],
        [b'{"z":NaN}', b"{}"],
        [b'{"z":-Inf}', b"{}"],
        [b'{"d":-0}', b"{}"],
        [b'{"d":%s}' % (b"1" * 400), b"{}"],
        [b'{"f":3.5e38}', b"{}"],
        [b'{"day":"0000-01-01"}', b"{}"],
        [b'{"t":"0001-01-01T00:00:00+05:00"}', b"{}"],
        [b'{"z":"\xff"}', b"{}"],
        [b"\xef\xbb\xbf{}", b"{}"],
        [b'{"z":%s}' % (b"[" * 2000 + b"]" * 2000), b"{}"],
        [b'{"z":%s}' % (b"1" * 5000), b"{}"],
    ],
)
def test_what_arrow_would_read_in_another_way_is_left_to_the_parser(bodies: list[bytes]) -> None:
    assert json_columns.read(pa.array(bodies, pa.binary()), KIND, json_columns.readable(KIND)) is None


def test_ordinary_bodies_are_read_at_once() -> None:
    bodies = [b'{"i": 1,\n "s": "Info: \\u20ac"}\n', b' {"new": [{}], "t": "2026-01-31T00:00:00Z"}', b'{"n":{"x":2}}']
    column = json_columns.read(pa.array(bodies, pa.binary()), KIND, json_columns.readable(KIND))
    assert column.type == KIND
    assert [row["i"] for row in column.to_pylist()] == [1, None, None]
    assert (column.field("s")[0].as_py(), column.field("n")[2].as_py()) == ("Info: €", {"x": 2, "e": None})


def test_maps_are_read_one_by_one() -> None:
    assert json_columns.readable(read_schema("m array<map<string, int>>")) is None
