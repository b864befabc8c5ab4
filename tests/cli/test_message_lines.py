"""A message as a line: JSON against what Java decodes, and text that no terminal obeys."""

import base64
import hashlib
import ipaddress
import json

import pytest

from flintmq.cli.body_option import Bodies
from flintmq.cli.commands.scan import MessageScan, Selection
from flintmq.cli.message_lines import BODY_CHARS, details, json_line, line
from flintmq.cli.values import store_config
from flintmq.format import record
from flintmq.message import COLUMNS, StoredMessage
from flintmq.store.commitlog.predicate import Predicate
from tests.compat.stores import Golden


def same_host(one: str, other: str) -> bool:
    """Java writes IPv6 addresses long."""
    hosts = []
    for host in (one, other):
        address, port = host.rsplit(":", 1)
        hosts.append((ipaddress.ip_address(address.strip("[]")), int(port)))
    return hosts[0] == hosts[1]


def test_every_golden_record_is_what_java_decodes(golden_store: Golden) -> None:
    found = MessageScan(str(golden_store.path), Selection(Predicate()), store_config([]), Bodies(False))
    rows = [json.loads(json_line(message, body)) for message, body in found]
    assert len(rows) == len(golden_store.live) + golden_store.expect.get("beyond", 0)
    for want, got in zip(golden_store.live, rows, strict=False):
        assert tuple(got) == COLUMNS
        body = base64.b64decode(got.pop("body"), validate=True)
        assert (len(body), hashlib.sha1(body).hexdigest()) == (want["body_length"], want["body_sha1"])
        for host in ("born_host", "store_host"):
            assert same_host(want[host], got.pop(host))
        assert got == {name: want[name] for name in got}


def odd_message() -> StoredMessage:
    """A record whose every text holds what a terminal obeys, or what is no UTF-8."""
    raw = record.encode(
        record.Record(
            topic=b"T\x1b[2J\xff",
            body=b"body \x1b]0;x\x07 \xe2\x80\xae \xfe \n end",
            properties=b"TAGS\x01a\x1bb\x02KEYS\x01k\x7f\xc2\x9b\x02UNIQ_KEY\x01u\r\n\x02odd\x1b\x01v\xe2\x80\xae\x02",
            store_timestamp=1 << 62,
        )
    )
    return StoredMessage(raw)


def test_json_holds_exact_values_in_ascii() -> None:
    message = odd_message()
    text = json_line(message, message.body)
    assert text.isascii()
    row = json.loads(text)
    assert row["topic"] == "T\x1b[2J\ufffd"
    assert row["properties"] == {"TAGS": "a\x1bb", "KEYS": "k\x7f\x9b", "UNIQ_KEY": "u\r\n", "odd\x1b": "v\u202e"}
    assert list(row["properties"]) == ["TAGS", "KEYS", "UNIQ_KEY", "odd\x1b"], "in stored order"
    assert (row["tags"], row["keys"], row["msg_id"]) == ("a\x1bb", "k\x7f\x9b", "u\r\n")
    assert base64.b64decode(row["body"]) == message.body
    assert row["store_timestamp"] == 1 << 62


def test_lines_for_people_are_one_line_and_escaped() -> None:
    message = odd_message()
    text = line(message, message.body)
    assert text.isprintable()
    assert text == (
        "4611686018427387904 ms  T\\x1b[2J\ufffd/0/0  @0  162 B  tags=a\\x1bb  keys=k\\x7f\\x9b  "
        "body \\x1b]0;x\\x07 \\u202e \\xfe \\n end"
    )
    for text in details(message, message.body):
        assert text.isprintable()


@pytest.mark.parametrize("body", [b"x" * 1_000_000, b"\xff" * 1_000_000, "库".encode() * 300_000, b"\x1b" * 500])
def test_a_line_shows_the_start_of_a_long_body(body: bytes) -> None:
    shown = line(StoredMessage(record.encode(record.Record(topic=b"T"))), body).split("  ")[-1]
    assert len(shown) == BODY_CHARS and shown.endswith("…")


def test_an_empty_topic_is_named() -> None:
    assert "(no topic)/0/0" in line(StoredMessage(record.encode(record.Record(topic=b""))), b"")


def test_details_show_every_field_once_and_the_whole_body() -> None:
    raw = record.encode(record.Record(topic=b"T", body=b"x" * 500, properties=b"TAGS\x01a\x02p\x01v\x02"))
    lines = list(details(StoredMessage(raw), b"x" * 500))
    names = [text.split()[0] for text in lines]
    absent = {"keys", "msg_id", "properties", "body"}
    assert [name for name in names if name != "property"] == [n for n in COLUMNS if n not in absent] + ["body"]
    assert [text.split("  ")[-1] for text in lines if text.startswith("property")] == ["TAGS = a", "p = v"]
    assert lines[-1].endswith("500 B: " + "x" * 500)
