"""Property strings, read exactly as Java reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.format.properties import encode, java_order, parse, parse_bytes
from flintmq.format.record import decode
from tests.compat.stores import Golden
from tests.support.golden_logs import records


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", {}),
        ("A=1;", {"A": "1"}),
        ("A=;B=1;", {"B": "1"}),
        ("=v;", {}),
        ("A=1", {"A": "1"}),
        ("A=b=c;", {"A": "b=c"}),
        ("AB;C=d;", {"C": "d"}),
        ("ABC", {}),
        ("A=1;A=2;", {"A": "2"}),
        ("A=1;B=2;A=3", {"A": "3", "B": "2"}),
        (";;;=;==;===;", {}),
        ("A==;", {"A": "="}),
        ("==v;", {}),
        ("é=ü;", {"é": "ü"}),
    ],
)
def test_parse(text: str, pairs: dict[str, str]) -> None:
    """`=` stands for 01 and `;` for 02."""
    pairs = {name.replace("=", "\x01"): value.replace("=", "\x01") for name, value in pairs.items()}
    stored = text.replace("=", "\x01").replace(";", "\x02")
    assert parse(stored) == pairs
    assert list(parse(stored)) == list(pairs)


def java_parse(text: str) -> dict[str, str]:
    """MessageDecoder.string2messageProperties, step by step, with its unbounded search for the name's end."""
    pairs, i = {}, 0
    while i < len(text):
        j = text.find("\x02", i)
        j = len(text) if j == -1 else j
        if j - i >= 3:
            k = text.find("\x01", i)
            if i < k < j - 1:
                pairs[text[i:k]] = text[k + 1 : j]
        i = j + 1
    return pairs


@given(st.text(alphabet="\x01\x02ab", max_size=30))
def test_parse_is_javas(text: str) -> None:
    assert parse(text) == java_parse(text)


def test_golden_properties(golden_store: Golden) -> None:
    odd = 0
    for row, data, at in records(golden_store):
        stored = decode(data, at).properties
        assert parse_bytes(stored) == row["properties"]
        odd += encode(row["properties"]) != stored
    if golden_store.name == "flags":
        assert odd > 5, "the store of odd property strings"


def test_encode() -> None:
    assert encode({"A": "1", "é": "", "N": None, "B": "2"}) == b"A\x011\x02\xc3\xa9\x01\x02B\x012\x02"
    assert encode({}) == b""


@given(st.dictionaries(st.text("abcé😀 ", min_size=1), st.text("xyz\x01ü", min_size=1)))
def test_round_trip(pairs: dict[str, str]) -> None:
    assert parse_bytes(encode(pairs)) == pairs


def test_time_is_linear() -> None:
    """Half a million parts without a name's end: the search for one stays within its part."""
    assert parse("abcd\x02" * 500_000 + "A\x01b") == {"A": "b"}


def test_the_order_of_javas_hash_map():
    """As a broker's stores have it (golden delay): bucket (h ^ h >>> 16) & 127; one bucket keeps its order."""
    names = ["REAL_TOPIC", "REAL_QID", "TRACE_ON", "WAIT", "KEYS", "TAGS", "DELAY", "UNIQ_KEY", "CLUSTER", "MSG_REGION"]
    ordered = java_order(dict.fromkeys(names, "v"))
    assert [*ordered] == ["MSG_REGION", "UNIQ_KEY", "CLUSTER", "DELAY", "TAGS", "KEYS", "WAIT", "TRACE_ON",
                          "REAL_TOPIC", "REAL_QID"]  # fmt: skip
    assert [*java_order({"BB": "1", "Aa": "2"})] == ["BB", "Aa"], "equal hashes"


@pytest.mark.parametrize(
    ("count", "order"),
    [(3, "ABC"), (80, "ABC"), (96, "ABC"), (97, "BCA"), (192, "BCA"), (193, "CBA"), (384, "CBA")],
)
def test_javas_hash_map_doubles_beyond_three_quarters(count: int, order: str) -> None:
    """A name of one character has its number as its hash: of 128 buckets these have 1, 2 and 3, of 256 129, 2 and 3,
    of 512 385, 258 and 3."""
    names = {"\u0003": "C", "\u0181": "A", "\u0102": "B"}
    pairs = names | {chr(0x4000 + number): "" for number in range(count - 3)}
    assert "".join(java_order(pairs).values()) == order
