"""When the thread of checkpoints writes one."""

from pathlib import Path

from tests.support.engine import open_small, put_all, put_dispatched
from tests.support.threads import within


def test_dispatch_that_reaches_the_end_after_the_last_flush_is_recorded(tmp_path: Path):
    """An idle store's mark would say for ever that its last records are to be dispatched again."""
    with open_small(tmp_path, flushIntervalConsumeQueue=10, flushIntervalCommitLog=10) as store:
        parts = store._parts
        put_dispatched(store, 5)
        first = parts.log.end
        with parts.dispatch._step:
            put_all(store, 5, first=5)
            store.flush()
            assert within(lambda: parts.small.mark.flushed >= parts.log.end)
            assert parts.small.mark.flushed == parts.log.end and parts.small.mark.dispatched == first
        assert store.wait_dispatched(20)
        assert within(lambda: parts.small.mark.dispatched == parts.log.end)
