"""Where an empty follower begins, found by asking; the master's log has lost its first files in most cases."""

from pathlib import Path

import pytest

from flintmq.errors import DivergedError, OffsetGoneError, ReplicationError, UsageError
from flintmq.ha.begin import BeginSearch
from flintmq.ha.connection import MasterConnection
from tests.compat.replication import GoldenMaster
from tests.ha.simulated import SimulatedMaster, SimulatedTime, caught_up

SIZE = 1000


def master_of(begin: int, end: int) -> SimulatedMaster:
    """A master with files of 1,000 bytes; nobody looks at the bytes."""
    sim = SimulatedMaster(bytes(end - begin), SIZE, SimulatedTime(), begin)
    sim.batch = 400
    return sim


def search(sim: SimulatedMaster) -> BeginSearch:
    def ask(report: int, due: int | None) -> MasterConnection:
        return MasterConnection.open(("sim", 1), report, due, SIZE, sim.dial, sim.time)

    return BeginSearch(ask, SIZE, lambda: False)


def found(sim: SimulatedMaster, begin: str | int) -> int | None:
    line = search(sim).line_at(begin)
    got = line.receive(30)
    line.close()
    return got.offset if got is not None else -1


@pytest.mark.parametrize(
    ("begin", "end", "asked", "first", "last"),
    [
        (0, 0, "first", 0, 0),
        (0, 10, "first", 1, 0),
        (0, 5500, "first", 1, 5000),
        (3000, 3500, "first", 3000, 3000),
        (3000, 5500, "first", 3000, 5000),
        (1000, 64_010, "first", 1000, 64_000),
        (63_000, 64_010, "first", 63_000, 64_000),
        (37_000, 64_010, "first", 37_000, 64_000),
        (3000, 5000, "first", 3000, 5000),
        (3000, 3000, "first", 3000, 3000),
    ],
)
def test_first_and_last(begin: int, end: int, asked: str, first: int, last: int):
    sim = master_of(begin, end)
    assert found(sim, "first") == first
    assert len(sim.asked) <= 3 + 7 + 2  # 1, 0, bisection of 64 files, the one before, the one
    del sim.asked[:]
    assert found(sim, "last") == last and sim.asked == [0]


@pytest.mark.parametrize("offset", [3000, 4000, 5000])
def test_a_file_that_is_there(offset: int):
    assert found(master_of(3000, 5500), offset) == offset


@pytest.mark.parametrize(
    ("offset", "kind", "reason"),
    [
        (0, OffsetGoneError, "gone"),
        (2000, OffsetGoneError, "gone"),
        (6000, DivergedError, "behind"),
        (3100, ReplicationError, "geometry"),
        (-1000, ReplicationError, "geometry"),
    ],
)
def test_a_file_that_is_not_there(offset: int, kind: type[ReplicationError], reason: str):
    with pytest.raises(kind) as error:
        found(master_of(3000, 5500), offset)
    assert error.value.reason == reason


def test_another_word():
    with pytest.raises(UsageError, match="neither first, last"):
        found(master_of(0, 10), "middle")


def test_files_of_another_size():
    sim = master_of(3500, 5700)
    sim.file_size = 700
    with pytest.raises(ReplicationError, match="mappedFileSizeCommitLog") as error:
        found(sim, "first")
    assert error.value.reason == "geometry"


@pytest.mark.parametrize("slow", [[0], [0, 2], [0, 2, 3, 4], [2, 3, 4, 5, 6], [7], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]])
@pytest.mark.parametrize("begin", [0, 3000, 37_000])
def test_a_slow_answer_costs_no_file(begin: int, slow: list[int]):
    """The file before the one found is asked for again, and waited for."""
    sim = master_of(begin, 64_010)
    sim.delay = lambda session: 3.0 if session in slow else 0.0
    assert found(sim, "first") == max(begin, 1)


def test_a_line_that_breaks_is_an_error_of_the_line():
    sim = master_of(3000, 5500)
    sim.cuts = [5]
    with pytest.raises(OSError, match="closed"):
        found(sim, 3000)


def test_a_master_that_says_nothing():
    sim = master_of(3000, 5500)
    sim.end, sim.beat = 3000, None
    with pytest.raises(TimeoutError, match="nothing for 20 s"):
        found(sim, "last")


@pytest.mark.parametrize("what", ["first", "last", "a file"])
def test_a_log_without_its_first_files_is_followed_from_there(tmp_path: Path, master: GoldenMaster, what: str):
    size, begin = master.file_size, 2 * master.file_size
    sim = SimulatedMaster(master.log[begin:], size, SimulatedTime(), begin)
    asked: dict[str, str | int] = {"first": "first", "last": "last", "a file": 3 * size}
    expected = {"first": begin, "last": sim.end - sim.end % size, "a file": 3 * size}[what]
    caught_up(tmp_path / "s", master, sim, begin=asked[what], ack=True)
    files = sorted((tmp_path / "s" / "commitlog").iterdir())
    assert int(files[0].name) == expected
    assert b"".join(path.read_bytes() for path in files).rstrip(b"\0") == master.log[expected:].rstrip(b"\0")
    sim.honest()


@pytest.mark.parametrize(("begin", "told"), [(3000, 3000), (3000, 2000), (3000, 0), (5000, 2000), (37_000, 1000)])
def test_a_first_file_that_was_deleted_since_the_broker_told_of_it_is_searched_for(begin: int, told: int):
    sim = master_of(begin, begin + 1500)
    line = search(sim).line_at("first", told)
    got = line.receive(30)
    assert got is not None and got.offset == begin
    line.close()


def test_a_broker_that_told_of_a_first_file_beyond_the_masters_log_is_another():
    with pytest.raises(DivergedError) as caught:
        search(master_of(3000, 4500)).line_at("first", 9000)
    assert caught.value.reason == "behind"
