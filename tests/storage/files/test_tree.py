"""Trees are walked whole, or not at all: what is published unsynced, or left unread, nobody would notice."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import StoreAccessError
from flintmq.forensics.copy import copy_whole
from flintmq.forensics.rebuild import rebuild
from flintmq.forensics.salvage.in_place import plan_in_place
from flintmq.storage.files.tree import walk_tree
from tests.compat.stores import Golden
from tests.forensics.salvage.test_in_place import hurt
from tests.support.makers import config_of

FAULTS = [errno.EMFILE, errno.EIO, errno.EACCES]


def refuse(monkeypatch: pytest.MonkeyPatch, name: str, fault: int) -> list[str]:
    """Let no directory be listed whose name this is; gives the refused ones."""
    refused: list[str] = []
    scandir = os.scandir

    def listed(path: Any = ".") -> Any:
        if isinstance(path, str | os.PathLike) and os.path.basename(os.fspath(path)) == name:
            refused.append(os.fspath(path))
            raise OSError(fault, os.strerror(fault), os.fspath(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", listed)
    return refused


def grown(root: Path) -> Path:
    for name in ("a/one", "a/b/two", "three"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


def test_top_down_and_bottom_up(tmp_path: Path) -> None:
    root = grown(tmp_path / "tree")
    down = [(os.path.relpath(folder, root), folders, sorted(files)) for folder, folders, files in walk_tree(root)]
    assert down == [(".", ["a"], ["three"]), ("a", ["b"], ["one"]), ("a/b", [], ["two"])]
    up = [os.path.relpath(folder, root) for folder, _, _ in walk_tree(str(root), bottom_up=True)]
    assert up == ["a/b", "a", "."]


def test_one_that_is_gone_is_empty(tmp_path: Path) -> None:
    assert list(walk_tree(tmp_path / "gone")) == []


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("bottom_up", [False, True])
def test_one_that_cannot_be_listed_stops_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int, bottom_up: bool
) -> None:
    root = grown(tmp_path / "tree")
    refuse(monkeypatch, "b", fault)
    with pytest.raises(StoreAccessError, match=r"tree/a/b: .*; check its permissions and its disk"):
        list(walk_tree(root, bottom_up))


def copied(golden: Golden, into: Path) -> None:
    copy_whole(str(golden.path), str(into / "new"), config_of(golden))


def rebuilt(golden: Golden, into: Path) -> None:
    rebuild(str(golden.path), str(into / "new"), config_of(golden), golden.peer)


def mended(golden: Golden, into: Path) -> None:
    root, _ = hurt(golden, into / "new")
    with plan_in_place(str(root), config_of(golden)) as mending:
        mending.carry_out()


@pytest.mark.parametrize(
    ("publish", "folder", "published"),
    [
        (copied, "commitlog", "new"),
        (rebuilt, "index", "new/index"),
        (mended, "new", "new/quarantine"),  # the new bytes of the journal
    ],
    ids=["copy", "rebuild", "salvage in place"],
)
def test_nothing_is_published_that_was_not_synced_whole(
    golden: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, publish: Any, folder: str, published: str
) -> None:
    """A directory of what was made cannot be listed (no descriptor is left) when all of it is to be synced."""
    store = golden("basic")
    refused = refuse(monkeypatch, folder, errno.EMFILE)
    with pytest.raises(StoreAccessError, match="check its permissions and its disk"):
        publish(store, tmp_path)
    monkeypatch.undo()
    assert refused and not (tmp_path / published).exists()
