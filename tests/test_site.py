"""The site (`make site`): its reference has all public names, its navigation each page, its links work."""

import ast
import importlib
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import flintmq
from tests.harness import pages

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def site() -> ModuleType:
    """The hooks of mkdocs.yml, which are no module of a package."""
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / ".ci" / "site_pages.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def names_of(site: ModuleType) -> list[str]:
    return [name for _, names in site.REFERENCE.values() for name in names]


def test_the_reference_has_each_public_name_once(site: ModuleType):
    errors = importlib.import_module("flintmq.errors")
    named = [name.removeprefix("flintmq.") for name in names_of(site) if name.count(".") == 1]
    assert len(named) == len(set(named))
    wanted = {name for name in flintmq.__all__ if name != "__version__" and not hasattr(errors, name)}
    assert set(named) - {"errors"} == wanted
    assert "flintmq.errors" in names_of(site)


def test_the_reference_has_what_pages_import(site: ModuleType):
    """What an example of the documentation imports from a module below flintmq has its docstring there."""
    shown = set(names_of(site))
    missing = []
    for page in pages.pages():
        for example in pages.examples(page):
            if example.kind != "python":
                continue
            for node in ast.walk(ast.parse(example.code)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("flintmq."):
                    whole = [f"{node.module}.{name.name}" for name in node.names]
                    missing += [f"{example.where}: {name}" for name in whole if not {name, node.module} & shown]
    assert missing == []


def test_names_of_the_reference_exist(site: ModuleType):
    for package in ("pyarrow", "numpy", "pyspark", "hypothesis"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    for name in names_of(site):
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute) or importlib.util.find_spec(name), name


def test_the_navigation_is_the_index(site: ModuleType):
    index = (
        "# T\n\n[a](a.md) [up](../x.md)\n\n## One\n\n[b](x/b.md#c) [a](a.md)\n\n## Two\n\n[d](d.md) [w](https://w)\n"
    )
    assert site.navigation(index) == ["README.md", "a.md", {"One": ["x/b.md"]}, {"Two": ["d.md"]}]


def test_each_page_is_in_the_navigation_once(site: ModuleType):
    found = []
    for entry in site.navigation((ROOT / "docs" / "README.md").read_text(encoding="utf-8")):
        found += [entry] if isinstance(entry, str) else [page for pages in entry.values() for page in pages]
    assert sorted(found) == sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("README.md", "guide/sql.md", "guide/sql.md"),
        ("guide/sql.md", "../internals/format/", "../internals/format/README.md"),
        ("guide/sql.md", "#top", "#top"),
        ("guide/sql.md", "https://example.org/a", "https://example.org/a"),
        ("README.md", "../ARCHITECTURE.md#layers", "https://host/blob/main/ARCHITECTURE.md#layers"),
        ("guide/sql.md", "../../tests/compat/golden", "https://host/tree/main/tests/compat/golden"),
        ("guide/sql.md", "none.md", "none.md"),  # mkdocs says that it is dead
    ],
)
def test_links_out_of_docs_go_to_the_repository(site: ModuleType, page: str, link: str, expected: str):
    assert site.out_of_docs(f"a [t]({link}) b", page, "https://host") == f"a [t]({expected}) b"


def test_a_page_of_the_reference(site: ModuleType):
    assert site.reference("Errors", ["flintmq.errors"]) == "# Errors\n\n::: flintmq.errors\n"


def test_the_address_of_the_repository_is_that_of_the_package():
    """mkdocs.yml holds tags that only mkdocs understands, so it is read as text."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    [address] = re.findall(r"^repo_url: (\S+)$", text, re.MULTILINE)
    assert f'Source = "{address}"' in project


def test_warnings_end_the_build():
    """With --quiet mkdocs counts no warnings, so that --strict would let a dead link pass."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    [command] = re.findall(r"^\t.*mkdocs build (.*)$", text, re.MULTILINE)
    assert command.split() == ["--strict"]
