"""Rename classes and functions as names.py says, wherever they are meant: `rename.py GROUP [--told]`.

A name is followed by scopes, imports and re-exports, not by its letters; stubs, `.pxd`, patches of mutants, equivalent
mutants and survivors get the local names of their files. In docstrings and comments a name is changed where it can only
be the class. What cannot be told stops the script.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from names import GROUPS, METHODS, Names
from source import Scope, Source, Stop
from wrap import Tree, wrap

ROOT = Path(__file__).resolve().parents[2]
NEVER = re.compile(r"^(experiments/moves/|tests/compat/golden/|tests/.*corpus/|CHANGELOG.md)")
EQUIVALENT = "tests/robustness/mutants/equivalent.toml"
STATE = "tests/robustness/torture/state/mutmut.json"


def git(*words: str) -> str:
    """What git says."""
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def module_of(path: str) -> str:
    """The dotted name of a file."""
    name = path.rpartition(".")[0].removeprefix("src/").replace("/", ".")
    return name.removesuffix(".__init__")


class Renamer:
    """One group of names."""

    def __init__(self, names: Names, olds: set[str] | None = None) -> None:
        self.new = {(f"flintmq.{module}", old): new for module, old, new in names}
        self.files = [path for path in git("ls-files").splitlines() if not NEVER.match(path)]
        self.modules = {module_of(path): path for path in self.files if path.endswith(".py")}
        self.sources: dict[str, Source] = {}
        words = re.compile(rf"\b({'|'.join(re.escape(what) for what in olds or {old for _, old, _ in names})})\b")
        for path in self.files:
            if path.endswith((".py", ".pyi")):
                text = (ROOT / path).read_text(encoding="utf-8")
                if words.search(text):
                    self.sources[path] = Source(path, text)
        self.locals: dict[str, dict[str, str]] = defaultdict(dict)  # path -> old name there -> new
        self.told: list[str] = []
        self.problems: list[str] = []
        self.meaning: dict[tuple[str, str], tuple[str, str]] = {key: key for key in self.new}
        for key in self.new:
            path = self.modules.get(key[0])
            if path is None or key[1] not in self.sources[path].scopes[0].bound:
                self.problems.append(f"{key[0]}.{key[1]}: is not there")
        changed = True
        while changed:  # re-exports
            changed = False
            for path, source in self.sources.items():
                for node in ast.walk(source.tree):
                    if isinstance(node, ast.ImportFrom):
                        for alias in node.names:
                            key, here = (node.module or "", alias.name), (module_of(path), alias.asname or alias.name)
                            if key in self.meaning and here not in self.meaning:
                                self.meaning[here] = self.meaning[key]
                                changed = True
        # how often a name is defined in the package, so that `module.Name` in prose is told apart
        self.homes: dict[str, set[str]] = defaultdict(set)
        for path, source in self.sources.items():
            for name in source.scopes[0].bound:
                self.homes[f"{module_of(path).rpartition('.')[2]}.{name}"].add(module_of(path))

    def run(self) -> None:
        """Rename."""
        results = {}
        for path, source in self.sources.items():
            self.file(path, source)
            results[path] = source
        if self.problems:
            raise Stop("\n".join(self.problems))
        for path, source in results.items():
            text = source.result()
            if text != source.text:
                (ROOT / path).write_text(text, encoding="utf-8")
        for path in self.files:
            if path.endswith((".pxd", ".md", ".toml", ".patch", "mutmut.json", "mypy.ini")):
                self.other(path)
        self.survivors()

    def file(self, path: str, source: Source) -> None:
        """One file of Python."""
        module = module_of(path)
        top = source.scopes[0]
        renames: list[tuple[Scope, str, str]] = []
        aliases: dict[int, str] = {}  # id(alias) -> full module that it binds
        for scope in source.scopes:
            for bound, nodes in scope.bound.items():
                news = set()
                for node in nodes:
                    if isinstance(node, ast.alias):
                        key = self._imported(source, node)
                        if key is not None and key[1] == "":
                            aliases[id(node)] = key[0]
                        if key in self.meaning and node.asname is None:
                            news.add(self.new[self.meaning[key]])
                        else:
                            news.add("")
                    elif scope is top and (module, bound) in self.new:
                        news.add(self.new[module, bound])
                    else:
                        news.add("")
                if news == {""}:
                    continue
                if len(news) > 1:
                    self.problems.append(f"{path}: {bound} is bound to several things")
                    continue
                renames.append((scope, bound, news.pop()))
        for scope, old, new in renames:
            self._rename(path, source, scope, old, new)
        self._imports(path, source)
        self._chains(path, source, aliases)
        self._texts(path, source, {old: new for _, old, new in renames})
        for _, old, new in renames:
            self.locals[path][old] = new

    def _imported(self, source: Source, alias: ast.alias) -> tuple[str, str] | None:
        if not hasattr(source, "imports"):
            found: dict[int, tuple[str, str]] = {}
            for node in ast.walk(source.tree):
                if isinstance(node, ast.ImportFrom):
                    for one in node.names:
                        full = f"{node.module}.{one.name}"
                        name = (node.module or "").removeprefix("cython.cimports.")
                        found[id(one)] = (full, "") if full in self.modules else (name, one.name)
                elif isinstance(node, ast.Import):
                    for one in node.names:
                        found[id(one)] = (one.name if one.asname else one.name.partition(".")[0], "")
            source.imports = found  # type: ignore[attr-defined]
        return source.imports.get(id(alias))  # type: ignore[attr-defined, no-any-return]

    def _rename(self, path: str, source: Source, scope: Scope, old: str, new: str) -> None:
        inner = [one for one in source.scopes if self._inside(one, scope)]
        if any(new in one.bound for one in inner) or source.resolve(scope, new) is not None:
            self.problems.append(f"{path}: {new} is bound already, for {old}")
            return
        for one in source.scopes:
            for use in one.uses:
                if use.id == old and source.resolve(one, old) is scope:
                    begin, _ = source.span(use)
                    source.replace(begin, begin + len(old), new)
            if old in one.outer and source.resolve(scope, old) is scope:
                self.problems.append(f"{path}: global {old}")
        for node in scope.bound[old]:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                begin, _ = source.span(node)
                text = source.segment(node)
                at = re.match(r"(class|def|async def)\s+", text)
                assert at is not None
                source.replace(begin + at.end(), begin + at.end() + len(old), new)

    @staticmethod
    def _inside(scope: Scope | None, outer: Scope) -> bool:
        while scope is not None:
            if scope is outer:
                return True
            scope = scope.parent
        return False

    def _imports(self, path: str, source: Source) -> None:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    key = self._imported(source, alias)
                    if key in self.meaning:
                        begin, _ = source.span(alias)
                        new = self.new[self.meaning[key]]
                        source.replace(begin, begin + len(alias.name), new)
                        if alias.asname == new:
                            self.told.append(f"{path}: imports {alias.name} as {new}: drop the alias")

    def _module(self, source: Source, scope: Scope, node: ast.expr) -> str | None:
        """The module that an expression is."""
        if isinstance(node, ast.Name):
            where = source.resolve(scope, node.id)
            nodes = where.bound[node.id] if where else []
            found = {self._imported(source, one) for one in nodes if isinstance(one, ast.alias)}
            if len(nodes) and len(found) == 1:
                key = found.pop()
                if key is not None and key[1] == "":
                    return key[0]
        elif isinstance(node, ast.Attribute):
            above = self._module(source, scope, node.value)
            if above is not None and (f"{above}.{node.attr}" in self.modules or above == "flintmq"):
                return f"{above}.{node.attr}"
        return None

    def _chains(self, path: str, source: Source, aliases: dict[int, str]) -> None:
        uses = {id(use): scope for scope in source.scopes for use in scope.uses}
        olds = {old for _, old in self.meaning}
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Attribute) and node.attr in olds:
                root: ast.expr = node
                while isinstance(root, ast.Attribute):
                    root = root.value
                if not isinstance(root, ast.Name) or id(root) not in uses:
                    continue
                module = self._module(source, uses[id(root)], node.value)
                key = (module or "", node.attr)
                if key in self.meaning:
                    _, end = source.span(node)
                    new = self.new[self.meaning[key]]
                    source.replace(end - len(node.attr), end, new)
                    self.locals[path][f"{ast.unparse(node.value)}.{node.attr}"] = f"{ast.unparse(node.value)}.{new}"
            if isinstance(node, ast.Call) and len(node.args) >= 2:
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                second = node.args[1]
                if called in ("setattr", "getattr", "delattr", "object", "hasattr", "swapped", "replaced") and (
                    isinstance(second, ast.Constant) and second.value in olds
                ):
                    root = node.args[0]
                    while isinstance(root, ast.Attribute):
                        root = root.value
                    scope = uses.get(id(root))
                    module = self._module(source, scope, node.args[0]) if scope else None
                    key = (module or "", str(second.value))
                    if key in self.meaning:
                        begin, end = source.span(second)
                        source.replace(begin, end, f'"{self.new[self.meaning[key]]}"')
                    else:
                        self.told.append(f"{path}:{node.lineno}: {ast.unparse(node)[:100]} not followed")

    DOTTED = re.compile(r"(?<![\w./-])((?:[a-z_]\w*\.)+)(_?[A-Za-z]\w*)\b")

    def _dotted(self, found: re.Match[str]) -> str:
        """`a.b.Name` or `b.Name` in a text."""
        module, name = found[1][:-1], found[2]
        if module.startswith("flintmq."):
            key = self.meaning.get((module, name))
            return found[1] + self.new[key] if key else found[0]
        last = module.rpartition(".")[2]
        homes = {key for key in self.new if key[0].endswith(f".{module}") and key[1] == name}
        if len(homes) == 1 and len(self.homes[f"{last}.{name}"]) == 1:
            return found[1] + self.new[homes.pop()]
        return found[0]

    def _texts(self, path: str, source: Source, renames: dict[str, str]) -> None:
        spans = [(begin, end) for begin, end, _ in source._edits]
        for begin, end, text in source.texts():
            if any(b <= begin and end <= e for b, e in spans):
                continue
            new = self.DOTTED.sub(self._dotted, text)
            prose = text.startswith(("#", '"""'))
            line = source._raw[:begin].count(b"\n") + 1
            for old, better in renames.items():
                if prose:
                    new = self.prose(new, old, better, f"{path}:{line}")
                elif re.search(rf"\b{old}\b", new) and (
                    re.fullmatch(r"[rf]?[\"'][\w\.\[\], |]+[\"']", new) or "Error" in new
                ):
                    before = source._raw[max(0, begin - 60) : begin].decode(errors="replace")
                    typed = re.search(r"(cast\(|TypeAlias = |TypeVar\(.*, |Union\[|: |\[|bound=|-> )$", before)
                    if typed and re.fullmatch(r"[\"'][\w\.\[\], |]+[\"']", new) and (old[0].isupper() or old[0] == "_"):
                        new = re.sub(rf"(?<![\w.]){old}\b", better, new)
                        self.told.append(f"{path}:{line}: type in a string: {text} -> {new}")
                    else:
                        self.told.append(f"{path}:{line}: left: {text[:90]}")
            source.replace(begin, end, new)

    def prose(self, text: str, old: str, new: str, where: str) -> str:
        """Prose of a file in which `old` is a class or function that is renamed."""
        humps = len(re.findall(r"[A-Z][a-z]+", old)) > 1 or "_" in old.strip("_")

        def one(found: re.Match[str]) -> str:
            before, behind = text[: found.start()], text[found.end() :]
            if re.search(r"[Uu]pstream[^.]*$", before):  # its class of that name
                return found[0]
            ticked = before.endswith("`") and re.match(r"[`.(]", behind)
            sure = bool(ticked or humps or re.match(r"\.[a-z_]+\b(?!\s[A-Z])", behind) or re.match(r"\(", behind))
            if not sure and old[0].isupper():
                inner = re.search(r"\bSee $|(?:\b[a-z]\w*,?|\() $|\($", before)
                sure = bool(inner)
            plural = not ticked and re.match(r"s\b", behind)
            self.told.append(
                f"{where}: {'CHANGED' if sure and not plural else 'left'}: "
                f"{(before[-30:] + '<' + old + '>' + behind[:25])!r}"
            )
            return new if sure and not plural else found[0]

        return re.sub(rf"(?<![\w./]){re.escape(old)}\b", one, text)

    def other(self, path: str) -> None:
        """A page, a declaration of types for C, a patch."""
        text = (ROOT / path).read_text(encoding="utf-8")
        new = self.DOTTED.sub(self._dotted, text)
        if path.endswith(".pxd"):
            base = module_of(path)
            for (module, old), better in self.new.items():
                if module == base or re.search(rf"from {re.escape(module)} cimport .*\b{old}\b", text):
                    new = re.sub(rf"(?<![\w.]){old}\b", better, new)
        elif path.endswith(".patch"):
            parts = re.split(r"(?m)^(?=--- a/)", new)
            for number, part in enumerate(parts):
                source = part[6 : part.find("\n")] if part.startswith("--- a/") else ""
                parts[number] = self.with_locals(part, self.locals.get(source, {}))
            new = "".join(parts)
        elif path == EQUIVALENT:
            blocks = re.split(r"(?m)^(?=\[\[mutant\]\])", new)
            for number, block in enumerate(blocks):
                found = re.search(r'^module = "(.*)"$', block, re.MULTILINE)
                if found:
                    blocks[number] = self.with_locals(block, self.locals.get(f"src/flintmq/{found[1]}.py", {}))
            new = "".join(blocks)
        elif path.endswith(".md"):
            for (_, old), better in self.new.items():
                if re.search(rf"`{old}\b", new):
                    self.told.append(f"{path}: `{old}` may be {better}")
        if new != text:
            (ROOT / path).write_text(new, encoding="utf-8")

    @staticmethod
    def with_locals(text: str, names: dict[str, str]) -> str:
        """Code with the new names of its file."""
        for old, new in names.items():
            before = r"(?<![\w.])" if "." not in old else r"(?<!\w)"
            text = re.sub(rf"{before}{re.escape(old)}\b(?!-)", new, text)
        return text

    def survivors(self) -> None:
        """Lines of code that mutmut's figures hold."""
        if not (ROOT / STATE).exists():
            return
        rows = json.loads((ROOT / STATE).read_text())
        for module, row in rows.items():
            for survivor in row["survivors"]:
                for old, new in self.locals.get(f"src/flintmq/{module}.py", {}).items():
                    survivor["name"] = survivor["name"].replace(f"ǁ{old}ǁ", f"ǁ{new}ǁ")
                for key in ("old", "new", "function"):
                    survivor[key] = self.with_locals(survivor[key], self.locals.get(f"src/flintmq/{module}.py", {}))
        (ROOT / STATE).write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


