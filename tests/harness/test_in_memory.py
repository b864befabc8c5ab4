"""Folders of tests are in memory where several workers share the tests, and there is room."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness import in_memory, turns


@pytest.mark.parametrize(
    ("turn", "config", "least", "moved"),
    [
        ("7", {"workerinput": {}}, 0, True),
        ("all", {"workerinput": {}}, 0, False),
        ("7", {}, 0, False),
        ("7", {"workerinput": {}}, 1 << 60, False),
    ],
)
@pytest.mark.parametrize("failed", [0, 1])
def test_where_folders_are(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    turn: str,
    config: dict[str, Any],
    least: int,
    moved: bool,
    failed: int,
) -> None:
    monkeypatch.setenv(turns.VARIABLE, turn)
    monkeypatch.setattr(in_memory, "LEAST_FREE", least)
    monkeypatch.setattr(in_memory, "MEMORY", tmp_path)
    request = SimpleNamespace(config=SimpleNamespace(**config), session=SimpleNamespace(testsfailed=failed))
    made = in_memory.tmp_path_factory.__wrapped__(tmp_path_factory, request)
    folder = next(made).mktemp(tmp_path.name)
    (folder / "file").write_text("x")
    (folder / "link").symlink_to("nowhere")
    with open(folder / "large", "wb") as file, open(folder / "holes", "wb") as other:
        file.write(b"x" * 200_000)
        other.truncate(1 << 40)
    monkeypatch.setattr(in_memory, "MOST_KEPT", 100_000)
    assert folder.is_relative_to(tmp_path) == moved
    assert list(made) == [] and list(tmp_path.iterdir()) == []
    if moved:
        kept = tmp_path_factory.getbasetemp() / folder.parent.name / folder.name / "file"
        assert kept.exists() == (failed == 1) and not folder.exists()
    if moved and failed:
        assert {path.name for path in kept.parent.iterdir()} == {"file", "link", "holes"}
        assert (kept.parent / "holes").stat().st_blocks == 0
        assert (kept.parent.parent / "left-out.txt").read_text().endswith(f"bytes: {kept.parent.name}/large\n")


def test_no_room_where_there_is_no_such_file_system(tmp_path: Path) -> None:
    assert not in_memory.has_room(tmp_path / "nothing")
