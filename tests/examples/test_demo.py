"""The demo runs to its end, and says so when something is not as it should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.demo import __main__


def test_without_spark(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    for _ in range(2):  # the second run empties the first's directory
        assert __main__.main(["--out", str(out), "--without-spark"]) == 0
    text = capfd.readouterr().out
    assert "1 defect (record-damaged 1)" in text
    assert "39 files compared with Java's: every byte is equal" in text


def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(SystemExit, match="not of an earlier demo"):
        __main__.main(["--out", str(tmp_path)])
    assert (tmp_path / "mine").read_text() == "x"


def test_a_command_that_fails_ends_the_demo(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="flintmq inspect ended with exit code 2, not 0"):
        __main__.flintmq("inspect", tmp_path)


def test_what_dies_by_itself_ends_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("deltalake", reason="deltalake is not installed")
    story = __main__.Story(tmp_path, 100, 1000)
    story.store.write_text("no directory")
    story.start_writer(100)
    try:
        with pytest.raises(SystemExit, match="the engine ended with exit code 1; see .*engine.log"):
            story.wait("kill")
    finally:
        story.clear()


@pytest.mark.slow
@pytest.mark.spark
def test_the_whole_story(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("deltalake", reason="deltalake is not installed")
    out = tmp_path / "out"
    assert __main__.main(["--out", str(out), "--orders", "5000", "--rate", "500"]) == 0
    text = capfd.readouterr().out
    assert "killed with " in text
    assert text.count("none missing, none twice") == 2
    assert "files compared with the engine's: every byte is equal" in text
    assert (out / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (out / "stream.svg").read_text(encoding="utf-8").startswith("<svg")
