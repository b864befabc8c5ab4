"""bench/: a figure that is older than the code it measures is never called held."""

import ast
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.threads import within

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / "bench"
PACE = "loop 50 ns, fresh memory 2.0 GB/s, stolen 0 ticks"


@pytest.fixture(autouse=True)
def on_path(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCH))
    yield
    for name in [path.stem for path in BENCH.glob("*.py")]:
        sys.modules.pop(name, None)


@pytest.fixture
def bench() -> Any:
    return importlib.import_module("run")


def made_lines() -> tuple[Any, ...]:
    """Four lines of two families that measure the layer `store`, in an order that is not that of their ids."""
    lines = importlib.import_module("lines")
    rest = ("peer", "put_lines", "store", "words", "bound")
    bars = {"P8.java": ">= 2", "P8.bare": "", "P1.mapped": "<= 0.25", "P1.pool": "<= 4"}
    return tuple(lines.Line(id_, number, bar, None, *rest) for number, (id_, bar) in enumerate(bars.items(), 7))


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
        self.lines = self.report.LINES = made_lines()
        self.repository = self.provenance.Repository(root)
        self.code = self.lines[0].code
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

    def measure(self, *ids: str, rounds: tuple[float, ...] = (3.0,)) -> None:
        """Measure some lines of one family; P8.java if none is named."""
        results = {id_: self.result(*rounds) for id_ in ids or ("P8.java",)}
        before = self.repository.state(self.code)
        self.save(next(iter(results)).partition(".")[0], results, before, self.repository.state(self.code))

    def result(self, *rounds: float) -> Any:
        return self.harness.Result(self.harness.Series(rounds))

    def save(self, family: str, found: dict[str, Any], before: Any, after: Any) -> None:
        self.report.save(family, found, self.context, before, after, PACE, self.results, self.page)

    def marks(self) -> dict[str, str]:
        """The marks of lines that have a figure."""
        known = self.report.load(self.results)
        return {id_: found for id_, found in self.report.marks(known, self.repository).items() if id_ in known}

    def told(self) -> int:
        code: int = self.report.tell(self.results, self.page, self.repository)
        return code


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_a_bar_is_held_missed_or_there_is_none(checkout: Checkout):
    checkout.measure("P1.mapped", "P1.pool")
    checkout.measure("P8.java", "P8.bare")
    assert checkout.marks() == {"P8.java": "held", "P8.bare": "no bar", "P1.mapped": "missed", "P1.pool": "held"}
    assert checkout.told() == 1
    page = checkout.page.read_text(encoding="utf-8")
    commit = checkout.repository.head()[:8]
    assert f"At commit {commit}: 2 held, 1 missed, 0 stale, 0 without a figure yet, 1 without a bar; " in page
    assert "without a bar; missed: P1.mapped." in page
    assert f"| 7 | P8.java | words | **3.00** | >= 2 | held | {commit} |  | peer | bound |" in page


def test_a_line_without_a_figure_is_told_and_not_held(checkout: Checkout):
    checkout.measure("P8.java", "P8.bare")
    assert checkout.told() == 1, "P1 was not measured"
    page = checkout.page.read_text(encoding="utf-8")
    assert "| 9 | P1.mapped | words |  | <= 0.25 | **no figure yet** |  |" in page and "2 without a figure yet" in page


def test_a_spread_above_a_tenth_is_told(checkout: Checkout):
    checkout.measure("P8.java", rounds=(3.0, 3.1, 2.95))
    assert "| **3.00** |" in checkout.page.read_text(encoding="utf-8")
    checkout.measure("P8.java", rounds=(3.0, 3.4, 2.9))
    assert "| **3.00** (2.90 to 3.40) |" in checkout.page.read_text(encoding="utf-8")


def test_a_bar_that_moves_judges_figures_that_are_there(checkout: Checkout):
    checkout.measure("P8.java")
    checkout.report.LINES = tuple(line._replace(bar=">= 4") if line.bar == ">= 2" else line for line in checkout.lines)
    assert checkout.marks() == {"P8.java": "missed"}