class Methods(Renamer):
    """Methods: the table says which receivers are of the class, mypy afterwards whether all of them were found."""

    def __init__(self, names: list[tuple[str, str, str, str]]) -> None:
        super().__init__([], {what.partition(".")[2] for _, what, _, _ in names})
        self.names = names

    def run(self) -> None:
        """Rename."""
        count: Counter[str] = Counter()
        for path, source in self.sources.items():
            edits = {}
            for module, what, new, sites in self.names:
                owner, _, old = what.partition(".")
                for node in ast.walk(source.tree):
                    if isinstance(node, ast.Attribute) and node.attr == old:
                        if re.search(sites, f"{path}:{ast.unparse(node.value)}"):
                            _, end = source.span(node)
                            edits[end - len(old), end] = new
                            self.locals[path][f".{old}"] = f".{new}"
                            count[what] += 1
                    elif isinstance(node, ast.ClassDef):
                        mine = module_of(path) == f"flintmq.{module}" and node.name == owner
                        for item in node.body:
                            if isinstance(item, ast.FunctionDef) and item.name == old and (mine or sites == ""):
                                begin, _ = source.span(item)
                                edits[begin + 4, begin + 4 + len(old)] = new
                                self.locals[path][f"def {old}"] = f"def {new}"
                                count[f"def {what}"] += 1
                    elif isinstance(node, ast.Call) and [ast.unparse(one) for one in node.args[:2]] == [
                        owner,
                        repr(old),
                    ]:
                        begin, end = source.span(node.args[1])  # of setattr
                        edits[begin + 1, end - 1] = new
                        count[what] += 1
            for (begin, end), new in edits.items():
                source.replace(begin, end, new)
            for begin, end, text in source.texts():
                better = text
                if text.startswith(("#", '"""')):
                    for _, what, new, _ in self.names:
                        owner, _, old = what.partition(".")
                        better = re.sub(rf"\b{owner}\.{old}\b", f"{owner}.{new}", better)
                        if re.search(r"_", old):
                            better = re.sub(rf"(?<![\w])`{old}`", f"`{new}`", better)
                    source.replace(begin, end, better)
        missing = [what for _, what, _, _ in self.names if not count[what]]
        if missing:
            raise Stop(f"no use of {missing}")
        for path, source in self.sources.items():
            text = source.result()
            if text != source.text:
                (ROOT / path).write_text(text, encoding="utf-8")
        for path in self.files:
            if path.endswith((".patch", EQUIVALENT)):
                self.other(path)
        self.survivors()
        print(dict(count))

    @staticmethod
    def with_locals(text: str, names: dict[str, str]) -> str:
        """Code with the new names of its file."""
        for old, new in names.items():
            text = re.sub(rf"{re.escape(old)}\b(?!-)", new, text)
            if old.startswith("def "):
                text = re.sub(rf"(\\?\.){re.escape(old[4:])}(?=['\"])", lambda m, new=new: m[1] + new[4:], text)  # type: ignore
        return text


