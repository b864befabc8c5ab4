"""Move the tree into the house of `mapping.py`: files, references, tables of contents. Repeatable on a newer main.

    python3.12 experiments/moves/move.py --tools .venv/bin [--tree DIR]

DIR is a clean checkout (this one, by default). Nothing is guessed: a file that no table knows, a name that cannot be
renamed safely, or an edit whose text is not there exactly once stops the script with what is to be decided; the tree is
then as it was. What it made stands uncommitted in the tree; `pure.py` compares it with the commit before.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mapping import (
    EDITS,
    EXPORTS,
    FILES,
    FOLDERS,
    HEADS,
    KEEP,
    LOCAL,
    OUTSIDE,
    ROOMS,
    SPLITS,
    SPOKEN,
    STAY,
)
from source import Scope, Source, Stop

TEXT = {".py", ".pyi", ".pxd", ".h", ".md", ".toml", ".txt", ".in", ".patch", ".json", ".yml", ".yaml", ".css", ".html"}
NEVER = re.compile(r"^(experiments/moves/|tests/compat/golden/|tests/fuzz/corpus/|bench/results\.json$|docs/pictures/)")
OWN = ("flintmq", "tests", "examples")


def module_of(path: str) -> str | None:
    """The dotted name of a file of Python; None for others."""
    if not path.endswith(".py"):
        return None
    name = path.removeprefix("src/").removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


class Table:
    """Where everything goes, made from the tables and from the files that are there."""

    def __init__(self, files: list[str]) -> None:
        self.files = set(files)
        self.problems: list[str] = []
        self.old_modules = {name: path for path in files if (name := module_of(path)) and name.partition(".")[0] in OWN}
        self.modules: dict[str, str] = {}  # old module -> new, where they differ
        self.new_rooms: set[str] = set()
        self._modules_of_rooms()
        self.moves: dict[str, str] = {}  # old path -> new, where they differ; "" for one that goes
        self._moves()
        self.names = {(source, name): target for source, target, names, _ in SPLITS for name in names}
        self.folders = self._folders()
        self.by_base: dict[str, set[str]] = defaultdict(set)
        for old, new in self.moves.items():
            if old.startswith("src/") and old.endswith(".py") and os.path.basename(old) != os.path.basename(new):
                self.by_base[os.path.basename(old)].add(old)

    def new_module(self, name: str) -> str:
        """What a module is called after the move."""
        return self.modules.get(name, name)

    def new_path(self, path: str) -> str:
        """Where a file is after the move."""
        return self.moves.get(path, path)

    def new_folder(self, folder: str) -> str | None:
        """Where a folder is after the move; None where its files went to several."""
        return self.folders.get(folder)

    def _modules_of_rooms(self) -> None:
        known: dict[str, str] = {}
        for room, (_, table) in ROOMS.items():
            for new, (old, says) in table.items():
                source = f"flintmq.{old or f'{room}.{new}'}"
                if not old and source not in self.old_modules:  # of the same name, in the folder above
                    source = f"flintmq.{room.rpartition('.')[0]}.{new}"
                if source in known:
                    self.problems.append(f"{source}: in two rooms")
                known[source] = f"flintmq.{room}.{new}"
                if source not in self.old_modules and source not in {target for _, target, _, _ in SPLITS}:
                    self.problems.append(f"{source}: in the table, not in the tree")
                if not says or len(says) > 90:
                    self.problems.append(f"{source}: its line has {len(says)} characters")
        known.update(OUTSIDE)
        known |= {f"flintmq.{name}": f"flintmq.{name}" for name in ("__main__", "errors", "message")}
        for name, path in self.old_modules.items():
            package = path.endswith("__init__.py")
            if not name.startswith("flintmq") or package or "._" in name or name.startswith("flintmq.format."):
                continue
            if name not in known:
                self.problems.append(f"{path}: in no room; give it one in ROOMS")
        self.modules = {old: new for old, new in known.items() if old != new}
        self.new_rooms = {f"flintmq.{room}" for room in ROOMS if f"flintmq.{room}" not in self.old_modules}
        self.new_rooms |= {f"flintmq.{room}" for room in ROOMS if f"flintmq.{room}" in known}

    def _moves(self) -> None:
        for path in sorted(self.files):
            new = self._new_path(path)
            if new != path:
                self.moves[path] = new
        for name, path in list(self.old_modules.items()):
            new_name = module_of(self.moves.get(path, path) or path)
            if new_name and new_name != name:
                self.modules[name] = new_name
        taken = Counter(self.moves.get(path, path) for path in self.files)
        self.problems += [f"{path}: {n} files would be here" for path, n in taken.items() if n > 1 and path]

    def _new_path(self, path: str) -> str:
        if path in FILES:
            return FILES[path]
        for old, new in FOLDERS.items():
            if path.startswith(old + "/"):
                return new + path[len(old) :]
        folder, _, name = path.rpartition("/")
        stem, dot, ending = name.partition(".")
        module = module_of(f"{folder}/{stem}.py")
        if folder.startswith("src/flintmq") and stem != "__init__" and module in self.modules:
            new = self.modules[module].replace(".", "/") + dot + ending
            return new if self.modules[module].startswith("examples.") else f"src/{new}"
        if name.startswith("test_") and name.endswith(".py") and folder.startswith("tests"):
            return self._new_test(path, folder, stem.removeprefix("test_"))
        return path

    def _new_test(self, path: str, folder: str, stem: str) -> str:
        package = ".".join(["flintmq", *folder.split("/")[1:]])
        module = f"{package}.{stem}"
        if module in self.modules:
            parts = self.modules[module].split(".")
            parts = parts if parts[0] == "examples" else parts[1:]
            return "/".join(["tests", *parts[:-1], f"test_{parts[-1]}.py"])
        rooms = any(new.startswith(package + ".") for new in self.new_rooms)
        if rooms and package != "flintmq" and module not in self.old_modules and path not in STAY:
            self.problems.append(f"{path}: follows no module; give it a place in FILES or STAY")
        return path

    def _folders(self) -> dict[str, str]:
        """Folders all of whose files went to one, below which they stand as before."""
        found: dict[str, set[str]] = defaultdict(set)
        for path in self.files:
            old = path.split("/")
            new = (self.moves.get(path, path) or path).split("/")
            for depth in range(1, len(old)):
                below = old[depth:-1]  # a file may get another name
                if not below:
                    found["/".join(old[:depth])].add("/".join(new[:-1]))
                    continue
                new = (self.moves.get(path, path) or path).split("/")[:-1]
                same = new[-len(below) :] == below and len(new) > len(below)
                found["/".join(old[:depth])].add("/".join(new[: -len(below)]) if same else "")
                new = (self.moves.get(path, path) or path).split("/")
        kept = {old: next(iter(new)) for old, new in found.items() if len(new) == 1 and next(iter(new))}
        stay = ("tests", "docs", "src", "src/flintmq", "tests/store", "tests/torture/state")
        return kept | {name: name for name in stay if name in found and name not in kept}


class Words:
    """Rewrites names and paths that stand in text."""

    DOTTED = re.compile(r"(?<![\w./-])((?:flintmq|tests)(?:\.[A-Za-z_]\w*)+)")
    SHORT = re.compile(r"(?<![\w./-])((?:kernels|storage|forensics)(?:\.[A-Za-z_]\w*)+)")
    IMPORT = re.compile(r"\bfrom ((?:flintmq|tests)(?:\.\w+)*) import (\w+(?: as \w+)?(?:, \w+(?: as \w+)?)*)")
    PATH = re.compile(r"(?<![\w.@-])((?:[\w.-]+/)+[\w-]+(?:\.[\w-]+)*)")
    LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
    FILE = re.compile(r"(?<![\w./\"'-])(`?)(\w+\.py)\b(`?)")
    keep = re.compile("|".join(KEEP))

    def __init__(self, table: Table) -> None:
        self.table = table
        self.told: Counter[tuple[str, str]] = Counter()
        self.without_ending: Counter[tuple[str, str]] = Counter()
        self.several: list[str] = []

    def rewrite(self, text: str, old_path: str, new_path: str, spoken: bool = True) -> str:
        """The text with every name and path that moved."""
        kept: list[str] = []

        def put_away(found: str) -> str:
            kept.append(found)
            return f"\ue0f0{len(kept) - 1}\ue0f1"

        text = self.keep.sub(lambda m: put_away(m[0]), text)
        if old_path.endswith(".md"):
            text = self.LINK.sub(lambda m: put_away(m[1] + self.link(m[2], old_path, new_path) + m[3]), text)
        text = self.IMPORT.sub(lambda m: put_away(self.imported(m[0], m[1], m[2])), text)
        text = self.DOTTED.sub(lambda m: put_away(self.dotted(m[1])), text)
        text = self.SHORT.sub(lambda m: put_away(self.dotted("flintmq." + m[1]).removeprefix("flintmq.")), text)
        text = self.PATH.sub(lambda m: put_away(self.path(m[1], old_path)), text)
        text = self.FILE.sub(lambda m: m[1] + self.neighbour(m[2], old_path, new_path) + m[3], text)
        for _ in range(8):  # what is put away may lie in what is
            text = re.sub("\ue0f0(\\d+)\ue0f1", lambda m: kept[int(m[1])], text)
        if spoken:
            for name, better in SPOKEN.items():
                text = text.replace(name, better)
        return text

    def dotted(self, name: str) -> str:
        """A dotted name: the longest part of it that is a module decides."""
        parts = name.split(".")
        for end in range(len(parts), 1, -1):
            module = ".".join(parts[:end])
            target = self.table.names.get((module, parts[end])) if end < len(parts) else None
            if target is not None and module in self.table.old_modules:
                return self._tell(name, ".".join([self.table.new_module(target), *parts[end:]]))
            if module in self.table.modules:
                return self._tell(name, ".".join([self.table.modules[module], *parts[end:]]))
            if module in self.table.old_modules:
                return name
        return name

    def imported(self, whole: str, module: str, names: str) -> str:
        """`from a import b` in a text: a program in a string, or an example."""
        found: dict[str, list[str]] = defaultdict(list)
        for one in names.split(", "):
            name, _, own = one.partition(" as ")
            full = f"{module}.{name}"
            target = self.table.names.get((module, name))
            if full in self.table.modules:
                parent, _, base = self.table.modules[full].rpartition(".")
                found[parent].append(f"{base} as {own or name}" if (own or name) != base else base)
            else:
                found[self.table.new_module(target or module)].append(one)
        text = "; ".join(f"from {parent} import {', '.join(items)}" for parent, items in found.items())
        return self._tell(whole, text)

    def link(self, target: str, old_path: str, new_path: str) -> str:
        """A link of a page, relative to it."""
        if re.match(r"[a-z]+:", target):
            return target
        goal = os.path.normpath(os.path.join(os.path.dirname(old_path), target))
        if goal in self.table.files:
            new = self.table.new_path(goal)
        else:
            new = self.table.new_folder(goal.rstrip("/")) or goal
            if new == goal and not any(path.startswith(goal.rstrip("/") + "/") for path in self.table.files):
                return target
        text = os.path.relpath(new, os.path.dirname(new_path) or ".")
        return self._tell(target, text + ("/" if target.endswith("/") else ""))

    def path(self, name: str, old_path: str) -> str:
        """A path in a text, from the top, from src/, src/flintmq/ or tests/."""
        side = re.match(r"[ab]/(?=src/|tests/)", name) if old_path.endswith(".patch") else None
        if side:
            return side[0] + self.path(name[2:], old_path)
        prefixes = ("", "src/", "src/flintmq/", "tests/", "docs/")
        for prefix in dict.fromkeys(prefixes):
            full = prefix + name
            if full in self.table.files:
                return self._tell(name, self._short(self.table.new_path(full), prefix))
        for prefix in ("src/", "src/flintmq/"):
            full = f"{prefix}{name}.py"
            if full in self.table.moves and "/" in name:
                new = self._short(self.table.moves[full], prefix).removesuffix(".py")
                self.without_ending[name, new] += 1
                return new
        for prefix in ("", "src/", "src/flintmq/"):
            new = self.table.new_folder(prefix + name)
            if new is not None and new != prefix + name:
                return self._tell(name, self._short(new, prefix))
        folder, _, last = name.rpartition("/")
        above = self.table.new_folder(folder) if folder.count("/") else None
        if above is not None and above != folder:
            return self._tell(name, f"{above}/{last}")
        head, _, rest = name.partition("::")
        return name if not rest else self.path(head, old_path) + "::" + rest

    def neighbour(self, name: str, old_path: str, new_path: str) -> str:
        """`name.py`, said of a file in the same folder; or of a test that is the only one of its name."""
        full = f"{os.path.dirname(old_path)}/{name}"
        if full not in self.table.files or not old_path.endswith((".py", ".pyi", ".pxd")):
            tests = [path for path in self.table.files if path.endswith(f"/{name}")] if name[:5] == "test_" else []
            if len(tests) != 1:
                return name
            full = tests[0]
        new = self.table.new_path(full)
        base = os.path.basename(new)
        alone = base == name and sum(self.table.new_path(path).endswith(f"/{name}") for path in self.table.files) == 1
        if alone or os.path.dirname(new) == os.path.dirname(new_path):
            return self._tell(name, base)
        prefix = "src/flintmq/" if new.startswith("src/") else "tests/" if name[:5] == "test_" else ""
        return self._tell(name, self._short(new, prefix))

    @staticmethod
    def _short(path: str, prefix: str) -> str:
        return path.removeprefix(prefix) if path.startswith(prefix) else path

    def _tell(self, old: str, new: str) -> str:
        if old != new:
            self.told[old, new] += 1
        return new


# What stands before the name of a logger: users set it, so it stays, also where it is that of a module.
LOGGER = re.compile(rb"(getLogger|at_level|set_level)\([^()]*$")


class Python:
    """Rewrites a file of Python: its imports, the local names of modules, names in strings and comments."""

    def __init__(self, table: Table, words: Words) -> None:
        self.table, self.words = table, words
        self.problems: list[str] = []
        self.locals: dict[str, dict[str, str]] = {}  # old path -> old local name of a module -> new
        self.homes: dict[str, set[str]] = defaultdict(set)  # geometry.LOG -> the modules called so that define it

    members = re.compile(r"(?<![\w./])([a-z_]+)\.([A-Za-z_]\w*)(?![\w.]*/)")

    def learn(self, path: str, text: str) -> None:
        """Note what a module of the package defines, so that prose can be told of it."""
        base = os.path.basename(path).removesuffix(".py")
        for statement in ast.parse(text).body:
            for name in _defines(statement):
                self.homes[f"{base}.{name}"].add(path)

    def _member(self, found: re.Match[str]) -> str:
        """`parts.locate` in prose, where only one module of that name has such a thing."""
        homes = self.homes.get(found[0], set())
        if len(homes) != 1:
            return found[0]
        base = os.path.basename(self.table.new_path(next(iter(homes)))).removesuffix(".py")
        return self.words._tell(found[0], f"{base}.{found[2]}")

    def rewrite(self, text: str, old_path: str, new_path: str) -> str:
        """The file's text as it has to be after the move."""
        source = Source(old_path, text)
        self.done: set[tuple[int, int]] = set()
        renames: list[tuple[Scope, str, str]] = []
        for scope in source.scopes:
            for node in _imports_of(scope):
                self._import(source, scope, node, renames)
        for scope, old, new in renames:
            self._rename(source, scope, old, new)
        locals_here = {old: new for _, old, new in renames}
        if locals_here:
            self.locals[old_path] = locals_here
        self._chains(source)
        self._folders(source, old_path, new_path)
        self._joined(source)
        for begin, end, found in source.texts():
            if (begin, end) not in self.done and not LOGGER.search(source.text.encode()[:begin][-40:]):
                prose = found.startswith(("#", '"""'))
                said = self.members.sub(self._member, with_locals(found, locals_here)) if prose else found
                source.replace(begin, end, self.words.rewrite(said, old_path, new_path))
        return source.result()

    def _import(
        self, source: Source, scope: Scope, node: ast.Import | ast.ImportFrom, renames: list[tuple[Scope, str, str]]
    ) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in self.table.modules:
                    begin, _ = source.span(alias)
                    source.replace(begin, begin + len(alias.name), self.table.modules[alias.name])
            return
        module = node.module or ""
        if node.level or module.partition(".")[0] not in OWN:
            return
        groups: dict[str, list[str]] = defaultdict(list)
        changed = False
        for alias in node.names:
            full = f"{module}.{alias.name}"
            target = self.table.names.get((module, alias.name))
            name, own = alias.name, alias.asname
            if full in self.table.modules:
                parent, _, name = self.table.modules[full].rpartition(".")
                if own is None and name != alias.name:
                    local = LOCAL.get((source.path, self.table.modules[full]), name)
                    own = local if local != name else None
                    if local != alias.name:
                        renames.append((scope, alias.name, local))
            else:
                parent = self.table.new_module(target or module)
            if own == name != alias.name:
                own = None  # the new name is what it was called here
            item = name if own is None else f"{name} as {own}"
            groups[parent].append(item)
            changed = changed or parent != module or item != _item(alias)
        if not changed:
            return
        begin, end = source.span(node)
        if len(groups) == 1 and all(
            item == _item(alias) for item, alias in zip(next(iter(groups.values())), node.names, strict=True)
        ):
            at = source.segment(node).index(module)
            source.replace(begin + at, begin + at + len(module), next(iter(groups)))
            return
        if "#" in source.segment(node):
            self.problems.append(f"{source.path}:{node.lineno}: a comment stands inside an import that is taken apart")
        indent = " " * node.col_offset
        lines = [f"from {parent} import {', '.join(items)}" for parent, items in groups.items()]
        lines = [
            line if len(indent + line) <= 120 else line.replace(" import ", " import (", 1) + ")" for line in lines
        ]
        source.replace(begin, end, f"\n{indent}".join(lines))

    def _rename(self, source: Source, scope: Scope, old: str, new: str) -> None:
        where = f"{source.path}: {old} -> {new}"
        if any(not isinstance(node, ast.alias) for node in scope.bound.get(old, [])):
            self.problems.append(f"{where}: {old} is bound here otherwise too")
            return
        if new in scope.bound:
            self.problems.append(f"{where}: {new} is taken here; name it in LOCAL")
            return
        for inner in source.scopes:
            uses = [use for use in inner.uses if use.id == old and source.resolve(inner, old) is scope]
            if not uses:
                continue
            between: Scope | None = inner
            while between is not None and between is not scope:
                if new in between.bound:
                    line = uses[0].lineno
                    self.problems.append(f"{where}: {new} is bound where it is used (line {line}); name it in LOCAL")
                    return
                between = between.parent
            for use in uses:
                source.replace(*source.span(use), new)
        if any(use.id == new and source.resolve(inner, new) is None for inner in source.scopes for use in inner.uses):
            self.problems.append(f"{where}: {new} is used here as a builtin; name it in LOCAL")

    def _chains(self, source: Source) -> None:
        """flintmq.store.geometry.X, after `import flintmq...`."""
        done: set[int] = set()
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Attribute) or id(node) in done:
                continue
            parts: list[str] = []
            inner: ast.expr = node
            while isinstance(inner, ast.Attribute):
                done.add(id(inner))
                parts.append(inner.attr)
                inner = inner.value
            if not isinstance(inner, ast.Name) or inner.id not in OWN:
                continue
            name = ".".join([inner.id, *reversed(parts)])
            new = self.words.dotted(name)
            if new != name:
                if source.segment(node) != name:
                    self.problems.append(f"{source.path}:{node.lineno}: {name} is not in one line")
                source.replace(*source.span(node), new)

    FOLDER = re.compile(r"Path\(__file__\)(\.resolve\(\))?((?:\.parent)+(?!s)|\.parents\[\d+\])")

    def _folders(self, source: Source, old_path: str, new_path: str) -> None:
        """Folders that a file finds from its own place."""
        if old_path == new_path:
            return
        text = source.text
        for found in self.FOLDER.finditer(text):
            number = re.search(r"\d+", found[2])
            up = int(number[0]) + 1 if number else found[2].count(".parent")
            folders = old_path.split("/")[:-1]
            meant = "/".join(folders[: len(folders) - up + 1])
            if up == 1 and meant != "tests":
                continue
            new = "" if not meant else self.table.new_folder(meant) or meant
            here = new_path.split("/")[:-1]
            if new and here[: len(new.split("/"))] != new.split("/"):
                self.problems.append(f"{old_path}: {found[0]} means {meant}, which is not above {new_path}")
                continue
            more = len(here) - (len(new.split("/")) if new else 0)
            text_new = f"Path(__file__){found[1] or ''}" + (".parent" if more == 0 else f".parents[{more}]")
            begin, end = len(text[: found.start()].encode()), len(text[: found.end()].encode())
            source.replace(begin, end, text_new)

    def _joined(self, source: Source) -> None:
        """ROOT / "docs" / "cli.md"."""
        inside: set[int] = set()
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) or id(node) in inside:
                continue
            words: list[ast.Constant] = []
            left: ast.expr = node
            while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Div):
                inside.add(id(left))
                if isinstance(left.right, ast.Constant) and isinstance(left.right.value, str):
                    words.insert(0, left.right)
                else:
                    words.clear()  # only what stands at the left end, behind one start, is a path from there
                left = left.left
            path = "/".join(word.value for word in words)
            if not words or not re.match(r"(src|tests|docs)(/|$)", path):
                continue
            new = self.table.moves.get(path) or (None if path in self.table.files else self.table.new_folder(path))
            if new is None and path not in self.table.files and path.count("/") > 1:
                folder, _, name = path.rpartition("/")
                above = self.table.new_folder(folder)
                new = f"{above}/{name}" if above else None
            if new is None and any(file.startswith(path + "/") for file in self.table.files) and "/" in path:
                self.words.several.append(f"{source.path}:{node.lineno}: {path} went to several places")
            if new and new != path:
                begin, end = source.span(words[0])[0], source.span(words[-1])[1]
                source.replace(begin, end, " / ".join(f'"{part}"' for part in new.split("/")))
                for word in words:
                    self.done.add(source.span(word))


