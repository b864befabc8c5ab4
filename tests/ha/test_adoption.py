"""In which directories a follower begins a copy, or goes on."""

from pathlib import Path

import pytest

from flintmq.errors import UsageError
from tests.compat.replication import GoldenMaster
from tests.ha.simulated import Driven, SimulatedMaster, caught_up, followed


@pytest.mark.parametrize("adopt", [False, True])
@pytest.mark.parametrize("name", ["data.csv", "index/data.csv", "notes/.hidden", "commitlogs/0", "0" * 20])
def test_none_is_begun_among_somebody_elses_files(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster, name: str, adopt: bool
) -> None:
    file = tmp_path / "s" / name
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    said = "holds other things than a store .*; give --out a directory that is missing or empty, or a copy"
    with pytest.raises(UsageError, match=said):
        Driven(tmp_path / "s", sim, master.config, adopt=adopt)
    assert [path for path in (tmp_path / "s").rglob("*") if path.is_file()] == [file]


def test_what_is_nobodys_does_not_matter(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster) -> None:
    """A file system's own directory, hidden files, and the broker's tables of a begin that was stopped."""
    for name in ("lost+found", "config"):
        (tmp_path / "s" / name).mkdir(parents=True)
    (tmp_path / "s" / "config" / "topics.json").write_text("{}")
    (tmp_path / "s" / ".keep").touch()
    (tmp_path / "s" / "lock").touch()
    caught_up(tmp_path / "s", master, sim)


@pytest.mark.parametrize("part", [0, 50])
def test_a_copy_goes_on_whatever_lies_beside_it(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster, part: int
) -> None:
    if part:
        followed(tmp_path / "s", master, sim, part)
    else:  # it was opened, and nothing came
        (tmp_path / "s" / "commitlog").mkdir(parents=True)
    (tmp_path / "s" / "notes.txt").write_text("of the operator")
    caught_up(tmp_path / "s", master, sim)
    assert (tmp_path / "s" / "notes.txt").read_text() == "of the operator"
