"""What keys of configuration files mean."""

import re
from pathlib import Path

import pytest

from flintmq.format import config_names
from flintmq.format.config_names import FILES, KEYS, meaning

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "internals" / "format" / "config.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (["dataVersion"], "dataVersion"),
        (["dataVersion", "counter"], "dataVersion.counter"),
        (["topicConfigTable", "a.b", "perm"], "topicConfigTable.*.perm"),
        (["topicConfigTable", "T", "attributes", "queue.type"], "topicConfigTable.*.attributes.queue.type"),
        (["offsetTable", "t@g", 3], "offsetTable.*.*"),
        (["offsetTable", 3], "offsetTable.*"),
    ],
)
def test_paths(path: list[str | int], key: str) -> None:
    assert meaning(path) == KEYS[key]


@pytest.mark.parametrize(
    "path", [[], ["x"], ["dataVersion", "x"], ["topicConfigTable", "T", "x"], ["offsetTable", 1, 2, 3]]
)
def test_unknown_paths_mean_nothing(path: list[str | int]) -> None:
    assert meaning(path) == ""


def test_the_page_has_them() -> None:
    for name, text in (FILES | KEYS).items():
        assert f"| `{name}` | {text} |" in PAGE


def test_the_files_are_those_of_the_page_and_of_the_broker(golden) -> None:  # type: ignore[no-untyped-def]
    written = {path.name.removesuffix(".bak") for path in (golden("config").path / "config").iterdir()} - {"timercheck"}
    assert written and written <= set(FILES)
    assert re.search(r"`config/timercheck` is binary", PAGE)


@pytest.mark.parametrize("path", [["Xtable"], ["topicConfigTable", "T", "attributes", "queue.typeX"], ["x"] * 64])
def test_names_that_only_look_known(path: list[str | int]) -> None:
    """Nor does a path as deep as a file may have it take longer than its steps."""
    assert meaning(path) == ""


@pytest.mark.parametrize(
    ("path", "text"),
    [(["a", "b"], "itself"), (["a", "c"], "any"), (["a"], ""), (["d", "e", "f"], "deep"), (["d", "e"], "")],
)
def test_a_name_itself_goes_before_any_name(path: list[str | int], text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a key is found whose parents mean nothing."""
    monkeypatch.setattr(config_names, "KEYS", {"a.*": "any", "a.b": "itself", "d.e.f": "deep"})
    assert meaning(path) == text