def check_patches() -> None:
    """Each piece of each patch stands in its source exactly once."""
    code = """if True:
        from pathlib import Path
        from tests.robustness.mutants import patches
        for mutant in patches.all_mutants():
            try:
                mutant.changed(Path("."))
            except patches.PatchError as error:
                print(error)
    """
    done = subprocess.run([str(ROOT / ".venv/bin/python"), "-c", code], cwd=ROOT, capture_output=True, text=True)
    if done.stdout or done.returncode:
        print(f"PATCHES: {done.stdout}{done.stderr[-600:]}")


def fingerprints() -> dict[str, dict[str, str]]:
    """What tests/robustness/mutants/scores.py keeps of each module and its tests, as the tree is now."""
    rows = json.loads((ROOT / STATE).read_text())
    code = f"""if True:
        import json
        from tests.robustness.mutants import scores
        print(json.dumps({{module: scores.tests_of(module) for module in {list(rows)!r}}}))
    """
    done = subprocess.run([str(ROOT / ".venv/bin/python"), "-c", code], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise Stop(done.stderr[-600:])

    def of(*names: str) -> str:
        return hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in names)).hexdigest()[:12]

    return {
        module: {"source": of(f"src/flintmq/{module}.py"), "tests": of(*tests)}
        for module, tests in json.loads(done.stdout).items()
    }


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("group", choices=[*GROUPS, "methods"])
    parser.add_argument("--told", action="store_true")
    given = parser.parse_args()
    held = {}
    rows = json.loads((ROOT / STATE).read_text())
    now = fingerprints()
    for module, row in rows.items():
        held[module] = [key for key in ("source", "tests") if now[module][key] == row[key]]
    renamer = Methods(METHODS) if given.group == "methods" else Renamer(GROUPS[given.group])
    try:
        renamer.run()
    except Stop as stop:
        print(f"rename.py: stopped:\n{stop}", file=sys.stderr)
        return 1
    print(*(renamer.told if given.told else []), sep="\n")
    code = ["src", "tests", "bench", "experiments", "examples", "setup.py"]
    subprocess.run(
        [".venv/bin/ruff", "check", "-q", "--fix", "--exit-zero", "--select", "I", *code], cwd=ROOT, check=False
    )
    subprocess.run([".venv/bin/ruff", "format", "-q", *code], cwd=ROOT, check=True)
    try:
        wrap(Tree(ROOT), ".venv/bin/ruff")
    except Stop as stop:
        print(stop)
    subprocess.run([".venv/bin/ruff", "format", "-q", *code], cwd=ROOT, check=True)
    subprocess.run([".venv/bin/ruff", "check", "-q", "."], cwd=ROOT, check=False)
    check_patches()
    rows = json.loads((ROOT / STATE).read_text())
    now = fingerprints()
    for module, keys in held.items():
        rows[module].update({key: now[module][key] for key in keys})
    (ROOT / STATE).write_text(json.dumps(dict(sorted(rows.items())), indent=1, ensure_ascii=False) + "\n")
    print("figures that held:", Counter(len(keys) for keys in held.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
