"""Show that the moves are pure: compare what the code says before and after, whatever it is called.

    python3.12 experiments/moves/pure.py --base COMMIT [--tree DIR] [--wheels OLD.whl NEW.whl]

Each file of Python of COMMIT is compared with what it became in DIR, as a syntax tree in which each name that an import
or the module itself binds is written out in full (`geometry.LOG`, `LOG` and `directories.LOG` are one thing,
`flintmq.store.layout.directories.LOG`), imports are left out, and names and paths in strings are those of after. How
names were renamed is not asked of `move.py`: each side is resolved by itself. Modules that were divided are compared as
a sum of definitions. What differs is printed; files with an entry in EDITS are compared with these taken back.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import zipfile
from collections import Counter
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mapping import EDITS, SPLITS
from move import Python, Table, Words, module_of
from source import Scope, Source

SKIPPED = re.compile(r"^(experiments/moves/|tests/compat/golden/|tests/fuzz/corpus/)")


class Names:
    """What names of one side mean, in the names of after."""

    def __init__(self, table: Table | None) -> None:
        self.table = table

    def full(self, module: str, name: str) -> str:
        """A name in a module."""
        assert self.table is not None
        return f"{self.table.new_module(self.table.names.get((module, name), module))}.{name}"

    def chain(self, dotted: str) -> str:
        """A dotted name that begins with a module."""
        if self.table is None:
            return dotted
        parts = dotted.split(".")
        for end in range(len(parts), 0, -1):
            module = ".".join(parts[:end])
            if module in self.table.old_modules or module in self.table.modules:
                if end == len(parts):
                    return self.table.new_module(module)
                return ".".join([self.full(module, parts[end]), *parts[end + 1 :]])
        return dotted

    def folder(self, path: str) -> str:
        """A path in the tree."""
        if self.table is None or path in self.table.moves:
            return path if self.table is None else self.table.moves[path]
        above, _, name = path.rpartition("/")
        new = self.table.new_folder(path)
        if new is None and above.count("/") and path not in self.table.files:
            new = self.table.new_folder(above)
            return f"{new}/{name}" if new else path
        return new or path


class Mapped(ast.NodeTransformer):
    """Names of before as they are after."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(f"<{self.names.chain(node.id[1:-1])}>") if node.id.startswith("<") else node


class Resolver(ast.NodeTransformer):
    """Writes names out in full, leaves imports and positions away."""

    def __init__(self, source: Source, module: str, names: Names, strings: object) -> None:
        self.names, self.strings = names, strings
        self.meaning: dict[int, str] = {}
        self.imported: Counter[str] = Counter()
        top = source.scopes[0]
        self.uses: dict[tuple[int, str], list[int]] = {}
        for scope in source.scopes:
            for use in scope.uses:
                self.uses.setdefault((id(source.resolve(scope, use.id)), use.id), []).append(id(use))
        for scope in source.scopes:
            for bound, nodes in scope.bound.items():
                found = self._of(source, nodes)
                for one in found:
                    self.imported[names.chain(one)] += 1
                if not found and scope is top and any(_defines(node) for node in nodes):
                    found = [f"{module}.{bound}"]
                if found and len(set(found)) == 1:
                    self._note(scope, bound, found[0])

    def _of(self, source: Source, nodes: list[ast.AST]) -> list[str]:
        if not all(isinstance(node, ast.alias) for node in nodes):
            return []
        return [self.aliases(source)[id(node)] for node in nodes]

    def aliases(self, source: Source) -> dict[int, str]:
        """Each import's alias -> what it brings."""
        if not hasattr(self, "_aliases"):
            self._aliases = {}
            for node in ast.walk(source.tree):
                if isinstance(node, ast.ImportFrom):
                    for alias in node.names:
                        self._aliases[id(alias)] = f"{node.module}.{alias.name}"
                elif isinstance(node, ast.Import):
                    for alias in node.names:
                        self._aliases[id(alias)] = alias.name if alias.asname else alias.name.partition(".")[0]
        return self._aliases

    def _note(self, scope: Scope, name: str, full: str) -> None:
        for use in self.uses.get((id(scope), name), []):
            self.meaning[use] = full

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if id(node) in self.meaning:
            return ast.Name(f"<{self.meaning[id(node)]}>", node.ctx)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id.startswith("<"):
            return ast.Name(f"<{node.value.id[1:-1]}.{node.attr}>", ast.Load())
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """A path put together: ROOT / "docs" / "cli.md"."""
        words: list[str] = []
        left: ast.expr = node
        while (
            isinstance(left, ast.BinOp)
            and isinstance(left.op, ast.Div)
            and isinstance(left.right, ast.Constant)
            and isinstance(left.right.value, str)
        ):
            words.insert(0, left.right.value)
            left = left.left
        if not words:
            self.generic_visit(node)
            return node
        return ast.BinOp(self.visit(left), ast.Div(), ast.Constant(self.names.folder("/".join(words))))

    def visit_Import(self, node: ast.Import) -> None:
        return None

    visit_ImportFrom = visit_Import

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str):
            return ast.Constant(self.strings(node.value))  # type: ignore[operator]
        return node

    def visit_Global(self, node: ast.Global) -> ast.AST:
        return node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        self.generic_visit(node)
        return node if node.body or node.orelse else None


