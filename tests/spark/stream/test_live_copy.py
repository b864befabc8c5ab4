"""A stream of a copy that follows a master: the planned offsets name whole records alone, and each row comes once."""

from tests.compat.replication import GoldenMaster
from tests.ha.simulated import SimulatedMaster, SimulatedTime, driven
from tests.spark.stream.drive import Query

COLUMNS = "physical_offset,topic,properties,body"


def test_a_record_that_comes_byte_by_byte(tmp_path):
    master = GoldenMaster("533", tmp_path)
    sim = SimulatedMaster(master.log, master.file_size, SimulatedTime())
    at, size = master.records[6]
    sim.end = at
    with driven(tmp_path / "s", sim, master.config) as one:
        one.catch_up(at)
        assert one.follower.store.wait_dispatched(30)  # a stream reads what the queues name
        query = Query(tmp_path / "s", columns=COLUMNS)
        got = [row for bite in query.bites() for row in bite]
        assert [row["physical_offset"] for row in got] == [begin for begin, _ in master.records[:6]]
        for end in range(at + 1, at + size + 1):
            sim.end = end
            one.until(lambda end=end: one.follower.end == end)
            assert one.follower.store.wait_dispatched(30)
            new = [row for bite in query.bites() for row in bite]
            assert bool(new) is (end == at + size), end - at
        (row,) = new
        assert (row["physical_offset"], dict(row["properties"])) == (at, master.rows[6]["properties"])
