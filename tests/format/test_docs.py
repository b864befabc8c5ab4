"""The pages of docs/internals/format: tables as generated, links that lead somewhere, claims that the code holds."""

import locale
import re
from pathlib import Path

import pytest

from flintmq.format.record import Record
from tests.format.test_record import PROTECTED
from tools.docs import format as docs

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "internals" / "format"
PAGES = sorted(FOLDER.glob("*.md"))


def test_tables_are_as_generated(capsys: pytest.CaptureFixture[str]) -> None:
    assert docs.main(["--check", str(FOLDER)]) == 0, capsys.readouterr().out


def test_an_old_table_is_found_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for page in PAGES:
        (tmp_path / page.name).write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    page = tmp_path / "consume-queue.md"
    right = page.read_text(encoding="utf-8")
    page.write_text(right.replace("| 12 | 8 | i64 |", "| 13 | 8 | i64 |"), encoding="utf-8")
    assert docs.main(["--check", str(tmp_path)]) == 1
    assert "consume-queue.md: old; run with --write" in capsys.readouterr().out
    assert docs.main(["--write", str(tmp_path)]) == 0
    assert page.read_text(encoding="utf-8") == right
    page.write_text("nothing here", encoding="utf-8")
    assert docs.main(["--check", str(tmp_path)]) == 1
    assert "no page holds the table of Consume queue unit" in capsys.readouterr().out


def test_tables_of_bits_and_names() -> None:
    """A few rows, written down apart from the declarations."""
    assert "| 2-3 | 0xC | transaction: 0 none, 0x4 prepared, 0x8 committed, 0xC rolled back |" in docs.bits_table(
        "Record sys_flag"
    )
    assert "| `TAGS` | gives the tags code of the queue unit |" in docs.names_table("properties")
    page = "<!-- names: properties -->\nold\n<!-- end -->\n<!-- bits: Timer log unit magic -->\n<!-- end -->\n"
    assert "old" not in docs.filled(page) and "| 1 | 0x2 | placed earlier" in docs.filled(page)
    with pytest.raises(KeyError):
        docs.filled("<!-- names: nothing -->\n<!-- end -->")


def test_offsets_of_the_record_table() -> None:
    """A few rows, written down apart from the declaration."""
    rows = {row.field: (row.offset, row.size, row.type) for row in docs.rows(docs.record.RECORD)}
    assert rows["size"] == ("0", "4", "i32")
    assert rows["sys_flag"] == ("36", "4", "i32")
    assert rows["born_host"] == ("48", "B = 8 or 20", "bytes")
    assert rows["store_timestamp"] == ("48+B", "8", "i64")
    assert rows["body_length"] == ("68+B+S", "4", "i32")
    assert rows["topic_length"] == ("72+B+S+n", "v = 1 or 2", "u8 or i16")
    assert rows["properties"] == ("74+B+S+n+v+t", "p", "bytes")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (page.parent / target).is_file(), f"{page.name} links to {target}"
    for code in re.findall(r"`(?:format|kernels|store)/[\w/]+\.py`", text):
        assert (FOLDER.parents[2] / "src" / "flintmq" / code.strip("`")).is_file(), f"{page.name} names {code}"


def test_the_overview_lists_every_page() -> None:
    overview = (FOLDER / "README.md").read_text(encoding="utf-8")
    for page in PAGES:
        assert page.name == "README.md" or f"]({page.name})" in overview, page.name


def test_the_unprotected_fields_are_those_of_the_page() -> None:
    """test_record.py shows that exactly the fields outside PROTECTED have flips that go unseen."""
    page = (FOLDER / "unprotected.md").read_text(encoding="utf-8")
    section = page.split("## Log records")[1].split("## Blanks")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [f for f in Record._fields if f not in PROTECTED]


def test_bits_are_asked_of_a_field_that_has_them() -> None:
    with pytest.raises(AssertionError, match="Record queue_id"):
        docs.bits_table("Record queue_id")


def test_what_the_command_takes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit, match="0"):
        docs.main(["--help"])
    said = capsys.readouterr().out
    assert said.startswith(
        "usage: python -m tools.docs.format [-h] (--check | --write) [folder]\n\nByte tables of "
        "docs/internals/format.\n\n"
    )
    assert re.search(r"^  --check +say which pages are old; change nothing$", said, re.MULTILINE)
    assert re.search(r"^  --write +write the tables of all pages$", said, re.MULTILINE)
    for words in ([str(FOLDER)], ["--check", "--write"]):
        with pytest.raises(SystemExit, match="2"):
            docs.main(words)


def test_the_pages_of_the_current_folder_whatever_its_encoding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are UTF-8, read and written as that where the user's language has no such character."""
    page = tmp_path / "docs" / "internals" / "format" / "one.md"
    page.parent.mkdir(parents=True)
    page.write_bytes("é <!-- layout: Index slot -->\n<!-- end -->\n".encode())
    monkeypatch.chdir(tmp_path)
    before = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C")
    try:
        assert docs.main(["--write"]) == 1
    finally:
        locale.setlocale(locale.LC_CTYPE, before)
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == [
        "docs/internals/format/one.md: written",
        "docs/internals/format: no page holds the table of Batch consume queue unit; add its markers to one",
    ]
    assert len(said) == len(docs.LAYOUTS)
    assert page.read_bytes().startswith("é <!-- layout: Index slot -->\n4 bytes.\n".encode())
