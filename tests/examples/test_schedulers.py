"""The examples for Airflow and Dagster move what is new, and compare it; with stubs, and in Dagster where it is."""

import ast
import importlib.util
import re
import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.compat.stores import Golden
from tests.harness.pages import ROOT, run

FOLDER = ROOT / "examples" / "schedulers"
PAGE = (ROOT / "docs" / "spark" / "airflow.md").read_text(encoding="utf-8")
pytestmark = pytest.mark.skipif(find_spec("deltalake") is None, reason="deltalake is not installed")


@pytest.fixture
def stores(golden: Callable[[str], Golden], tmp_path: Path) -> str:
    """A pattern of two brokers' stores."""
    for broker in ("a", "b"):
        shutil.copytree(golden("basic").path, tmp_path / broker / "store")
    return f"{tmp_path}/{{broker}}/store"


def loaded(name: str, monkeypatch: pytest.MonkeyPatch, **stubs: Any) -> ModuleType:
    """An example as a module, with stubs in place of these modules."""
    for stub, content in stubs.items():
        monkeypatch.setitem(sys.modules, stub.replace("__", "."), content)
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_the_dag() -> None:
    [shown] = re.findall(r"^```\n(from datetime.*?)^```\n", PAGE, re.MULTILINE | re.DOTALL)
    source = (FOLDER / "airflow_dag.py").read_text(encoding="utf-8")
    assert source.partition('"""\n\n')[2] == shown
    assert all(f"(../../examples/schedulers/{path.name})" in PAGE for path in FOLDER.glob("*.py"))


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_tasks_of_the_dag_run_in_their_order(
    monkeypatch: pytest.MonkeyPatch, stores: str, golden: Callable[[str], Golden], tmp_path: Path
) -> None:
    tasks: list[Any] = []

    class Task(SimpleNamespace):
        def __rshift__(self, other: "Task") -> None:
            tasks.extend((self, other))

    class Dag(SimpleNamespace):
        def __init__(self, name: str, **given: Any) -> None:
            assert given["catchup"] is False and given["max_active_runs"] == 1

        def __enter__(self) -> None: ...
        def __exit__(self, *error: object) -> None: ...

    names = ("airflow", "airflow__sdk", "airflow__providers", "airflow__providers__standard")
    names += ("airflow__providers__standard__operators", "airflow__providers__standard__operators__bash")
    stub = SimpleNamespace(DAG=Dag, BashOperator=Task)
    loaded("airflow_dag", monkeypatch, **dict.fromkeys(names, stub))
    assert [task.task_id for task in tasks] == ["export", "compare"]
    table = tmp_path / "lake"
    for rows in (2 * len(golden("basic").rows), 0):
        for task in tasks:
            code = task.bash_command.replace("/data/{broker}/store", stores).replace("/lake/orders", str(table))
            assert str(tmp_path) in code
            done = run(["bash", "-c", code], tmp_path)
            assert done.returncode == 0, done.stdout
            if task.task_id == "export":
                assert f'"rows":{rows}' in done.stdout.replace(" ", "").splitlines()[-1]
    next(table.rglob("*.parquet")).unlink()
    done = run(["bash", "-c", code], tmp_path)
    assert done.returncode != 0, "Airflow fails the task"


def test_the_asset_adds_what_is_new_and_its_check_compares(
    monkeypatch: pytest.MonkeyPatch, stores: str, golden: Callable[[str], Golden], tmp_path: Path
) -> None:
    """What of Dagster is used: decorators with arguments, and results that hold theirs."""

    def decorator(**given: Any) -> Callable[[Any], Any]:
        return lambda function: function

    stub = SimpleNamespace(
        asset=decorator, asset_check=decorator, RetryPolicy=SimpleNamespace, MaterializeResult=SimpleNamespace,
        AssetCheckResult=SimpleNamespace, ScheduleDefinition=SimpleNamespace, Definitions=SimpleNamespace,
        AssetSelection=SimpleNamespace(assets=lambda *assets: assets),
    )  # fmt: skip
    module = loaded("dagster_assets", monkeypatch, dagster=stub)
    monkeypatch.setattr(module, "STORES", stores)
    monkeypatch.setattr(module, "TABLE", str(tmp_path / "lake"))
    rows = 2 * len(golden("basic").rows)
    assert module.orders().metadata == {"rows": rows, "export": 1}
    assert module.orders().metadata["rows"] == 0
    found = module.equals_the_stores()
    assert found.passed is True and found.metadata == {"rows": rows, "waiting": 0}
    for file in (tmp_path / "lake").rglob("*.parquet"):
        file.unlink()
    assert module.equals_the_stores().passed is False
    assert module.every_ten_minutes.target == (module.orders,) and module.defs.assets == [module.orders]


def test_dagster_itself_runs_it(
    monkeypatch: pytest.MonkeyPatch, stores: str, golden: Callable[[str], Golden], tmp_path: Path
) -> None:
    dagster = pytest.importorskip("dagster", reason="dagster is not installed")
    module = loaded("dagster_assets", monkeypatch)
    monkeypatch.setattr(module, "STORES", stores)
    monkeypatch.setattr(module, "TABLE", str(tmp_path / "lake"))
    done = dagster.materialize([module.orders, module.equals_the_stores])
    [event] = done.get_asset_materialization_events()
    assert event.materialization.metadata["rows"].value == 2 * len(golden("basic").rows)
    assert [check.passed for check in done.get_asset_check_evaluations()] == [True]


def test_the_examples_name_nothing_of_ours_that_is_not_there() -> None:
    import flintmq

    named = set()
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "flintmq":
                named.add(node.attr)
    assert named == {"export", "compare_table"} and named <= {*flintmq.__all__}
