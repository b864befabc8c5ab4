"""Files for the repository's host: workflows, forms, hooks before a commit, the citation agree with the rest.

`actionlint` and `zizmor` say more of workflows; RELEASING.md asks for both.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import flintmq

yaml = pytest.importorskip("yaml", reason="yaml is not installed")

ROOT = Path(__file__).resolve().parent.parent
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)]
TARGETS = set(re.findall(r"^([a-z][a-z-]*):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
VARIABLES = {"PYTHON", "ARGS", "SECONDS", "WORKERS"}
SCHEMAS = {
    "vendor.github-workflows": [path.relative_to(ROOT).as_posix() for path in WORKFLOWS],
    "custom.github-workflows-require-timeout": [path.relative_to(ROOT).as_posix() for path in WORKFLOWS],
    "vendor.github-issue-forms": [".github/ISSUE_TEMPLATE/bug.yml", ".github/ISSUE_TEMPLATE/feature.yml"],
    "vendor.github-issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
    "vendor.dependabot": [".github/dependabot.yml"],
    "vendor.citation-file-format": ["CITATION.cff"],
}


def read(path: Path) -> dict[Any, Any]:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict), path
    return found


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each job of each workflow, with a name for it."""
    for path in WORKFLOWS:
        for name, job in read(path)["jobs"].items():
            yield f"{path.name}: {name}", job


def made() -> Iterator[tuple[str, list[str]]]:
    """The words after `make`, wherever a workflow, a form's page or a hook before a commit calls it."""
    for name, job in jobs():
        for step in job["steps"]:
            for line in str(step.get("run", "")).splitlines():
                if line.startswith("make "):
                    yield name, line.split()[1:]
    for hook in read(ROOT / ".pre-commit-config.yaml")["repos"][0]["hooks"]:
        assert hook["entry"].startswith("make "), hook
        yield ".pre-commit-config.yaml", hook["entry"].split()[1:]


def test_workflows_call_what_the_makefile_has():
    assert {"lint", "test", "site", "test-newest"} <= TARGETS
    calls = list(made())
    assert len(calls) > 15
    for where, (target, *variables) in calls:
        assert target in TARGETS, f"{where}: make {target}"
        assert {word.partition("=")[0] for word in variables if re.match(r"[A-Z]+=", word)} <= VARIABLES, where


def test_what_ci_asks_is_what_make_check_asks():
    """`make check` at home, CI on the host: neither asks what the other does not."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    [needed] = re.findall(r"^check: (.*?) ##", text, re.MULTILINE)
    called = {words[0] for where, words in made() if where.startswith("ci.yml")}
    assert set(needed.split()) <= called


def test_tests_run_on_each_python_that_is_declared():
    assert len(PYTHONS) >= 4
    versions = {
        name: job["strategy"]["matrix"]["python"] for name, job in jobs() if "python" in str(job.get("strategy"))
    }
    assert set(versions) == {"ci.yml: test", "nightly.yml: newest"}
    assert all(found == PYTHONS for found in versions.values()), versions


def test_a_job_makes_its_environment_with_the_python_of_its_container():
    """Debian's own python3 is in the container, too."""
    for name, job in jobs():
        image = job.get("container", "")
        makes = [str(step["run"]) for step in job["steps"] if "PYTHON=" in str(step.get("run"))]
        assert bool(image) == bool(makes), name
        if "${{" in image:
            assert image == "python:${{ matrix.python }}-bookworm", name
            [step] = [step for step in job["steps"] if "PYTHON=" in str(step.get("run"))]
            assert step["run"].endswith("PYTHON=python$VERSION"), name
            assert step["env"] == {"VERSION": "${{ matrix.python }}"}, name
        elif image:
            version = image.removeprefix("python:").removesuffix("-bookworm")
            assert version in PYTHONS and all(run.endswith(f"PYTHON=python{version}") for run in makes), name


def test_there_is_a_machine_for_each_kind_of_wheel():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    build = project["tool"]["cibuildwheel"]
    found = {"ubuntu": [], "macos": []}
    for machine in read(GITHUB / "workflows" / "wheels.yml")["jobs"]["wheels"]["strategy"]["matrix"]["include"]:
        found[machine["runner"].partition("-")[0]].append(machine["arch"])
    assert found == {"ubuntu": build["linux"]["archs"], "macos": build["macos"]["archs"]}


def test_actions_are_named_by_commit_and_may_read_alone():
    for path in WORKFLOWS:
        text = path.read_text(encoding="utf-8")
        assert read(path)["permissions"] == {"contents": "read"}, path
        used = re.findall(r"uses: (.*)", text)
        assert (
            used and [line for line in used if not re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}  # v[\d.]+", line)] == []
        )
    writing = {name: job["permissions"] for name, job in jobs() if "permissions" in job}
    assert writing == {
        "site.yml: publish": {"pages": "write", "id-token": "write"},
        "wheels.yml: publish": {"id-token": "write"},
    }


def test_only_a_tag_publishes():
    conditions = {name: job.get("if") for name, job in jobs() if "environment" in job}
    assert conditions == {
        "site.yml: publish": "github.ref == 'refs/heads/main'",
        "wheels.yml: publish": "startsWith(github.ref, 'refs/tags/v')",
    }


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_fit_their_schemas(schema: str):
    pytest.importorskip("check_jsonschema", reason="check_jsonschema is not installed")
    words = ["-m", "check_jsonschema", "--builtin-schema", schema, "--force-filetype", "yaml", *SCHEMAS[schema]]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_form_has_a_schema():
    named = {name for names in SCHEMAS.values() for name in names}
    found = {path.relative_to(ROOT).as_posix() for path in GITHUB.rglob("*.yml")}
    assert found - named == set()


def test_pages_that_forms_lead_to_are_there():
    links = [link["url"] for link in read(GITHUB / "ISSUE_TEMPLATE" / "config.yml")["contact_links"]]
    home = PROJECT["urls"]["Source"]
    assert [link for link in links if not link.startswith(f"{home}/")] == []
    pages = [link.removeprefix(f"{home}/blob/main/") for link in links if "/blob/main/" in link]
    assert pages and [page for page in pages if not (ROOT / page).is_file()] == []


def test_the_citation_is_of_this_version():
    citation = read(ROOT / "CITATION.cff")
    assert citation["version"] == flintmq.__version__ == PROJECT["version"]
    assert (citation["license"], citation["repository-code"]) == (PROJECT["license"], PROJECT["urls"]["Source"])
