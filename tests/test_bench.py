"""bench/: a figure that is older than the code it measures is never called held."""

import ast
import importlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / "bench"
PACE = "loop 50 ns, fresh memory 2.0 GB/s, stolen 0 ticks"


@pytest.fixture(autouse=True)
def on_path(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCH))
    yield
    for name in ("harness", "pace", "provenance", "report", "run"):
        sys.modules.pop(name, None)


@pytest.fixture
def bench() -> Any:
    return importlib.import_module("run")


class Checkout:
    """A repository with two pieces of code, and the results of a bench that measures one of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.results, self.page = root / "results.json", root / "RESULTS.md"
        self.git("init", "-q")
        self.write("src/flintmq/store/put.py", "1")
        self.write("src/flintmq/cli/app.py", "1")
        self.write(".gitignore", "results.json\nRESULTS.md\n")
        self.commit()
        self.provenance, self.report = importlib.import_module("provenance"), importlib.import_module("report")
        self.harness = importlib.import_module("harness")
        self.repository = self.provenance.Repository(root)
        self.code = ("src/flintmq/store",)
        self.context = self.harness.Context(root, 64, 5, False)

    def git(self, *words: str) -> str:
        names = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(["git", "-C", str(self.root), *names, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, encoding="utf-8")

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", "a change")

    def measure(self, line: str = "P8", ids: tuple[str, ...] = ("P8.java",), ratio: float = 3.0, **more: Any) -> None:
        before = self.repository.state(self.code)
        results = [self.harness.Result(id_, "words", ratio, **{"bar": 2.0} | more) for id_ in ids]
        after = self.repository.state(self.code)
        self.report.save(line, results, self.context, before, after, self.code, PACE, self.results, self.page)

    def marks(self) -> dict[str, str]:
        known = self.report.load(self.results)
        return {id_: self.provenance.mark(entry, self.repository) for id_, entry in known.items()}

    def told(self) -> int:
        code: int = self.report.tell(self.results, self.page, self.repository)
        return code


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_a_bar_is_held_missed_or_there_is_none(checkout: Checkout):
    checkout.measure("P8", ("P8.java",))
    checkout.measure("P1", ("P1.mapped",), ratio=1.0)
    checkout.measure("P2", ("P2.mapped",), ratio=1.0, at_most=True)
    checkout.measure("S10", ("S10.source",), bar=None)
    assert checkout.marks() == {"P1.mapped": "missed", "P2.mapped": "held", "P8.java": "held", "S10.source": "no bar"}
    assert checkout.told() == 1
    page = checkout.page.read_text(encoding="utf-8")
    commit = checkout.repository.head()[:8]
    assert f"At commit {commit}: 2 held, 1 missed, 0 stale, 1 without a bar; missed: P1.mapped." in page
    assert f"| P8.java | words | **3.00** | >= 2 | held | {commit} |" in page


def test_a_figure_that_is_older_than_its_code_is_stale_and_never_held(checkout: Checkout):
    checkout.measure()
    measured = checkout.repository.head()[:8]
    assert checkout.marks() == {"P8.java": "held"} and checkout.told() == 0
    for count, words in ((1, "1 commit"), (2, "2 commits")):
        checkout.write("src/flintmq/store/put.py", f"changed {count} times")
        checkout.commit()
        wanted = f"stale (measured on {measured}, code changed in store: {words})"
        assert checkout.marks() == {"P8.java": wanted}
        assert checkout.told() == 1
        page = checkout.page.read_text(encoding="utf-8")
        assert f"**{wanted}**" in page and "| held |" not in page and ": 0 held, 0 missed, 1 stale" in page
        assert not checkout.report.is_fresh("P8", 64, 5, checkout.report.load(checkout.results), checkout.repository)
    checkout.measure()
    assert checkout.marks() == {"P8.java": "held"}, "measured again"


def test_code_that_a_line_does_not_measure_may_change(checkout: Checkout):
    checkout.measure()
    checkout.write("src/flintmq/cli/app.py", "2")
    checkout.commit()
    assert checkout.marks() == {"P8.java": "held"}


@pytest.mark.parametrize("name", ["src/flintmq/store/put.py", "src/flintmq/store/new.py"])
def test_a_change_that_is_not_committed_counts_too(checkout: Checkout, name: str):
    checkout.measure()
    measured = checkout.repository.head()[:8]
    checkout.write(name, "2")
    assert checkout.marks() == {"P8.java": f"stale (measured on {measured}, code changed in store: 0 commits)"}
    checkout.measure()
    wanted = f"stale (measured on {measured} with changes that were not committed)"
    assert checkout.marks() == {"P8.java": wanted}
    checkout.commit()
    assert checkout.marks() == {"P8.java": wanted}, "nobody knows what was measured"


def test_code_that_changes_while_it_is_measured_is_stale(checkout: Checkout):
    before = checkout.repository.state(checkout.code)
    checkout.write("src/flintmq/store/put.py", "2")
    checkout.commit()
    after = checkout.repository.state(checkout.code)
    assert before == replace(before, changed=False) and after.commit != before.commit
    results = [checkout.harness.Result("P8.java", "words", 3.0, 2.0)]
    args = (before, after, checkout.code, PACE, checkout.results, checkout.page)
    checkout.report.save("P8", results, checkout.context, *args)
    assert checkout.marks()["P8.java"].startswith("stale (")


@pytest.mark.parametrize("entry", [{}, {"commit": "", "code": ["src"]}, {"commit": "0" * 40, "code": ["src"]}], ids=str)
def test_a_figure_whose_commit_is_unknown_is_stale(checkout: Checkout, entry: dict[str, Any]):
    line = {"bar": 2.0, "holds": True, "changed": False} | entry
    assert checkout.provenance.mark(line, checkout.repository).startswith("stale (")


def test_without_a_repository_nothing_is_held(checkout: Checkout, tmp_path_factory: pytest.TempPathFactory):
    checkout.measure()
    elsewhere = checkout.provenance.Repository(tmp_path_factory.mktemp("elsewhere"))
    entry = checkout.report.load(checkout.results)["P8.java"]
    assert checkout.provenance.mark(entry, elsewhere).startswith("stale (")
    assert elsewhere.state(checkout.code) == checkout.provenance.Measured("", True)


def test_ids_that_a_line_no_longer_has_go_and_other_lines_stay(checkout: Checkout):
    checkout.measure("P6", ("P6",))
    checkout.measure("P1", ("P1.mapped",))
    checkout.measure("P1u", ("P1u",))
    checkout.measure("P6", ("P6.mapped", "P6.pool"))
    assert list(checkout.marks()) == ["P1.mapped", "P1u", "P6.mapped", "P6.pool"]


def test_a_run_that_was_cut_goes_on_with_what_is_missing_stale_or_of_another_size(checkout: Checkout):
    checkout.measure("P1", ("P1.mapped",), ratio=1.0)

    def fresh(line: str, mib: int = 64, rounds: int = 5) -> bool:
        found: bool = checkout.report.is_fresh(
            line, mib, rounds, checkout.report.load(checkout.results), checkout.repository
        )
        return found

    assert fresh("P1"), "missed, but measured"
    assert not fresh("P2") and not fresh("P1", mib=1024) and not fresh("P1", rounds=7)


def test_resume_measures_only_what_is_not_fresh(bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any):
    measured: list[str] = []
    monkeypatch.setattr(bench, "run_line", lambda context, line: measured.append(line) or [])
    monkeypatch.setattr(bench.report, "is_fresh", lambda line, mib, rounds: line == "P7")
    assert bench.main(["--only", "P7 P8,P9b", "--resume"]) == 0
    assert measured == ["P8", "P9b"] and "as it is now: P7" in capsys.readouterr().out
    assert bench.main(["--only", "P7 P8"]) == 0
    assert measured == ["P8", "P9b", "P7", "P8"]
    assert bench.main(["--only", "P7 PX"]) == 2


def functions(path: Path) -> set[str]:
    """The lines that a module of bench/ has: the keys of its LINES."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    [found] = [n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "LINES"]
    assert isinstance(found, ast.Dict)
    return {key.value for key in found.keys if isinstance(key, ast.Constant)}


