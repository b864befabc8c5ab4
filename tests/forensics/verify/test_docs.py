"""The tables of docs/operations/verify.md are those of the codes."""

from pathlib import Path

import pytest

from flintmq.forensics.verify.codes import DEFECTS, NOTES
from tools.docs import verify as docs

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / docs.PAGE).read_text(encoding="utf-8")


def test_the_page_is_current() -> None:
    assert docs.filled(TEXT) == TEXT, "run: python -m tools.docs.verify --write"


def test_the_page_has_a_row_for_each_code() -> None:
    rows = TEXT.splitlines()
    for code, (meaning, _, advice, _) in DEFECTS.items():
        assert f"| `{code}` | {meaning} | {advice} |" in rows
    for code, meaning in NOTES.items():
        assert f"| `{code}` | {meaning} |" in rows


def test_check_and_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / docs.PAGE
    page.parent.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    page.write_text(TEXT)
    assert docs.main(["--check"]) == 0
    page.write_text(TEXT.replace("| note | meaning |\n", "| note | meaning |\n| `gone` | A line too many. |\n"))
    assert docs.main(["--check"]) == 1 and "--write" in capsys.readouterr().err
    assert docs.main(["--write"]) == 0 and page.read_text() == TEXT
    assert docs.main([]) == 2
    page.write_text("# Verify\n")
    with pytest.raises(ValueError, match="has no table"):
        docs.main(["--write"])
