"""Lines of JSON: what Python would write, value by value."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from flintmq.cli.message_lines import json_line
from flintmq.kernels.read import gather
from flintmq.kernels.read import json_line as kernel
from flintmq.message import COLUMNS, StoredMessage, stored_message
from tests.support.guarded_memory import guarded
from tests.support.kernel_records import HOST4, ODD, PAIRS, records

# Characters that JSON escapes, or ASCII has not, where a kernel may take them for others.
SPECIAL = [chr(code) for code in range(128)] + ["\x80", "é", "\u2028", "\ud7ff", "\ufeff", "\uffff", "😀", "\U0010ffff"]


def expected(message: StoredMessage, body: bytes) -> str:
    """The line by Python's own encoder."""
    row = message.as_row() | {"body": base64.b64encode(body).decode()}
    return json.dumps(row, separators=(",", ":"))


@pytest.mark.parametrize("change", ODD)
def test_a_line_is_what_python_writes(change: dict[str, Any]) -> None:
    data, [at] = records(change)
    message = stored_message(data, at)
    for body in (message.body, b"", b"x", b"xy", bytes(range(256))):
        assert json_line(message, body) == expected(message, body)


@pytest.mark.parametrize("text", SPECIAL)
def test_each_character_is_escaped_as_python_does(text: str) -> None:
    name = text.encode() if text not in "\x01\x02" else b"n"
    pairs = b"".join(key + b"\x01v" + name + b"w\x02" for key in (b"TAGS", b"KEYS", b"UNIQ_KEY", b"a" + name + b"b"))
    for change in ({"topic": b"T" + name}, {"properties": pairs}, {"topic": name, "properties": pairs}):
        data, [at] = records(change)
        message = stored_message(data, at)
        assert json_line(message, b"") == expected(message, b"")


@pytest.mark.parametrize("value", [0, 9, 10, 99, 100, 2**31 - 1, -1, -10, -(2**31)])
def test_numbers_of_every_width(value: int) -> None:
    wide = value << 32
    change = {"flag": value, "reconsume_times": value, "queue_id": value, "queue_offset": wide, "born_timestamp": wide}
    data, [at] = records(change, base=2**62)
    message = stored_message(data, at)
    assert json_line(message, b"") == expected(message, b"")


def test_python_is_asked_only_for_what_the_kernel_leaves() -> None:
    asked: list[int] = []

    def ask(message: object, column: int) -> str:
        assert message is None
        asked.append(column)
        return f"<{column}>"

    kinds = [gather.TAGS, kernel.ASK, gather.TOPIC, gather.PROPERTIES, gather.BODY, gather.BORN_HOST]
    plan = bytes(number for kind in (*kinds, gather.OFFSET_MSG_ID) for number in (1, kind, 0))
    usual, odd_text, odd_host, lost = (
        records(change)[0]
        for change in (
            {},
            {"topic": b'"', "properties": PAIRS + b"K\x01\xff\x02"},
            {"born_host": HOST4 * 2 + HOST4[:4]},
            {},
        )
    )
    lines = [kernel.line(guarded(data), b"B", b",1,2,3}", plan, ask, None) for data in (usual, odd_text, odd_host)]
    assert asked == [1, 0, 1, 2, 3, 1, 5]
    assert lines[1].startswith(",<0>1<1>,<2>2<3>,") and lines[0].startswith(',"a"1<1>,"Topic"2{"TAGS":"a",')
    assert lines[2].split('"B"')[1].startswith("3<5>")
    asked.clear()
    for data in (lost[:-1], lost[:90], b"", b"x"):  # none of them is a record
        line = kernel.line(guarded(data), b"B", b",1,2,3}", plan, ask, None)
        assert line == ',<0>1<1>,<2>2<3>,"B"3<5>}<6>'
    assert asked == [0, 1, 2, 3, 5, 6] * 4


def test_a_new_column_is_written_by_python() -> None:
    """Which asks the kernel for none that it does not know."""
    data, [at] = records({})
    message = stored_message(data, at)
    assert list(json.loads(json_line(message, b""))) == list(COLUMNS)


def test_wrong_plans_are_refused() -> None:
    data, _ = records({})
    with pytest.raises(ValueError, match="shorter than the plan"):
        kernel.line(data, b"", b"12", bytes([3, gather.TOPIC, 0]), lambda *_: "", None)
    with pytest.raises(ValueError, match="outside the header"):
        kernel.line(data, b"", b"12", bytes([1, gather.INT64, 81]), lambda *_: "", None)
