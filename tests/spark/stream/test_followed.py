"""A stream of a store that follows a live master, whose line is cut meanwhile."""

import pytest

import flintmq.ha
from flintmq import MessageStore
from tests.interop.relay import Relay
from tests.spark.stream.test_on_spark import bodies, put, source_of, stream, to_parquet, wait_for

pytestmark = pytest.mark.spark


def taken(query):
    """How many messages the stream's micro-batches have planned."""
    ends = source_of(query)["endOffset"]
    return sum(number for key, number in ends.items() if key[0] in "AB")


def test_each_message_of_the_master_comes_once(spark, tmp_path):
    """While it follows: micro-batches, the line cut after any number of bytes, the follower stopped and begun again."""
    keys = {"mappedFileSizeCommitLog": 64 * 1024}
    with MessageStore(tmp_path / "master", keys, ha_listen=("127.0.0.1", 0)) as master:
        relay = Relay(master.ha.address[1])
        put(master, range(200))
        copy, address = tmp_path / "copy", f"127.0.0.1:{relay.port}"
        with flintmq.ha.Follower(copy, address, config=keys) as follower:
            assert follower.wait_caught_up(20)
            query = to_parquet(stream(spark, copy, columns="body"), tmp_path)
            for first, left in ((200, 777), (500, 5000), (800, 12345)):
                relay.left, sessions = left, relay.sessions
                put(master, range(first, first + 300))
                wait_for(lambda seen=sessions: relay.sessions > seen, query)
            wait_for(lambda: query.lastProgress and query.lastProgress["batchId"] >= 1, query)
        put(master, range(1100, 1300))
        with flintmq.ha.Follower(copy, address, config=keys) as follower:
            wait_for(lambda: follower.whole == master._parts.log.end, query)
            assert follower.store.wait_dispatched(20)
            wait_for(lambda: taken(query) == 1300, query)
            query.stop()
        relay.close()
    assert bodies(spark, tmp_path) == list(range(1300))
