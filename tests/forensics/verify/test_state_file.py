"""The file that keeps the state of a verification: whose it is, and that it is replaced as a whole."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreAccessError, UnsupportedFormatError, UsageError
from flintmq.forensics.verify.state_file import StateFile


def test_what_is_saved_is_loaded_until_it_is_removed(tmp_path: Path):
    file = StateFile(tmp_path / "state", str(tmp_path / "store"), StoreConfig())
    assert file.load() is None
    file.save({"position": 1})
    file.save({"position": 2})
    assert file.load() == {"position": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    file.remove()
    file.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_state_of_another_store_or_of_other_settings_is_refused(tmp_path: Path):
    StateFile(tmp_path / "state", str(tmp_path / "store"), StoreConfig()).save({})
    with pytest.raises(UsageError, match="with root .*store, not .*other"):
        StateFile(tmp_path / "state", str(tmp_path / "other"), StoreConfig()).load()
    with pytest.raises(UsageError, match="with settings .*maxIndexNum"):
        StateFile(tmp_path / "state", str(tmp_path / "store"), StoreConfig.from_keys({"maxIndexNum": 400})).load()


@pytest.mark.parametrize("text", ["", "[]", "{}", "rubbish", json.dumps({"form": "flintmq verify 1", "state": 1})])
def test_other_files_are_refused_and_kept(tmp_path: Path, text: str):
    (tmp_path / "state").write_text(text)
    with pytest.raises(UsageError, match="holds no state of this version's verify"):
        StateFile(tmp_path / "state", str(tmp_path / "store"), StoreConfig()).load()
    assert (tmp_path / "state").read_text() == text


@pytest.mark.parametrize("key", ["more", "state.more", "state.findings.more", "state.findings.note_counts.more"])
@pytest.mark.parametrize(("writer", "why"), [("9.0", "newer than this one.*upgrade"), (None, "another FlintMQ than")])
def test_a_key_of_another_version_is_refused_by_name(tmp_path: Path, key: str, writer: str | None, why: str):
    """Half of a state that is understood would be a verification that looked at less than it says."""
    file = StateFile(tmp_path / "state", str(tmp_path / "store"), StoreConfig())
    file.save({"position": 1, "findings": {"note_counts": {"no-queues": 1}}})
    assert file.load() is not None
    saved = json.loads((tmp_path / "state").read_text())
    saved["flintmq"] = writer
    place = saved
    for name in key.split(".")[:-1]:
        place = place[name]
    place["more"] = 1
    (tmp_path / "state").write_text(text := json.dumps(saved))
    with pytest.raises(UnsupportedFormatError, match=f"state: the key 'more' is not known here: made by .*{why}"):
        file.load()
    assert (tmp_path / "state").read_text() == text


def test_nothing_is_written_into_a_store_or_nowhere(tmp_path: Path):
    (tmp_path / "store").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "store")
    for place in ("store/state", "store", "link/state"):
        with pytest.raises(UsageError, match="is inside the store"):
            StateFile(tmp_path / place, str(tmp_path / "store"), StoreConfig())
    with pytest.raises(StoreAccessError, match="no directory there"):
        StateFile(tmp_path / "nowhere" / "state", str(tmp_path / "store"), StoreConfig())


def test_a_full_disk_keeps_the_state_that_is_there_and_gets_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = StateFile(tmp_path / "state", str(tmp_path / "store"), StoreConfig())
    file.save({"position": 1})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(StoreAccessError, match="state: No space left on device; name a file that can be written"):
            file.save({"position": 2})
    assert [path.name for path in tmp_path.iterdir()] == ["state"] and file.load() == {"position": 1}