def test_every_line_is_in_the_table_of_lines_and_documented(bench: Any):
    page = (ROOT / "docs/internals/bench.md").read_text(encoding="utf-8")
    for line, where in bench.MODULES.items():
        assert line in functions(BENCH / f"{where.module}.py"), line
        assert any(f"{line} " in row.split("|")[1].replace(",", " ,").replace("  ", " ") + " "
                   for row in page.splitlines() if row.startswith("|")), f"{line} is not in bench.md"  # fmt: skip
    have = {line for where in bench.MODULES.values() for line in functions(BENCH / f"{where.module}.py")}
    assert have == set(bench.MODULES)


def test_each_line_declares_the_code_that_its_module_imports(bench: Any):
    """The highest layer that a module imports is measured by one of its lines; every path exists."""
    layers = importlib.import_module("provenance").LAYERS
    for name in {where.module for where in bench.MODULES.values()}:
        tree = ast.parse((BENCH / f"{name}.py").read_text(encoding="utf-8"))
        froms = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        parts = [module.split(".")[1] for module in froms if module.startswith("flintmq.")]
        used = [layers.index(part) for part in parts if part in layers]
        declared = max(layers.index(where.layer) for where in bench.MODULES.values() if where.module == name)
        assert max(used, default=0) <= declared, name
    for where in bench.MODULES.values():
        assert all((ROOT / path).exists() for path in where.code), where
    everything = {path.name for path in (ROOT / "src/flintmq").iterdir() if not path.name.startswith("_")}
    assert everything - {"py.typed", "testing"} == set(layers)


def test_a_figure_keeps_the_pace_of_the_machine(checkout: Checkout):
    checkout.measure()
    assert checkout.report.load(checkout.results)["P8.java"]["pace"] == PACE
    assert f"| {PACE} |" in checkout.page.read_text(encoding="utf-8")


def test_the_pace_is_the_slower_one_of_both():
    pace = importlib.import_module("pace")
    slow, fast = pace.Pace(90.4, 1.26, 100), pace.Pace(50.0, 3.0, 107)
    for before, after, stolen in ((slow, fast, 7), (fast, slow, -7)):
        assert pace.words(before, after) == f"loop 90 ns, fresh memory 1.3 GB/s, stolen {stolen} ticks"
    now = pace.Pace.now()
    assert 1 < now.loop_ns < 100_000 and 0 < now.fresh_gbs < 1000 and now.stolen >= 0
