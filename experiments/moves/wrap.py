"""Break lines that new names made too long."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from collections import defaultdict
from pathlib import Path

from source import Source, Stop


class Tree:
    """A checkout."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, path: str) -> str:
        """A file's text."""
        return (self.root / path).read_text(encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        """Replace a file's text."""
        (self.root / path).write_text(text, encoding="utf-8")


def wrap(tree: Tree, ruff: str) -> None:
    """Break lines of prose that new names made too long.

    Raises:
        Stop: a line of code is too long.
    """
    for _ in range(20):
        words = [ruff, "check", "--quiet", "--select", "E501", "--output-format", "json"]
        words += ["--extend-exclude", "experiments/moves", "."]
        told = json.loads(subprocess.run(words, cwd=tree.root, capture_output=True, text=True).stdout or "[]")
        if not told:
            return
        places: dict[str, set[int]] = defaultdict(set)
        for one in told:
            places[os.path.relpath(one["filename"], tree.root)].add(one["location"]["row"])
        code = []
        for path, rows in places.items():
            source = Source(path, tree.read(path))
            prose = _prose(source)
            lines = source.text.splitlines()
            for row in sorted(rows, reverse=True):
                if row in prose:
                    _wrap(lines, row - 1, prose[row])
                elif not _wrap_code(lines, row - 1):
                    code.append(f"{path}:{row}: {lines[row - 1].strip()}")
            tree.write(path, "\n".join(lines) + "\n")
        if code:
            raise Stop("lines of code are too long now; give them EDITS:\n" + "\n".join(code))
    raise Stop("lines stay too long")


def _wrap_code(lines: list[str], at: int) -> bool:
    """Break a line that is one string, a pair of strings, or items of a list; False for any other."""
    line = lines[at]
    indent = line[: len(line) - len(line.lstrip())]
    pair = re.fullmatch(r'(\s+"[^"]*":) ("[^"]*",)', line)
    text = re.fullmatch(r'\s+(f?)"([^"]*)"(,?)', line)
    if pair:
        lines[at : at + 1] = [pair[1], f"{indent}    {pair[2]}"]
        return True
    if text:
        cut = line.rfind(" ", 0, 119) + 1
        lines[at : at + 1] = [line[:cut] + '"', f'{indent}{text[1]}"{line[cut:]}']
        return True
    depth, quoted, cuts = 0, False, []
    for place, letter in enumerate(line):
        quoted = quoted != (letter == '"')
        depth += 0 if quoted else (letter in "([{") - (letter in ")]}")
        if depth == 0 and not quoted and letter == "," and line[place + 1 : place + 2] == " " and place < 120:
            cuts.append(place + 1)
    if not cuts or not line.endswith(","):
        return False
    lines[at : at + 1] = [line[: cuts[-1]], indent + line[cuts[-1] + 1 :]]
    return True


def _prose(source: Source) -> dict[int, int]:
    """Lines of docstrings and comments of their own -> the last line of their text."""
    found: dict[int, int] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for row in range(node.lineno, (node.end_lineno or 0) + 1):
                found[row] = node.end_lineno or 0
    for number, line in enumerate(source.text.splitlines(), 1):
        if line.lstrip().startswith("# "):
            found[number] = 0
    return found


def _wrap(lines: list[str], at: int, last: int) -> None:
    """Break line `at`; what is over goes to the line behind it, if that goes on with the same text."""
    line = lines[at]
    indent = line[: len(line) - len(line.lstrip())]
    if re.match(r"\s+python -m ", line) and re.search(r"\S {2,}\S", line):
        close = re.sub(r"(\S) {2,}(\S)", r"\1  \2", line)
        if len(close) <= 120:
            lines[at] = close
            return
    comment = line.lstrip().startswith("# ")
    start = indent + ("# " if comment else "")
    cut = line.rfind(" ", len(start), 121)
    rest, lines[at] = line[cut + 1 :], line[:cut]
    following = lines[at + 1] if at + 1 < len(lines) else ""
    same = following.startswith(start) and not following[len(start) :].startswith((" ", "#"))
    goes_on = same and (comment or at + 1 < last) and following.strip() not in ("", '"""', "#")
    listed = re.match(r"(\*|-|\d+\.|\w[\w, *]*:|[a-z_]+ {2,}|Args:|Raises:|python )", following.strip().lstrip("# "))
    if goes_on and not listed:
        lines[at + 1] = start + rest + " " + following[len(start) :]
    else:  # what goes on with an item of a list is indented once more
        item = indent and re.match(r"\s+[a-z_*][\w*, ]*: ", line) and following.startswith((indent, " " * 4))
        lines.insert(at + 1, start + ("    " if item and not comment else "") + rest)
