"""`flintmq explain`: what is printed. What is found is tested in tests/forensics/explain."""

import re
from pathlib import Path

import pytest

from flintmq.forensics.explain.file_kinds import KINDS, by_path
from flintmq.format.record import RECORD
from tests.cli.conftest import Run
from tests.compat.stores import Golden
from tests.support.makers import flip
from tools.docs.format import rows as layout_rows

LOG = "00000000000000000000"


def files(store: Path) -> list[Path]:
    return sorted(path for path in store.rglob("*") if path.is_file())


def covered(rows: list[dict[str, object]]) -> int:
    """The sum of the ranges; each begins where the one before ends."""
    position = 0
    for row in rows:
        assert row["offset"] == position
        position += int(str(row["length"]))
    return position


def test_every_byte_of_golden_stores_in_json(run: Run, golden) -> None:  # type: ignore[no-untyped-def]
    """The ranges are tested over all stores in tests/forensics/explain; here those of the command, every kind once."""
    kinds = set()
    for name in ("timer", "cqext", "batch"):
        store: Golden = golden(name)
        for path in files(store.path):
            place = by_path(str(path))
            if place is None or place.kind in kinds:
                continue
            kinds.add(place.kind)
            result = run("explain", path, "--json", *store.sets)
            assert (result.code, result.err) == (0, "")
            assert covered(result.rows) == path.stat().st_size, path
    assert len(kinds) == 11


def test_rubbish_in_json(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "rubbish"
    path.write_bytes(b"\x1b[31m\xff\xfe\xe2\x80\xae" * 100)
    for kind in KINDS:
        result = run("explain", path, "--as", kind, "--json")
        assert result.code in (0, 1) and covered(result.rows) == 1000
        run("explain", path, "--as", kind, "--at", 3)  # `run` looks for what a terminal would obey


def test_a_place_in_the_log(run: Run, golden) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic")
    row = next(row for row in store.live if row["physical_offset"] + row["size"] > 12345)
    result = run("explain", store.path / "commitlog" / LOG, "--at", "0x3039")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == f"file      {store.path}/commitlog/{LOG}"
    assert re.search(
        rf"^{row['physical_offset']:>6}      4  {row['size']:08x}            size ", result.out, re.MULTILINE
    )
    assert re.search(r"  property UNIQ_KEY  +" + row["msg_id"], result.out)
    assert len(lines) < 50


def test_meanings_are_those_of_the_tables(run: Run, golden) -> None:  # type: ignore[no-untyped-def]
    rows = run("explain", golden("basic").path / "commitlog" / LOG, "--at", 0, "--json").rows
    told = {row["name"]: row["meaning"] for row in rows if row["unit"] == "record at 0"}
    for field in layout_rows(RECORD):
        if field.field != "properties":
            assert told[field.field] == field.meaning


def test_damage_is_marked_and_ends_with_1(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = golden("basic").copy(tmp_path) / "commitlog" / LOG
    flip(path, 457 + 100)
    result = run("explain", path, "--at", 500)
    assert result.code == 1
    assert re.search(r"^ +wrong: body CRC \d+, computed \d+; records go on at position 603$", result.out, re.MULTILINE)
    assert re.search(r"^wrong     position 465: body CRC ", result.out, re.MULTILINE)
    assert run("explain", path, "--json").code == 1
    [bad] = [row for row in run("explain", path, "--json").rows if row["problem"]]
    assert (bad["offset"], bad["length"]) == (457, 146)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ((".",), 2, "is a directory; name one file in it"),
        (("nothing",), 5, "there is no such file; check the path"),
        (("empty",), 2, "is empty; say what it is with --as KIND (commitlog, "),
        (("odd",), 2, "has no known path or content; say what it is with --as KIND"),
        (("odd", "--as", "queue"), 2, "'queue' is not a kind of file; there are commitlog, "),
        (("odd", "--as", "text", "--at", "9"), 2, "--at 9 is outside the file; its positions are 0 to 2"),
        (("odd", "--at", "-1"), 2, "'-1' is not a position; write a number of bytes"),
        (("odd", "--at", "x"), 2, "'x' is not a position; write a number of bytes"),
        (("odd", "--limit", "-1"), 2, "--limit: '-1' is less than 0"),
        ((), 2, "see 'flintmq explain --help'"),
    ],
)
def test_errors_are_one_line(
    words: tuple[str, ...], code: int, text: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").touch()
    Path("odd").write_bytes(b"\x01\x02\x03")
    result = run("explain", *words)
    assert (result.code, result.out) == (code, "") and text in result.err, result.err
    assert result.err.count("\n") == 1


def test_the_help_names_every_kind(run: Run) -> None:
    text = " ".join(run("explain", "--help").out.split())
    assert f"Kinds for --as: {', '.join(KINDS)}." in text