def with_locals(text: str, names: dict[str, str]) -> str:
    """A text about a file, with what modules are called in it now: `geometry.LOG`, also as a regular expression."""
    for old, new in names.items():
        text = re.sub(rf"(?<![\w./]){old}(?=\\*\.(?!py\b)[A-Za-z_])", new, text)
    return text


def _item(alias: ast.alias) -> str:
    return alias.name if alias.asname is None else f"{alias.name} as {alias.asname}"


def _imports_of(scope: Scope) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports of a block itself, not those of functions in it."""
    waiting: list[ast.AST] = list(ast.iter_child_nodes(scope.node))
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting[:0] = ast.iter_child_nodes(node)


class Tree:
    """A checkout."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def git(self, *words: str) -> str:
        """What git says."""
        return subprocess.run(["git", *words], cwd=self.root, check=True, capture_output=True, text=True).stdout

    def files(self) -> list[str]:
        """The files under version control."""
        return self.git("ls-files").splitlines()

    def read(self, path: str) -> str:
        """A file's text."""
        return (self.root / path).read_text(encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        """A file's text, and its folder where there is none."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")


def split(tree: Tree, source_name: str, target_name: str, names: list[str], head: str) -> None:
    """Move top-level names from one module to another, with the imports that they need. Importers come later."""
    paths = ["src/" + name.replace(".", "/") + ".py" for name in (source_name, target_name)]
    source = Source(paths[0], tree.read(paths[0]))
    lines = source.text.splitlines(keepends=True)
    body = source.tree.body
    moved: list[tuple[int, int]] = []
    defined: dict[str, ast.stmt] = {}
    for statement in body:
        for name in _defines(statement):
            defined[name] = statement
    missing = [name for name in names if name not in defined]
    if missing:
        raise Stop(f"{paths[0]}: has no {', '.join(missing)} to move to {target_name}")
    chosen = {id(defined[name]) for name in names}
    every = {name for name, statement in defined.items() if id(statement) in chosen}
    for number, statement in enumerate(body):
        if id(statement) not in chosen:
            continue
        begin = min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", []))]) - 1
        end = statement.end_lineno or 0
        floor = body[number - 1].end_lineno or 0
        while begin > floor and lines[begin - 1].startswith("#"):
            begin -= 1
        if (
            number + 1 < len(body)
            and isinstance(body[number + 1], ast.Expr)
            and isinstance(getattr(body[number + 1], "value", None), ast.Constant)
        ):
            end = body[number + 1].end_lineno or end  # a docstring of a constant
        moved.append((begin, end))
    texts = ["".join(lines[begin:end]) for begin, end in moved]
    gone = {number for begin, end in moved for number in range(begin, end)}
    rest = "".join(line for number, line in enumerate(lines) if number not in gone)
    there = tree.read(paths[1]) if (tree.root / paths[1]).exists() else ""
    if bool(there) == bool(head):
        raise Stop(f"{paths[1]}: {'is there already' if there else 'is not there, and has no docstring in SPLITS'}")
    needed = _needed(source, [body_one for body_one in body if id(body_one) in chosen], every)
    for module, name in [(m, n) for m, t, ns, _ in SPLITS if t == target_name for n in ns]:
        needed.get(f"from {module} import ", set()).discard(name)  # it is here already
    needed = {statement: what for statement, what in needed.items() if what or not statement.endswith("import ")}
    from_source = needed.pop("", set())
    if from_source:
        needed[f"from {source_name} import "] = from_source
    imports, types = [], []
    for statement, what in sorted(needed.items()):
        (types if statement.startswith("?") else imports).append(
            statement.removeprefix("?") + ", ".join(sorted(what))
            if statement.endswith("import ")
            else statement.removeprefix("?")
        )
    if types:
        imports.insert(0, "from typing import TYPE_CHECKING")
    block = "\n".join(imports) + "\n"
    if types:
        block += "\nif TYPE_CHECKING:\n" + "".join(f"    {line}\n" for line in types)
    definitions = "\n\n".join(texts)
    if there:
        at = _end_of_imports(there)
        kept = there.splitlines(keepends=True)
        text = "".join(kept[:at]) + block + "".join(kept[at:]).rstrip("\n") + "\n\n\n" + definitions
    else:
        text = f"{head}\n\nfrom __future__ import annotations\n\n{block}\n{definitions}"
    tree.write(paths[1], text)
    at = _end_of_imports(rest)
    kept = rest.splitlines(keepends=True)
    used = {use.id for scope in Source(paths[0], rest).scopes for use in scope.uses} & every
    if used:
        kept.insert(at, f"from {target_name} import {', '.join(sorted(used))}\n")
    tree.write(paths[0], "".join(kept))
    for name in used & set(needed.get(f"from {source_name} import ", set())):
        raise Stop(f"{name}: would be imported both ways")


def _defines(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]


def _needed(source: Source, chosen: list[ast.stmt], every: set[str]) -> dict[str, set[str]]:
    """Import statements that the chosen definitions need: `from a import ` -> names; under TYPE_CHECKING with a `?`."""
    top = source.scopes[0]
    inside = {id(node) for statement in chosen for node in ast.walk(statement)}
    wanted = {
        use.id
        for scope in source.scopes
        for use in scope.uses
        if id(use) in inside and source.resolve(scope, use.id) is top
    } - every
    for statement in chosen:  # an alias of types that is text
        value = getattr(statement, "value", None)
        if isinstance(value, ast.Constant) and isinstance(value.value, str) and isinstance(statement, ast.AnnAssign):
            text = ast.parse(value.value, mode="eval")
            wanted |= {
                node.id for node in ast.walk(text) if isinstance(node, ast.Name) and node.id in top.bound
            } - every
    found: dict[str, set[str]] = defaultdict(set)
    for statement in source.tree.body:
        typed = isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"
        for node in ast.walk(statement) if typed else [statement]:
            mark = "?" if typed else ""
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) in wanted:
                        found[f"{mark}from {node.module} import "].add(_item(alias))
                        wanted.discard(alias.asname or alias.name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if (alias.asname or alias.name.partition(".")[0]) in wanted:
                        found[f"{mark}import {_item(alias)}"].add("")
                        wanted.discard(alias.asname or alias.name.partition(".")[0])
    if wanted:
        found[""] = wanted
    return found


def _end_of_imports(text: str) -> int:
    """The number of the line after the last import at the top of a file."""
    body = ast.parse(text).body
    last = max(node.end_lineno or 0 for node in body if isinstance(node, (ast.Import, ast.ImportFrom)))
    return last


def contents(table: dict[str, tuple[str, str]]) -> str:
    """The lines of a table of contents."""
    width = max(map(len, table)) + 2
    return "".join(f"{name:{width}}{says}\n" for name, (_, says) in table.items())


def room_heads(tree: Tree) -> dict[str, str]:
    """`__init__.py` of every room, as it has to be."""
    found = {}
    for room, (head, table) in ROOMS.items():
        path = f"src/flintmq/{room.replace('.', '/')}/__init__.py"
        lines = contents(table)
        if room in HEADS:
            text = tree.read(path)
            before, mark, after = text.partition(HEADS[room])
            if not mark:
                raise Stop(f"{path}: {HEADS[room][:60]!r} is not there; see HEADS")
            if room == "arrow":  # had a table already, up to the end of the docstring
                after = '"""' + after.partition('"""')[2]
            found[path] = f"{before}{mark}\n{lines}{after}"
        else:
            found[path] = f'"""{head.rstrip()}\n\n{lines}"""\n' + EXPORTS.get(room, "")
    return found


def run(tree: Tree, tools: Path | None) -> None:
    """Everything.

    Raises:
        Stop: something is in no table.
    """
    made = {"src/" + target.replace(".", "/") + ".py" for _, target, _, _ in SPLITS}
    problems = Table(sorted({*tree.files(), *made})).problems
    if problems:
        raise Stop("\n".join(problems))
    before = scores(tree)
    for source, target, names, head in SPLITS:
        split(tree, source, target, names, head)
    tree.git("add", "-A")
    files = tree.files()
    table = Table(files)
    if table.problems:
        raise Stop("\n".join(table.problems))
    words = Words(table)
    python = Python(table, words)
    results: dict[str, str] = {}
    for path in files:
        if path.startswith("src/flintmq/") and path.endswith(".py"):
            python.learn(path, tree.read(path))
    for path in files:
        new = table.new_path(path)
        if NEVER.match(path) or not new:
            continue
        if Path(path).suffix not in TEXT and "." in os.path.basename(path):
            continue
        try:
            text = tree.read(path)
        except UnicodeDecodeError:
            continue
        if path.endswith((".py", ".pyi")):
            results[new] = python.rewrite(text, path, new)
        else:
            results[new] = words.rewrite(text, path, new)
    if python.problems:
        raise Stop("\n".join(python.problems))
    told_of_code(table, python, results)
    for new in table.moves.values():
        if new:
            (tree.root / new).parent.mkdir(parents=True, exist_ok=True)
    # In two steps: a name that is left by one file may be taken by another.
    for number, old in enumerate(table.moves):
        tree.git("mv", old, f".moving-{number}")
    for number, new in enumerate(table.moves.values()):
        tree.git("mv", f".moving-{number}", new) if new else tree.git("rm", "-qf", f".moving-{number}")
    for path, text in results.items():
        tree.write(path, text)
    heads = room_heads(tree)
    for path, text in heads.items():
        tree.write(path, text)
    for folder in sorted({os.path.dirname(new) for new in table.moves.values() if new.startswith("tests/")}):
        parts = folder.split("/")
        for depth in range(1, len(parts) + 1):
            inner = "/".join(parts[:depth])
            python_here = any(Path(tree.root, inner).glob("*.py")) or depth < len(parts)
            plain = {"cli", "compat", "golden", "corpus", "state", "oracle"} & set(parts[:depth])
            if python_here and not plain and not (tree.root / inner / "__init__.py").exists():
                tree.write(f"{inner}/__init__.py", "")
    for path, old, text in EDITS:
        there = tree.read(path)
        if old.endswith("..."):  # a whole line, however it goes on
            found = re.findall(rf"^{re.escape(old[:-3])}.*\n", there, re.MULTILINE)
            old = found[0] if len(found) == 1 else old
        if there.count(old) != 1:
            raise Stop(f"{path}: the text of an edit stands there {there.count(old)} times, not once:\n{old}")
        tree.write(path, there.replace(old, text))
    if tools is not None:
        ruff = str(tools / "ruff")
        code = ["src", "tests", "bench", "experiments", "examples", "setup.py"]
        code = [name for name in code if (tree.root / name).exists()]
        fix = [ruff, "check", "--quiet", "--fix", "--exit-zero", "--select"]
        subprocess.run([*fix, "I", *code], cwd=tree.root, check=False)
        divided = {name for source, target, _, _ in SPLITS for name in (source, target)}
        paths = ["src/" + table.new_module(name).replace(".", "/") + ".py" for name in sorted(divided)]
        subprocess.run([*fix, "F401", *paths], cwd=tree.root, check=False)
        for path in paths:  # a block of imports that is empty now
            tree.write(path, tree.read(path).replace("\nif TYPE_CHECKING:\n    pass\n", ""))
        subprocess.run([*fix, "F401,I", *paths], cwd=tree.root, check=False)
        subprocess.run([ruff, "format", "--quiet", *code], cwd=tree.root, check=True)
        wrap(tree, ruff)
        subprocess.run([ruff, "format", "--quiet", *code], cwd=tree.root, check=True)
        check_patches(tree)
    keep_scores(tree, table, before)
    tree.git("add", "-A")
    for (old, new), count in sorted(words.without_ending.items()):
        print(f"{count:4} {old} -> {new}   (a path without its ending: look at these)")
    print("\n".join(words.several))
    if os.environ.get("MOVES_TOLD"):
        print("\n".join(f"{count:4} {old} -> {new}" for (old, new), count in sorted(words.told.items())))
    print(f"{len(table.moves)} files moved, {sum(words.told.values())} names and paths rewritten in text")


def told_of_code(table: Table, python: Python, results: dict[str, str]) -> None:
    """Patches, equivalent mutants and survivors hold lines of code: they get the local names of their files."""
    for path in [path for path in results if path.endswith(".patch")]:
        parts = re.split(r"(?m)^(?=--- a/)", results[path])
        for number, part in enumerate(parts):
            new = part[6 : part.find("\n")] if part.startswith("--- a/") else ""
            old = next((old for old, moved in table.moves.items() if moved == new), new)
            parts[number] = with_locals(part, python.locals.get(old, {}))
        results[path] = "".join(parts)
    names = {
        new.removeprefix("src/flintmq/").removesuffix(".py"): python.locals[old]
        for old, new in table.moves.items()
        if old in python.locals
    }
    path = table.new_path("tests/mutants/equivalent.toml")
    if path in results:
        blocks = re.split(r"(?m)^(?=\[\[mutant\]\])", results[path])
        for number, block in enumerate(blocks):
            module = re.search(r'^module = "(.*)"$', block, re.MULTILINE)
            blocks[number] = with_locals(block, names.get(module[1], {})) if module else block
        results[path] = "".join(blocks)
    path = table.new_path(STATE)
    if path in results:
        rows = json.loads(results[path])
        for module, row in rows.items():
            for survivor in row["survivors"]:
                for key in ("old", "new"):
                    survivor[key] = with_locals(survivor[key], names.get(module, {}))
        results[path] = json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


def check_patches(tree: Tree) -> None:
    """Each piece of each patch stands in its source exactly once, or did not before.

    Raises:
        Stop: one does not.
    """
    code = """if True:
        from pathlib import Path
        from tests.robustness.mutants import patches
        for mutant in patches.all_mutants():
            try:
                mutant.changed(Path("."))
            except patches.PatchError as error:
                print(error)
            for killer in mutant.killers:
                if not Path(killer.partition("::")[0]).exists():
                    print(mutant.name, killer)
    """
    done = subprocess.run(
        [str(tree.root / ".venv/bin/python"), "-c", code], cwd=tree.root, capture_output=True, text=True
    )
    if done.stdout or done.returncode:
        raise Stop(f"mutants: {done.stdout}{done.stderr[-600:]}")


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


STATE = "tests/torture/state/mutmut.json"


def fingerprints(tree: Tree, module: str, tests: list[str]) -> dict[str, str]:
    """What tests/mutants/scores.py keeps of a module and its tests."""

    def of(*names: str) -> str:
        return hashlib.sha256(b"".join((tree.root / name).read_bytes() for name in names)).hexdigest()[:12]

    return {"source": of(f"src/flintmq/{module}.py"), "tests": of(*tests)}


def tests_of(tree: Tree, package: str, modules: list[str]) -> dict[str, list[str]]:
    """The tests that a module's mutants are tried with. Asks the tree's own scores.py, in a process of its own."""
    code = f"""if True:
        import json, sys
        from {package} import scores
        print(json.dumps({{module: scores.tests_of(module) for module in {modules!r}}}))
    """
    python = tree.root / ".venv/bin/python"
    done = subprocess.run([str(python), "-c", code], cwd=tree.root, capture_output=True, text=True)
    if done.returncode != 0:
        raise Stop(f"{package}.scores cannot be asked: {done.stderr[-600:]}")
    return dict(json.loads(done.stdout))


def scores(tree: Tree) -> dict[str, dict[str, bool]]:
    """What of mutmut's figures holds: module -> whether its source is as it was when they were taken, and its tests."""
    if not (tree.root / STATE).exists():
        return {}
    found = {}
    rows = json.loads(tree.read(STATE))
    asked = tests_of(tree, "tests.mutants", list(rows))
    for module, row in rows.items():
        there = all((tree.root / path).exists() for path in [f"src/flintmq/{module}.py", *asked[module]])
        now = fingerprints(tree, module, asked[module]) if there else {}
        found[module] = {key: now.get(key) == row[key] for key in ("source", "tests")}
    return found


def keep_scores(tree: Tree, table: Table, held: dict[str, dict[str, bool]]) -> None:
    """Figures that held hold still: what was tried is the same but for names. The others stay as old as they were."""
    state = table.new_path(STATE)
    if not (tree.root / state).exists():
        return
    rows = json.loads(tree.read(state))
    news = {
        module: table.new_module("flintmq." + module.replace("/", ".")).removeprefix("flintmq.").replace(".", "/")
        for module in held
    }
    if set(news.values()) != set(rows):
        raise Stop(f"{state}: has {sorted(set(rows) ^ set(news.values()))}")
    asked = tests_of(tree, "tests.robustness.mutants", list(rows))
    for module, good in held.items():
        now = fingerprints(tree, news[module], asked[news[module]]) if any(good.values()) else {}
        rows[news[module]].update({key: now[key] for key, same in good.items() if same})
    tree.write(state, json.dumps(dict(sorted(rows.items())), indent=1, ensure_ascii=False) + "\n")
    kept = sum(all(good.values()) for good in held.values())
    print(f"mutmut: {kept} of {len(held)} figures held before and hold now")


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tree", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--tools", type=Path, help="a folder with ruff")
    parser.add_argument("--keep", action="store_true", help="where it stops, leave the tree as far as it came")
    given = parser.parse_args()
    tree = Tree(given.tree.resolve())
    if tree.git("status", "--porcelain"):
        print(f"move.py: {tree.root}: not clean; commit or stash first", file=sys.stderr)
        return 1
    try:
        run(tree, given.tools.resolve() if given.tools else None)
    except Stop as stop:
        print(f"move.py: stopped:\n{stop}", file=sys.stderr)
        if not given.keep:
            tree.git("reset", "--quiet", "--hard")
            tree.git("clean", "-fdq")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