def _defines(node: ast.AST) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or (
        isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )


def said(
    path: str, text: str, module: str, names: Names, strings: object
) -> tuple[Counter[str], Counter[str], list[str]]:
    """A file's statements in full (without its own docstring), what it imports, and its statements in order."""
    source = Source(path, _with_folders(path, text, names))
    resolver = Resolver(source, module, names, strings)
    tree = Mapped(names).visit(resolver.visit(source.tree))
    dumps = [ast.dump(statement) for statement in tree.body]
    return Counter(dumps), resolver.imported, dumps


def _with_folders(path: str, text: str, names: Names) -> str:
    """`Path(__file__).parents[2]` is a folder, whatever the number."""

    def meant(found: re.Match[str]) -> str:
        number = re.search(r"\d+", found[2])
        up = int(number[0]) + 1 if number else found[2].count(".parent")
        folders = path.split("/")[:-1]
        folder = "/".join(folders[: len(folders) - up + 1])
        new = names.table.new_folder(folder) or folder if names.table else folder
        return found[0] if up == 1 and folder != "tests" else f'Path("<{new}>")'

    return Python.FOLDER.sub(meant, text)


def squeezed(text: str) -> str:
    """Without what wrapping changes. The name of the one logger that is a module's too stays, which strings hide."""
    return re.sub(r"\s+", " ", "flintmq.config.keys" if text == "flintmq.config" else text)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--base", required=True)
    parser.add_argument("--tree", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--wheels", nargs=2, type=Path, metavar=("OLD", "NEW"))
    parser.add_argument("--all", action="store_true", help="print every difference in full")
    given = parser.parse_args()

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=given.tree, check=True, capture_output=True, text=True).stdout

    files = [path for path in git("ls-tree", "-r", "--name-only", "-z", given.base).split("\0") if path]
    made = {"src/" + target.replace(".", "/") + ".py" for _, target, _, _ in SPLITS}
    table = Table(sorted({*files, *made}))
    if table.problems:
        print("\n".join(table.problems))
        return 1
    words = Words(table)
    after = set(git("ls-files").splitlines())
    edited = {path for path, _, _ in EDITS}
    groups: dict[str, set[str]] = {}  # old modules that were divided are one thing: path -> the group's paths
    for source, target, _, _ in SPLITS:
        paths = {"src/" + name.replace(".", "/") + ".py" for name in (source, target)}
        for path in list(paths):
            paths |= groups.get(path, set())
        for path in paths:
            groups[path] = paths
    counts: Counter[str] = Counter()
    differ: list[str] = []
    rewritten: Counter[tuple[str, str]] = Counter()
    done: set[str] = set()

    def renamed(old_path: str, new_path: str) -> object:
        def strings(value: str) -> str:
            new = words.rewrite(value, old_path, new_path)
            if new != value:
                rewritten[value, new] += 1
            return squeezed(new)

        return strings

    def taken_back(path: str, text: str) -> str:
        for edit, old, new in EDITS:
            if edit == path and new and text.count(new) == 1:
                text = text.replace(new, old)
        return text

    for path in sorted({*files, *made}):
        if path in done or SKIPPED.match(path) or not path.endswith((".py", ".pyi")):
            continue
        group = sorted(groups.get(path, {path}))
        done.update(group)
        before, now = Counter(), Counter()
        brought, brings = Counter(), Counter()
        order_before: list[str] = []
        order_now: list[str] = []
        gone = False
        for one in group:
            new = table.new_path(one)
            if new not in after:
                gone = True
                continue
            if one in files:
                text = git("show", f"{given.base}:{one}")
                module = module_of(one.replace(".pyi", ".py")) or one
                dumps, imports, order = said(one, text, module, Names(table), renamed(one, new))
                before, brought, order_before = before + dumps, brought + imports, order_before + order
            text = (given.tree / new).read_text(encoding="utf-8")
            module = module_of(new.replace(".pyi", ".py")) or new
            dumps, imports, order = said(new, taken_back(new, text), module, Names(None), squeezed)
            now, brings, order_now = now + dumps, brings + imports, order_now + order
        new = table.new_path(path)
        if gone:
            counts["gone, was empty" if not git("show", f"{given.base}:{path}").strip() else "GONE"] += 1
            continue
        counts["files of Python compared"] += len(group)
        same_order = len(group) > 1 or order_before == order_now
        docstring = {dump for dump in (before - now) + (now - before) if dump.startswith("Expr(value=Constant(value='")}
        rest = [dump for dump in (before - now) + (now - before) if dump not in docstring]
        imports_differ = set(brought) ^ set(brings)
        if len(group) > 1:
            imports_differ = {
                name for name in imports_differ if not name.startswith(("flintmq", "typing", "__future__"))
            }
        if (before == now or not rest) and same_order | bool(docstring) and not imports_differ:
            counts["equal"] += len(group)
            continue
        kind = "listed in EDITS" if set(map(table.new_path, group)) & edited else "differs"
        kind = "table of contents" if new.endswith("__init__.py") and not rest else kind
        counts[kind] += len(group)
        pairs_of = list(zip_longest(sorted(before - now), sorted(now - before), fillvalue=""))
        if kind == "differs" and all(_blank(a) == _blank(b) for a, b in pairs_of):
            counts[kind] -= len(group)
            kind = "texts alone differ"
            counts[kind] += len(group)
        differ.append(
            f"{kind}: {' + '.join(group)} -> {', '.join(sorted(set(map(table.new_path, group))))}\n"
            + "".join(_difference(a, b) for a, b in pairs_of)
            + (f"   imports: {sorted(imports_differ)}\n" if imports_differ else "")
        )
    for path in files:
        if SKIPPED.match(path) or not path.endswith((".pxd", ".h")):
            continue
        old, new = git("show", f"{given.base}:{path}"), (given.tree / table.new_path(path)).read_text(encoding="utf-8")
        counts["C declarations equal" if words.rewrite(old, path, table.new_path(path)) == new else "C DIFFERS"] += 1
    for path in sorted(files):
        new = table.new_path(path)
        if new and new not in after:
            print(f"missing: {path} -> {new}")
    raw = [path for path in files if SKIPPED.match(path) and not path.startswith("experiments/")]
    hashes = dict(reversed(line.split("\t")[::1]) for line in _hashes(git, given.base))
    new_hashes = dict(reversed(line.split("\t")) for line in _staged(git))
    wrong = [path for path in raw if hashes[path] != new_hashes.get(table.new_path(path))]
    counts["files of bytes equal (golden stores, corpus)"] = len(raw) - len(wrong)
    print("\n".join(differ))
    pairs: Counter[tuple[str, str]] = Counter()
    for (old, new), count in rewritten.items():
        for a, b in _tokens(old, new):
            pairs[a, b] += count
    if given.all:
        for (a, b), count in sorted(pairs.items()):
            print(f"{count:5} {a} -> {b}")
    print(f"in strings: {len(rewritten)} differ, by {len(pairs)} names and paths ({sum(pairs.values())} places)")
    for name, count in sorted(counts.items()):
        print(f"{count:6} {name}")
    if given.wheels:
        _wheels(table, *given.wheels)
    return 1 if counts["differs"] or counts["GONE"] or counts["C DIFFERS"] or wrong else 0


