"""Show that only names changed: `same.py BASE` compares each file of Python with that of a commit, tree by tree.

Two trees are the same if they have the same shape and each identifier either is equal or is a pair of names.py. Imports
are compared as a set, positions not at all. Texts that differ are printed: in them, nothing but such names may.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from names import GROUPS, METHODS

ROOT = Path(__file__).resolve().parents[2]
PAIRS = {(old, new) for names in GROUPS.values() for _, old, new in names}
PAIRS |= {(what.partition(".")[2], new) for _, what, new, _ in METHODS}
NEW = {new: old for old, new in PAIRS}
WORDS = re.compile(rf"\b({'|'.join(sorted(map(re.escape, NEW), key=len, reverse=True))})\b")


def git(*words: str) -> str:
    """What git says."""
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


class Imports(ast.NodeTransformer):
    """Takes imports out and notes them."""

    def __init__(self) -> None:
        self.found: Counter[tuple[str, str, str]] = Counter()

    def visit_Import(self, node: ast.Import) -> ast.AST:
        self.found.update(("", one.name, one.asname or "") for one in node.names)
        return ast.Pass()

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        self.found.update((node.module or "", one.name, one.asname or "") for one in node.names)
        return ast.Pass()

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse"):
            body = getattr(node, name, None)
            if isinstance(body, list):
                setattr(node, name, [one for one in body if not isinstance(one, ast.Pass)])
        return node


def differ(a: object, b: object, where: str, text: bool = False) -> str:
    """The first difference; "" if there is none."""
    if type(a) is not type(b):
        return f"{where}: {type(a).__name__} / {type(b).__name__}"
    if isinstance(a, ast.AST):
        for name in a._fields:
            if found := differ(getattr(a, name, None), getattr(b, name, None), f"{where}.{name}", name == "value"):
                return f"{found} (line {getattr(b, 'lineno', '?')})" if "(line" not in found else found
        return ""
    if isinstance(a, list):
        assert isinstance(b, list)
        if len(a) != len(b):
            return f"{where}: {len(a)} / {len(b)} items"
        return next((found for one, two in zip(a, b, strict=True) if (found := differ(one, two, where))), "")
    if a == b or (a, b) in PAIRS:
        return ""
    if text and isinstance(a, str):
        assert isinstance(b, str)
        squeezed = [" ".join(one.split()) for one in (a, b)]
        if len(squeezed[0].split()) == len(squeezed[1].split()):
            changed = [
                (one, two)
                for one, two in zip(*(re.findall(r"\w+|\W", t) for t in squeezed), strict=False)
                if one != two
            ]
            if all(pair in PAIRS for pair in changed):
                TEXTS.update(changed)
                return ""
    return f"{where}: {a!r} / {b!r}"


TEXTS: Counter[tuple[str, str]] = Counter()


def main() -> int:
    """Run from the command line."""
    base, bad, count = sys.argv[1], 0, 0
    now = [path for path in git("ls-files", "*.py", "*.pyi").splitlines() if not path.startswith("experiments/moves/")]
    before = set(git("ls-tree", "-r", "--name-only", base).splitlines())
    for path in now:
        if path not in before:
            print(f"{path}: is new")
            continue
        old, new = git("show", f"{base}:{path}"), (ROOT / path).read_text(encoding="utf-8")
        if old == new:
            continue
        count += 1
        trees = []
        brought = []
        for source in (old, new):
            imports = Imports()
            trees.append(imports.visit(ast.parse(source)))
            brought.append(imports.found)
        gone, come = brought[0] - brought[1], brought[1] - brought[0]
        back = Counter({(m, NEW.get(n, n), a): c for (m, n, a), c in come.items()})
        found = differ(*trees, "") or ("" if back == gone else f"imports: {set(gone - back)} / {set(back - gone)}")
        if found:
            bad += 1
            print(f"{path}: {found[:400]}")
    print(f"{count} files changed, {bad} by more than names; in texts: {sum(TEXTS.values())} names")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
