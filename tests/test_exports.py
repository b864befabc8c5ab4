"""The public names of `flintmq`: those of the list, each one there, nothing public beside them."""

import importlib
import inspect
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import flintmq
from flintmq import errors


def test_each_name_is_there():
    assert flintmq.__all__ == sorted(set(flintmq.__all__)), "sorted, without doubles"
    assert [name for name in flintmq.__all__ if not hasattr(flintmq, name)] == []


def test_nothing_public_beside_the_list():
    """Nothing of FlintMQ's own; what the file imports to work with (typing's names) is nobody's business."""
    found = {
        name
        for name, value in vars(flintmq).items()
        if not name.startswith("_")
        and not isinstance(value, types.ModuleType)
        and getattr(value, "__module__", "").startswith("flintmq")
    }
    assert found - set(flintmq.__all__) == set()


def test_the_names_that_the_documentation_promises():
    promised = {
        "open_store",
        "scan_arrow",
        "StoreConfig",
        "StoredMessage",
        "FlintError",
        "CorruptStoreError",
        "__version__",
    }
    assert promised - set(flintmq.__all__) == set()


def test_dir_and_unknown_names():
    assert dir(flintmq) == flintmq.__all__, "no module of ours, and nothing that the file imports for itself"
    assert not hasattr(flintmq, "no_such_name")


def test_the_version_is_the_installed_one():
    from importlib.metadata import version

    assert flintmq.__version__ == version("flintmq")


def test_a_lazy_name_brings_its_module_only_when_asked():
    code = (
        "import sys, flintmq; assert 'pyarrow' not in sys.modules; flintmq.scan_arrow; assert 'pyarrow' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_each_error_is_a_public_name():
    ours = {name for name, one in vars(errors).items() if isinstance(one, type) and one.__module__ == errors.__name__}
    assert len(ours) == 23 and ours - set(flintmq.__all__) == set()


def test_the_signature_of_a_store_shows_what_users_give():
    shown = set(inspect.signature(flintmq.MessageStore).parameters)
    assert {"path", "config", "dev", "peer", "unique_keys", "keys"} <= shown
    assert shown & {"effects", "services", "cut_at"} == set()

    class Own(flintmq.MessageStore):
        def __init__(self, only: str) -> None:
            super().__init__(only)

    assert list(inspect.signature(Own).parameters) == ["only"], "a class made of it shows its own"


def test_pages_need_no_inner_path():
    """A page that a user copies from imports public names only: packages, and what each lists."""
    root = Path(__file__).parents[1]
    pages = [root / "README.md", *(root / "docs" / "guide").glob("*.md"), *(root / "docs" / "spark").glob("*.md")]
    pages += [root / "docs" / "operations" / f"{name}.md" for name in ("copy", "diff", "follow")]
    public = {
        "flintmq",
        "flintmq.broker",
        "flintmq.spark",
        "flintmq.ha",
        "flintmq.testing",
        "flintmq.testing.damage",
        "flintmq.errors",
    }
    inner = {
        (page.name, home)
        for page in pages
        for home in re.findall(
            r"(?:from |import |`)(flintmq(?:\.[a-z_]+)+)(?=[ .`(])", page.read_text(encoding="utf-8")
        )
        if home not in public and home.rpartition(".")[0] not in public
    }
    assert inner == set()


def test_the_jobs_of_spark_are_public_names():
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    import flintmq.spark

    assert [name for name in flintmq.spark.__all__ if not callable(getattr(flintmq.spark, name))] == []
    assert {"dispatch", "export", "rebuild", "replay", "stats", "verify"} <= set(flintmq.spark.__all__)


def documented(one: object) -> bool:
    """Whether a name of ours says what it is: compiled and inherited ones say it, too."""
    return bool((inspect.getdoc(one) or "").strip())


@pytest.mark.parametrize(
    "home", ["flintmq", "flintmq.broker", "flintmq.broker.testing", "flintmq.ha", "flintmq.spark", "flintmq.testing"]
)
def test_public_names_and_their_methods_are_documented(home: str):
    """Docstrings are asked for here, not of private code."""
    if home == "flintmq.spark":
        pytest.importorskip("pyspark", reason="pyspark is not installed")
    module, silent, found = importlib.import_module(home), [], 0
    for name in getattr(module, "__all__", ()):
        one = getattr(module, name)
        if not getattr(one, "__module__", "").startswith("flintmq"):
            continue
        members = inspect.getmembers_static(one) if inspect.isclass(one) else []
        for label, value in [(name, one), *((f"{name}.{member}", value) for member, value in members)]:
            inner = label.rpartition(".")[2]
            ours = inspect.isroutine(value) or inspect.isclass(value) or isinstance(value, property | classmethod)
            if inner.startswith("_") or not ours:
                continue
            found += 1
            silent += [] if documented(value) else [label]
    assert silent == [] and found > 0
