"""A directory beside its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flintmq.errors import StoreAccessError, UsageError
from flintmq.storage.staging import bring_in, staging_for, sweep


def test_one_at_a_time_and_nothing_stays(tmp_path: Path) -> None:
    into = str(tmp_path / "new")
    with staging_for(into, "work") as staging:
        Path(staging, "store").mkdir()
        Path(staging, "store", "x").write_text("y")
        with pytest.raises(UsageError, match="another work"), staging_for(into, "work"):
            pass
        bring_in(staging, into)
    assert os.listdir(tmp_path) == ["new"] and (tmp_path / "new" / "x").read_text() == "y"


def test_leftovers_are_swept(tmp_path: Path) -> None:
    (tmp_path / ".new.flintmq-work" / "store").mkdir(parents=True)
    sweep(str(tmp_path / "new"), "work")
    assert os.listdir(tmp_path) == []


def test_what_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    with staging_for(str(tmp_path / "new"), "work") as staging:
        Path(staging, "store").mkdir()
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "mine").touch()
        with pytest.raises(UsageError, match="meanwhile"):
            bring_in(staging, str(tmp_path / "new"))


def test_a_place_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreAccessError), staging_for(str(tmp_path / "file" / "new"), "work"):
        pass