def test_a_figure_that_is_older_than_its_code_is_stale_and_never_held(checkout: Checkout):
    checkout.measure()
    measured = checkout.repository.head()[:8]
    assert checkout.marks() == {"P8.java": "held"}
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
    checkout.save("P8", {"P8.java": checkout.result(3.0)}, before, after)
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


def test_what_a_family_did_not_measure_again_goes_and_other_families_stay(checkout: Checkout):
    checkout.measure("P1.mapped", "P1.pool")
    checkout.measure("P8.java", "P8.bare")
    checkout.measure("P8.java")
    assert list(checkout.marks()) == ["P8.java", "P1.mapped", "P1.pool"]


def test_a_run_that_was_cut_goes_on_with_what_is_missing_stale_or_of_another_size(checkout: Checkout):
    checkout.measure("P1.mapped")

    def fresh(line: str, mib: int = 64, rounds: int = 5) -> bool:
        found: bool = checkout.report.is_fresh(
            line, mib, rounds, checkout.report.load(checkout.results), checkout.repository
        )
        return found

    assert fresh("P1"), "missed, but measured"
    assert not fresh("P8") and not fresh("P1", mib=1024) and not fresh("P1", rounds=7)


def test_resume_measures_only_what_is_not_fresh(bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any):
    measured: list[str] = []
    monkeypatch.setattr(bench, "run_family", lambda context, family: measured.append(family) or {})
    monkeypatch.setattr(bench.report, "is_fresh", lambda family, mib, rounds: family == "P7")
    assert bench.main(["--only", "P7 P8,P9b", "--resume"]) == 0
    assert measured == ["P8", "P9b"] and "as it is now: P7" in capsys.readouterr().out
    assert bench.main(["--only", "P7 P8"]) == 0
    assert measured == ["P8", "P9b", "P7", "P8"]
    assert bench.main(["--only", "P7 PX"]) == 2
    assert "no such line: PX" in capsys.readouterr().err


def test_lines_are_chosen_by_number_too(bench: Any):
    assert bench.families(["7", "P8", "24"]) == ["P8", "P13", "P19"]
    assert bench.families(["37"]) == ["HA1", "HA4", "HA7"]
    assert bench.families(["39", "41", "45"]) == ["B1", "B2", "B6"]
    assert bench.families([]) == list(bench.FAMILIES)


