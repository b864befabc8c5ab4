"""A file of config/ that is there and cannot be read for now: no older one takes its place in silence."""

import errno
import logging
import os
from pathlib import Path

import pytest

from flintmq import Message
from flintmq.errors import StoreAccessError
from flintmq.storage.files.filesystem import Effects
from flintmq.store.layout.config_reader import read_config
from flintmq.store.layout.store_config import batch_topics
from tests.sim.disk import SimDisk
from tests.sim.faults import Swept, _one
from tests.sim.run import Case, SimRun
from tests.support.engine import open_small

FILES = ("consumerOffset.json", "topics.json", "subscriptionGroup.json", "delayOffset.json")


class Unreadable(Effects):
    """The real disk, but for one name."""

    def __init__(self, name: str, code: int) -> None:
        self.name, self.code = name, code

    def read_file(self, path: str, most: int) -> bytes | None:
        if os.path.basename(path) == self.name:
            raise OSError(self.code, os.strerror(self.code), path)
        return super().read_file(path, most)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store whose offsets were saved twice, so that their `.bak` is older."""
    for offset in (3, 7):
        with open_small(tmp_path / "s") as opened:
            opened.put_many([Message("T", b"%d" % n, queue_id=0) for n in range(10)])
            opened.commit_offset("g", "T", 0, offset)
    return tmp_path / "s"


def contents(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((store / "config").iterdir())}


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM, errno.EIO, errno.EACCES])
@pytest.mark.parametrize("name", FILES)
def test_the_store_is_not_opened(store: Path, name: str, code: int) -> None:
    (store / "config" / name).touch()
    before = contents(store)
    with pytest.raises(StoreAccessError, match="is there and cannot be read") as told:
        open_small(store, Unreadable(name, code))
    assert name in str(told.value) and os.strerror(code) in str(told.value) and "\n" not in str(told.value)
    assert contents(store) == before
    with open_small(store) as opened:
        assert opened.consumer_offset("g", "T", 0) == 7


def test_neither_is_the_older_one_if_it_is_needed_and_cannot_be_read(store: Path) -> None:
    (store / "config/consumerOffset.json").write_bytes(b"{")
    with pytest.raises(StoreAccessError, match=r"consumerOffset\.json\.bak is there and cannot be read"):
        open_small(store, Unreadable("consumerOffset.json.bak", errno.EMFILE))
    with open_small(store) as opened:
        assert opened.consumer_offset("g", "T", 0) == 3


@pytest.mark.parametrize("changes", [False, True])
def test_one_that_is_damaged_is_named_and_kept_once_it_changes(
    store: Path, caplog: pytest.LogCaptureFixture, changes: bool
) -> None:
    (store / "config/consumerOffset.json").write_bytes(b'{"offsetTable":{')
    with caplog.at_level(logging.WARNING, "flintmq.store"), open_small(store) as opened:
        assert opened.consumer_offset("g", "T", 0) == 3
        if changes:
            opened.commit_offset("g", "T", 0, 4)
    told = [record.getMessage() for record in caplog.records if "consumerOffset" in record.getMessage()]
    assert "position 16: the text ends early; consumerOffset.json.bak is used, which may be older" in told[0]
    assert told[0].endswith("; the first change keeps it as consumerOffset.json.unusable")
    kept = store / "config/consumerOffset.json.unusable"
    assert kept.exists() == changes == (len(told) == 2)
    if changes:
        assert "consumerOffset.json could not be used, and is kept as consumerOffset.json.unusable" in told[1]
        assert kept.read_bytes() == b'{"offsetTable":{'


def test_types_of_topics_are_not_guessed(store: Path) -> None:
    for code in (errno.EMFILE, errno.EACCES):
        with pytest.raises(StoreAccessError, match=r"topics\.json"):
            batch_topics(str(store), Unreadable("topics.json", code))


def test_a_reader_goes_on_and_tells(store: Path) -> None:
    found = read_config(str(store), Unreadable("topics.json", errno.EACCES))
    assert found.topics == {} and [os.path.basename(one.file) for one in found.problems] == ["topics.json"]
    assert found.consumer_offsets == {("T", "g"): {0: 7}}


def test_no_group_goes_back_where_the_start_after_a_power_cut_cannot_read_its_file() -> None:
    """Case 1073744323: call 485 opens consumerOffset.json; 3 and 6 became the offsets of its `.bak`, 1 and 0."""
    case = Case.of(1073744323, "journal")
    calm, opens = SimRun(case, SimDisk(case.seed, case.model)), list[int]()
    calm.disk.at_call = lambda name, path: (
        opens.append(calm.disk.calls) if (name, os.path.basename(path)) == ("open_read", FILES[0]) else None
    )
    calm.go()
    assert len(opens) >= 3
    for call in opens:
        for error in (errno.EMFILE, errno.EDQUOT):
            assert _one(case, call, error, False, Swept()) == "", call
