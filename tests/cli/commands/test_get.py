import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from tests.cli.conftest import Run
from tests.compat.stores import Golden


def test_all_fields_for_people(run: Run, basic: Golden, expected: Callable[[str, str], None]) -> None:
    result = run("get", basic.path, "Orders", 1, 10)
    assert (result.code, result.err) == (0, "")
    expected("get-basic.txt", result.out)


def test_json_is_the_row_that_scan_gives(run: Run, basic: Golden) -> None:
    row = next(row for row in basic.live if row["topic"] == "库存" and row["queue_offset"] == 5)
    result = run("get", basic.path, "库存", row["queue_id"], 5, "--json")
    assert [got["physical_offset"] for got in result.rows] == [row["physical_offset"]]
    scanned = run("scan", basic.path, "--topic", "库存", "--queue", row["queue_id"], "--json").out.splitlines()
    assert result.out.strip() == scanned[5]


def test_several_from_an_offset_on(run: Run, basic: Golden) -> None:
    rows = sorted((row["queue_offset"], row["physical_offset"]) for row in basic.live if row["topic"] == "Orders"
                  and row["queue_id"] == 1)  # fmt: skip
    result = run("get", basic.path, "Orders", 1, 180, "--limit", 20, "--json")
    assert [(row["queue_offset"], row["physical_offset"]) for row in result.rows] == rows[180:]
    assert run("get", basic.path, "Orders", 1, 3, "--limit", 2).out.count("\n") == 2
    assert run("get", basic.path, "Orders", 1, 3, "--limit", 0).code == 0
    assert run("get", basic.path, "Orders", 1, 3, "--limit", 2, "--raw").code == 2
    assert run("get", basic.path, "Orders", 1, 185, "--limit", 2).code == 7


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (("Orders", 0, 185), "the queue holds 0 to 184"),
        (("Orders", 0, 2**62), "the queue holds 0 to 184"),
        (("Orders", 99, 0), "there is no such queue"),
        (("Nothing", 0, 0), "there is no such topic"),
        (("../../etc", 0, 0), "there is no such topic"),
        (("\x1b[31m", 0, 0), "there is no such topic"),
    ],
)
def test_no_message_is_exit_code_7(place: tuple[object, ...], reason: str, run: Run, basic: Golden) -> None:
    result = run("get", basic.path, *place)
    assert (result.code, result.out) == (7, "")
    assert reason in result.err and len(result.err.splitlines()) == 1
    assert json.loads(run("get", basic.path, *place, "--json").err)["error"] == "MessageNotFoundError"


def test_raw_writes_the_bodys_bytes_and_nothing_else(golden, capfdbinary: pytest.CaptureFixture[bytes]) -> None:  # type: ignore[no-untyped-def]
    """The body of this record of `flags` is binary; its SHA-1 is Java's."""
    import hashlib

    from flintmq.cli import app

    row = next(row for row in golden("flags").live if row["keys"] == "binary")
    assert (
        app.run(["get", str(golden("flags").path), "Odd", str(row["queue_id"]), str(row["queue_offset"]), "--raw"]) == 0
    )
    out = capfdbinary.readouterr().out
    assert hashlib.sha1(out).hexdigest() == row["body_sha1"]


def test_decompress(run: Run, golden) -> None:  # type: ignore[no-untyped-def]
    row = next(row for row in golden("flags").live if row["keys"] == "compressed ZLIB")
    place = (golden("flags").path, "Odd", row["queue_id"], row["queue_offset"], "--json")
    [stored], [shown] = run("get", *place).rows, run("get", *place, "--decompress").rows
    assert len(base64.b64decode(stored["body"])) == row["body_length"] == 648
    assert base64.b64decode(shown["body"]).startswith(b"opal opal juniper") and shown["size"] == stored["size"]


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo-terminals here")
def test_raw_never_reaches_a_terminal(basic: Golden) -> None:
    master, slave = os.openpty()
    command = [sys.executable, "-m", "flintmq", "get", str(basic.path), "Orders", "0", "0", "--raw"]
    done = subprocess.run(command, stdout=slave, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(slave)
    os.close(master)
    assert done.returncode == 2 and b"--raw writes unescaped bytes, which can control a terminal" in done.stderr


def test_queues_that_were_never_written_are_derived_from_the_log(run: Run, basic: Golden, tmp_path: Path) -> None:
    (tmp_path / "commitlog").symlink_to(basic.path / "commitlog")
    assert run("get", tmp_path, "Orders", 1, 10).out == run("get", basic.path, "Orders", 1, 10).out


def test_several_across_a_lost_unit_and_a_damaged_record(run: Run, tmp_path: Path) -> None:
    """A unit that is lost hides nothing; what cannot be read is said, and the code is 1."""
    root = tmp_path / "store"
    with MessageStore(root, dev=True) as store:
        places = [store.put(Message("T", b"body %d" % number)).physical_offset for number in range(60)]
    with open(next((root / "consumequeue" / "T" / "0").iterdir()), "r+b") as units:
        units.seek(20 * 40)
        units.write(bytes(20))
    log = next((root / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    data[data.index(b"body 50", places[50])] ^= 0xFF
    log.write_bytes(data)

    def offsets(first: int) -> tuple[int, list[int], str]:
        found = run("get", root, "T", 0, first, "--limit", 5, "--json")
        return found.code, [row["queue_offset"] for row in found.rows], found.err

    assert offsets(38) == (0, [38, 39, 40, 41, 42], "")
    code, found, note = offsets(48)
    assert (code, found) == (1, [48, 49, 51, 52, 53]) and f"position {places[50]}" in note
