"""The note of a follower: whole or not there, and never an error."""

from pathlib import Path

import pytest

from flintmq.storage.files.filesystem import REAL
from flintmq.store.layout import following
from flintmq.store.layout.following import FILE_NAME, Following

NOTE = Following(1_700_000_000_000, True, False, 1_699_999_999_000, 0, 4096)


def test_a_note_is_replaced_as_a_whole(tmp_path: Path):
    assert following.read(str(tmp_path), REAL) is None
    (tmp_path / f"{FILE_NAME}.flintmq-new").write_bytes(b"of a follower that was killed")
    for note in (NOTE, NOTE._replace(connected=False, master_end=-1)):
        following.write(str(tmp_path), note, REAL)
        assert following.read(str(tmp_path), REAL) == note
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"[" * 4000,
        b" " * 5000,
        b'{"version":2,"at_ms":1,"connected":true,"caught_up":true,"heard_ms":0,"complete_ms":0,"master_end":-1}',
        b'{"version":1,"at_ms":1,"connected":1,"caught_up":true,"heard_ms":0,"complete_ms":0,"master_end":-1}',
        b'{"version":1,"at_ms":1.5,"connected":true,"caught_up":true,"heard_ms":0,"complete_ms":0,"master_end":-1}',
        b'{"version":1,"at_ms":1,"connected":true,"caught_up":true,"heard_ms":1e999,"complete_ms":0,"master_end":-1}',
        b'{"version":1,"at_ms":1,"connected":true,"caught_up":true,"heard_ms":0,"complete_ms":0,"master_end":-2}',
        b'{"version":1,"at_ms":9223372036854775808,"connected":true,"caught_up":true,"heard_ms":0,"complete_ms":0,'
        b'"master_end":0}',
        b'{"version":1,"at_ms":1}',
    ],
)
def test_a_note_that_cannot_be_understood_is_none(tmp_path: Path, data: bytes):
    (tmp_path / FILE_NAME).write_bytes(data)
    assert following.read(str(tmp_path), REAL) is None


def test_a_directory_of_that_name_is_none(tmp_path: Path):
    (tmp_path / FILE_NAME).mkdir()
    assert following.read(str(tmp_path), REAL) is None


def test_a_note_is_fresh_for_a_while_by_clocks_that_differ_a_little():
    assert all(NOTE.is_fresh(NOTE.at_ms + ms) for ms in (-2000, 0, 15_000))
    assert not NOTE.is_fresh(NOTE.at_ms + 15_001) and not NOTE.is_fresh(NOTE.at_ms - 60_000)