def functions(path: Path) -> set[str]:
    """The families that a module of bench/ measures: the keys of its FAMILIES."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    [found] = [n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "FAMILIES"]
    assert isinstance(found, ast.Dict)
    return {key.value for key in found.keys if isinstance(key, ast.Constant)}


def test_every_line_is_declared_once_and_measured_by_its_module(bench: Any):
    lines = bench.LINES
    assert len({line.id for line in lines}) == len(lines)
    assert [line.number for line in lines] == sorted(line.number for line in lines)
    assert {line.number for line in lines} == set(range(1, 47))
    for family, where in bench.FAMILIES.items():
        mine = [line for line in lines if line.family == family]
        assert {(line.module, line.layer) for line in mine} == {(where.module, where.layer)}, family
        assert family in functions(BENCH / f"{where.module}.py"), family
    have = {family for path in BENCH.glob("*_lines.py") for family in functions(path)}
    assert have == set(bench.FAMILIES)


def test_every_bar_is_a_bound_and_a_number(bench: Any):
    for line in bench.LINES:
        assert line.bar == "" or (line.bar[:3] in ("<= ", ">= ") and line.limit is not None), line.id
        assert line.bar or line.moonshot is None, line.id
    for number in {line.number for line in bench.LINES}:
        assert any(line.bar for line in bench.LINES if line.number == number), number


def test_results_are_of_lines_that_there_are(bench: Any):
    known = bench.report.load()
    declared = {line.id: line for line in bench.LINES}
    assert known.keys() <= declared.keys()
    assert all(entry["bar"] == declared[id_].limit for id_, entry in known.items())
    page = (BENCH / "RESULTS.md").read_text(encoding="utf-8")
    assert all(f"| {line.number} | {line.id} | {line.what} |" in page for line in bench.LINES)


def test_each_line_declares_the_code_that_its_module_imports(bench: Any):
    """The highest layer that a module imports is measured by one of its lines; every path exists."""
    layers = importlib.import_module("provenance").LAYERS
    for name in {where.module for where in bench.FAMILIES.values()}:
        tree = ast.parse((BENCH / f"{name}.py").read_text(encoding="utf-8"))
        froms = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        parts = [module.split(".")[1] for module in froms if module.startswith("flintmq.")]
        used = [layers.index(part) for part in parts if part in layers]
        declared = max(layers.index(where.layer) for where in bench.FAMILIES.values() if where.module == name)
        assert max(used, default=0) <= declared, name
    for where in bench.LINES:
        assert all((ROOT / path).exists() for path in where.code), where
    everything = {path.name for path in (ROOT / "src/flintmq").iterdir() if not path.name.startswith("_")}
    assert everything - {"py.typed", "testing"} == set(layers)


def test_a_ratio_of_medians_knows_its_rounds(bench: Any):
    series = importlib.import_module("harness").Series
    ratio = (series([9.0, 5.0, 8.0]) - series([1.0, 1.0, 2.0])) / series([4.0, 2.0, 2.0])
    assert ratio.figure == 7 / 2 and ratio.rounds == [2.0, 2.0, 3.0] and ratio.spread == (2.0, 3.0)
    assert (ratio / 2).rounds == [1.0, 1.0, 1.5] and series([100.0, 109.0]).spread is None


class AnsweringClient:
    """A client that has one answer; it keeps how the broker was at that time."""

    def __init__(self, process: subprocess.Popen[bytes], **answer: float) -> None:
        self.process, self.answer, self.states = process, answer, list[str]()

    def ask(self, op: str, names: str, **words: Any) -> dict[str, float]:
        self.states.append(state(self.process))
        return self.answer


def state(process: subprocess.Popen[bytes]) -> str:
    """A letter of proc(5): S sleeps, T is stopped."""
    return Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    """A process in place of a broker."""
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


LOSSES = {
    "send": [{"acknowledged": 9, "stored": 10}, {"acknowledged": 10, "stored": 9}, {"acknowledged": 10, "stored": 11}],
    "deliver": [{"messages": 9}],
}


@pytest.mark.parametrize(("how", "answer"), [(how, answer) for how, answers in LOSSES.items() for answer in answers])
def test_a_broker_that_loses_a_message_has_no_figure(
    bench: Any, sleeping: subprocess.Popen[bytes], how: str, answer: dict[str, float], tmp_path: Path
):
    peer = importlib.import_module("broker_peer")
    client = AnsweringClient(sleeping, seconds=1.0, **answer)
    broker = peer.Loaded("127.0.0.1:1", sleeping, tmp_path, client)
    with pytest.raises(peer.Lost, match="of 10 messages: "):
        getattr(broker, how)("T", 10)


def test_a_broker_is_stopped_while_it_is_not_measured(bench: Any, sleeping: subprocess.Popen[bytes], tmp_path: Path):
    peer = importlib.import_module("broker_peer")
    client = AnsweringClient(sleeping, seconds=2.0, acknowledged=10, stored=10)
    broker = peer.Loaded("127.0.0.1:1", sleeping, tmp_path, client)
    assert within(lambda: state(sleeping) == "T")
    assert broker.send("T", 10)["a second"] == 5
    assert within(lambda: state(sleeping) == "T")
    assert client.states == ["S"]


def test_rows_and_versions_of_a_table_are_counted_from_its_log(bench: Any, tmp_path: Path):
    table = importlib.import_module("export_lines").Table(tmp_path)
    table.look()
    assert (table.rows, table.versions) == (0, 0)
    (tmp_path / "_delta_log").mkdir()
    for version, rows in enumerate(([], [3, 4], [5])):
        lines = [{"commitInfo": {}}, *({"add": {"stats": json.dumps({"numRecords": count})}} for count in rows)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / "_delta_log" / f"{version:020d}.json").write_text(text, encoding="utf-8")
    table.look()
    table.look()
    assert (table.rows, table.versions) == (12, 3)


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
