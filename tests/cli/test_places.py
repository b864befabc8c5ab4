"""No command writes in the store that it reads: every option that names a place, every way to name one in there."""

import os
import shutil
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from flintmq.cli.declare import parameters
from flintmq.cli.names import COMMANDS
from flintmq.cli.parser import load
from tests.cli.conftest import Run
from tests.compat.stores import Golden

PLACES = ("--into", "--out", "--output", "--checkpoint", "--dead-letters", "--ledger")
NOT_PLACES = {
    "--at",
    "--as",
    "--store",
    "--config",
    "--compare",
    "--body-schema",
    "--schema-registry",
    "--from",
    "--to",
    "--offsets",
    "--tls-cert",
    "--tls-key",
    "--acl",
}
"""Options whose word may be a file or a position that is read; --offsets is tried in tests/broker/test_offsets.py."""
MORE = {
    ("sql", "--output"): ["select 1", "--format", "csv"],
    ("sql", "--out"): ["select 1", "--format", "csv"],
    ("export", "--checkpoint"): ["--out", "lake"],
    ("spark export", "--checkpoint"): ["--out", "lake"],
    ("export", "--dead-letters"): ["--out", "lake", "--body", "text"],
    ("dead", "--ledger"): ["--group", "G", "--send-into", "other"],
    ("spark export", "--dead-letters"): ["--out", "lake", "--body", "text"],
}
"""What else a command wants before it looks at the place."""
MAY_BE_THE_ROOT = {("spark dispatch", "--into"), ("spark dispatch", "--out")}

OPTIONS = [
    (name, option, one)
    for name in COMMANDS
    for one in parameters(load(name))
    for option in (*one.declared.names, *one.declared.old)
]
OTHERS = {"follow", "offsets clone"}  # reads no store; goes into a group
TAKING = [(name, option) for name, option, _ in OPTIONS if option in PLACES and name not in OTHERS]


def test_every_option_that_names_a_place_is_known():
    """An option with DIR or FILE as its word is tried below, or is one that is only read."""
    named = {
        option
        for _, option, one in OPTIONS
        if option.startswith("--") and any(word in one.declared.metavar for word in ("DIR", "FILE", "PLACE"))
    }
    assert named - set(PLACES) <= NOT_PLACES
    assert {name for name, _ in TAKING} >= {"rebuild", "salvage", "copy", "sql", "spark export", "spark replay"}


def spellings(root: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Places in the store: (what it is, how it is written). The working directory is `folder`."""
    yield "the root", str(root)
    yield "the root, relative", os.path.relpath(root, folder)
    yield "below the root", str(root / "zz")
    yield "in the log", str(root / "commitlog" / "zz")
    yield "in the queues", str(root / "consumequeue" / "zz")
    yield "parents that are not there", str(root / "a" / "b" / "zz.csv")
    yield "dots", str(folder / "elsewhere" / ".." / root.name / "zz.csv")
    yield "dots behind what is not there", str(root / "none" / ".." / "zz.csv")
    (folder / "link").symlink_to(root)
    yield "through a link", str(folder / "link" / "zz.csv")
    (folder / "target").symlink_to(root / "zz.csv")
    yield "a link to it", str(folder / "target")
    (folder / "disk").mkdir()
    shutil.move(root / "index", folder / "disk" / "index")
    (root / "index").symlink_to(folder / "disk" / "index")
    yield "what a directory of the root leads to", str(folder / "disk" / "index" / "zz.csv")
    yield "by URL", f"file://{root}/zz.csv"


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_size) for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("log_alone", [False, True], ids=["store", "log-alone"])
@pytest.mark.parametrize(("name", "option"), TAKING)
def test_no_command_writes_in_its_source(
    run: Run,
    golden: Callable[[str], Golden],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    option: str,
    log_alone: bool,
):
    root = tmp_path / "shop"
    if log_alone:
        (root / "index").mkdir(parents=True)
        shutil.copytree(golden("poison").path / "commitlog", root / "commitlog")
    else:
        shutil.copytree(golden("poison").path, root)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    for what, place in islice(spellings(root, tmp_path), 4 if log_alone else None):
        if (name, option) in MAY_BE_THE_ROOT and what.startswith("the root"):
            continue
        before = tree(tmp_path)
        found = run(*name.split(), root, *MORE.get((name, option), []), option, place)
        assert (found.code, found.out) == (2, ""), (what, found)
        assert "is inside the store, where this command writes nothing" in found.err or "same" in found.err, (
            what,
            found.err,
        )
        assert tree(tmp_path) == before, what
