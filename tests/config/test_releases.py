import importlib
import re
import tomllib
from pathlib import Path

import pytest

from flintmq.config.releases import is_older

ROOT = Path(__file__).resolve().parents[2]


def test_releases():
    older = ("1.9.3", "v1.4.4", "0.20.31")
    others = ("1.10.0", "1.10rc1", "2.0.0-beta.1", "main")  # what is no number is not refused
    assert all(is_older(text, (1, 10)) for text in older) and not any(is_older(text, (1, 10)) for text in others)


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("polars", "flintmq.frames.polars"),
        ("obstore", "flintmq.objects.opening"),
        ("deltalake", "flintmq.lake.table.delta"),
    ],
)
def test_what_the_code_refuses_is_what_the_package_asks_for(name: str, module: str) -> None:
    """The least release stands in pyproject.toml too, for pip."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = {text for texts in extras.values() for text in texts if re.match(rf"{name}\b", text)}
    oldest = importlib.import_module(module).OLDEST
    assert asked == {f"{name}>={oldest[0]}.{oldest[1]}"}
