"""Bodies as stored or decompressed."""

import zlib

import pytest

from flintmq.cli.body_option import Bodies
from flintmq.cli.output import Console
from flintmq.format import record
from flintmq.message import StoredMessage


def message(body: bytes, sys_flag: int, offset: int = 0) -> StoredMessage:
    return StoredMessage(record.encode(record.Record(topic=b"T", body=body, sys_flag=sys_flag, physical_offset=offset)))


def test_bodies_are_as_stored_unless_asked() -> None:
    packed = zlib.compress(b"text")
    assert Bodies(False).of(message(packed, 1)) == packed
    assert Bodies(True).of(message(packed, 1)) == b"text"
    assert Bodies(True).of(message(b"plain", 0)) == b"plain"


def test_bodies_that_cannot_be_decompressed_are_shown_as_stored_counted_and_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bodies = Bodies(True)
    assert bodies.of(message(b"no zlib", 1, offset=4711)) == b"no zlib"
    assert bodies.of(message(b"unknown kind", 0x701)) == b"unknown kind"
    assert bodies.report_failures(Console()) == 1
    assert capsys.readouterr().err.startswith(
        "flintmq: 2 bodies could not be decompressed and are shown as stored; offset 4711: the body is no ZLIB stream"
    )


def test_nothing_is_told_when_all_went_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert Bodies(True).report_failures(Console()) == 0
    assert capsys.readouterr().err == ""
