from pathlib import Path

import pytest

from flintmq.format import checkpoint, flintmq_mark, timer
from tests.support.looks import look
from tests.support.makers import flip

TIME = 1_700_000_000_000


def test_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(checkpoint.encode(checkpoint.Checkpoint(TIME, TIME + 1, 0, 0, 77)))
    seen = look(path)
    assert [line.name for line in seen.lines] == [*checkpoint.Checkpoint._fields, "rest"]
    assert seen.field("physic_timestamp").text == f"{TIME} (2023-11-14T22:13:20.000Z)"
    assert (seen.field("confirm_physical_offset").value, seen.problems) == (77, [])
    assert look(path, 4000).lines == seen.lines


@pytest.mark.parametrize(("size", "field"), [(4095, "rest"), (49, "rest"), (17, "index_timestamp"), (4097, "excess")])
def test_a_checkpoint_of_another_size(size: int, field: str, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(checkpoint.encode(checkpoint.Checkpoint(TIME, TIME)).ljust(size, b"\0")[:size])
    seen = look(path)
    assert seen.lines[-1].name == field
    assert any(f"the file has {size} bytes where 4096 are due" in (line.problem or "") for line in seen.problems)


def test_numbers_below_zero(tmp_path: Path) -> None:
    path = tmp_path / "timercheck"
    path.write_bytes(timer.encode_check(timer.TimerCheck(TIME, -5)))
    [line] = look(path).problems
    assert (line.name, line.problem) == ("log_flushed_position", "below 0")


def test_a_mark_and_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "flintmq.mark"
    path.write_bytes(flintmq_mark.encode(4711, TIME))
    seen = look(path)
    assert seen.field("checksum").text.endswith(": as computed") and not seen.problems
    assert seen.found["counts"] == "not known: there is no checkpoint beside it"
    (tmp_path / "checkpoint").write_bytes(checkpoint.encode(checkpoint.Checkpoint(TIME)))
    assert look(path).found["counts"].startswith("yes")
    (tmp_path / "checkpoint").write_bytes(checkpoint.encode(checkpoint.Checkpoint(TIME + 1)))
    assert look(path).found["counts"].startswith("no: another program")
    flip(path, 15)
    assert [line.name for line in look(path).problems] == ["checksum"]
    flip(path, 0)
    assert [line.name for line in look(path).problems] == ["magic", "checksum"]
    path.write_bytes(path.read_bytes() + b"x")
    assert look(path).lines[-1].name == "excess"


def test_texts_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "copy.jsonl"
    path.write_bytes(b'{"a":1}\n\n\xff\x1b\nlast')
    seen = look(path)
    assert [(line.name, line.length) for line in seen.lines] == [
        ("line 1", 8),
        ("line 2", 1),
        ("line 3", 3),
        ("line 4", 4),
    ]
    assert seen.lines[2].value == "�\x1b"
    assert [line.name for line in look(path, limit=2).lines] == ["line 1", "line 2", "rest"]
    assert [line.name for line in look(path, 9, limit=1).lines] == ["before", "line 3", "rest"]


def test_abort_and_a_file_of_others(tmp_path: Path) -> None:
    (tmp_path / "abort").write_bytes(b"4242")
    seen = look(tmp_path / "abort")
    assert seen.field("line 1").value == "4242" and "stop was not clean" in seen.found["meaning"]
    (tmp_path / "kvStore").mkdir()
    (tmp_path / "kvStore" / "CURRENT").write_bytes(b"MANIFEST-000013\n")
    [line] = look(tmp_path / "kvStore" / "CURRENT").lines
    assert line.meaning == "a file of RocksDB, which FlintMQ does not read"
