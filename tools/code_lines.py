"""Counts lines of code, docstrings and comments of each room, of tests and labs, by the syntax tree.

`python tools/code_lines.py [COMMIT]`: of the working tree, with COMMIT also by how much the code grew since. A line is
code if a token stands on it that is neither a comment, a docstring nor part of an import.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}
BESIDE = ("tests", "labs")
COMMENT, DOCSTRING, IMPORT = "comments", "docstrings", "imports"


def count(text: str) -> Counter[str]:
    """Return how many lines of a Python source are code, docstrings, comments of their own, and imports."""
    kinds: dict[int, str] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            kinds |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), IMPORT)
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str):
                kinds |= dict.fromkeys(range(first.lineno, (first.end_lineno or first.lineno) + 1), DOCSTRING)
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            kinds.setdefault(token.start[0], COMMENT)
        elif token.type not in LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    lines = {line: "code" for line in code if kinds.get(line, COMMENT) == COMMENT}
    return Counter((kinds | lines).values())


def room(path: str) -> str:
    """Return the room that a path below src/, tests/ or labs/ belongs to."""
    parts = path.split("/")
    return parts[0] if parts[0] in BESIDE else parts[2] if len(parts) > 3 else "(top)"


def rooms(sources: dict[str, str]) -> dict[str, Counter[str]]:
    """Return the sum of `count` for each room."""
    sums: dict[str, Counter[str]] = {}
    for path, text in sources.items():
        sums.setdefault(room(path), Counter()).update(count(text))
    return sums


def sources(commit: str) -> dict[str, str]:
    """Return path to text of the Python files of src/ and BESIDE, of a commit or (if empty) of the working tree."""
    where = ["ls-tree", "-r", "--name-only", commit] if commit else ["ls-files"]
    names = [name for name in _git(*where, "--", "src", *BESIDE).splitlines() if name.endswith(".py")]
    if commit:
        return {name: _git("show", f"{commit}:{name}") for name in names}
    return {name: (ROOT / name).read_text() for name in names if (ROOT / name).exists()}


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main(commit: str = "") -> None:
    """Print the table."""
    now, before = rooms(sources("")), rooms(sources(commit)) if commit else {}
    now["src"] = sum((lines for name, lines in now.items() if name not in BESIDE), Counter())
    before["src"] = sum((lines for name, lines in before.items() if name not in BESIDE), Counter())
    print(
        f"{'room':12} {'code':>8} {'docstrings':>11} {'comments':>9}" + (f" {'since ' + commit:>16}" if commit else "")
    )
    for name, lines in sorted(now.items(), key=lambda item: (item[0] in ("src", *BESIDE), item[0])):
        grown = f" {lines['code'] - before.get(name, Counter())['code']:+16,}" if commit else ""
        print(f"{name:12} {lines['code']:8,} {lines[DOCSTRING]:11,} {lines[COMMENT]:9,}{grown}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
