"""The demo runs to its end, and says so when something is not as it should be."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flintmq.testing import demo


def test_without_spark(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    for _ in range(2):  # the second run empties the first's directory
        assert demo.main(["--out", str(out), "--messages", "2000", "--without-spark"]) == 0
    text = capfd.readouterr().out
    assert "1 defect (record-damaged 1)" in text
    assert "39 files compared with Java's: every byte is equal" in text
    assert "log         1 file of 1.0 GiB" in text


def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(SystemExit, match="not of an earlier demo"):
        demo.main(["--out", str(tmp_path)])
    assert (tmp_path / "mine").read_text() == "x"


def test_a_difference_ends_the_demo(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "consumequeue" / "T" / "0").mkdir(parents=True)
        (tmp_path / name / "index").mkdir()
        (tmp_path / name / "consumequeue" / "T" / "0" / "0").write_bytes(b"same")
        (tmp_path / name / "index" / name).write_bytes(b"same")
    assert demo.compare(tmp_path / "a", tmp_path / "b") == 2
    (tmp_path / "b" / "index" / "b").write_bytes(b"other")
    with pytest.raises(SystemExit, match="not equal: index 0"):
        demo.compare(tmp_path / "a", tmp_path / "b")
    shutil.rmtree(tmp_path / "b" / "consumequeue")
    with pytest.raises(SystemExit, match="not equal: consumequeue/T/0/0, index 0"):
        demo.compare(tmp_path / "a", tmp_path / "b")


@pytest.mark.slow
@pytest.mark.spark
def test_with_spark(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert demo.main(["--out", str(out), "--messages", "5000"]) == 0
    text = capfd.readouterr().out
    assert "exported 5,000 messages" in text
    assert "exported 0 messages in 0 files" in text
    assert "read back: 5,000 messages" in text
    assert (out / "messages.svg").read_text(encoding="utf-8").startswith("<svg")