def _blank(dump: str) -> str:
    """Without strings."""
    return re.sub(r"Constant\(value=('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")\)", "Constant", dump)


def _difference(a: str, b: str) -> str:
    """The words that differ, with those around them."""
    if not a or not b:
        return f"   {'+' if b else '-'} {(a or b)[:160]}\n"
    left, right = re.split(r"(?<=[ (,])", a), re.split(r"(?<=[ (,])", b)
    found = ""
    for kind, i, j, k, n in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if kind != "equal":
            start = "".join(left[max(i - 4, 0) : i])[-60:]
            found += f"   ...{start}[{''.join(left[i:j])[:120]}] -> [{''.join(right[k:n])[:120]}]\n"
    return found


def _hashes(git: object, base: str) -> list[str]:
    text = git("ls-tree", "-r", base)  # type: ignore[operator]
    return ["\t".join((line.split("\t")[0].split()[2], line.split("\t")[1])) for line in text.splitlines()]


def _staged(git: object) -> list[str]:
    text = git("ls-files", "-s")  # type: ignore[operator]
    return ["\t".join((line.split("\t")[0].split()[1], line.split("\t")[1])) for line in text.splitlines()]


def _tokens(old: str, new: str) -> list[tuple[str, str]]:
    a, b = old.split(), new.split()
    return [(x, y) for x, y in zip(a, b, strict=False) if x != y] if len(a) == len(b) else [(old[:60], new[:60])]


def _wheels(table: Table, old: Path, new: Path) -> None:
    """Compare two wheels module by module, by name."""

    def modules(path: Path) -> set[str]:
        with zipfile.ZipFile(path) as archive:
            return {name for name in archive.namelist() if ".dist-info/" not in name}

    there = modules(old)
    wanted = {table.new_path(f"src/{name}").removeprefix("src/") for name in there}
    now = modules(new)
    print(f"wheels: {len(there)} files before, {len(now)} now")
    print(f"  before and not now: {sorted(wanted - now)}")
    print(f"  now and not before: {sorted(now - wanted)}")


if __name__ == "__main__":
    sys.exit(main())
