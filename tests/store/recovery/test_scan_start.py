"""Where units are rewritten from when nobody says that the list of queues' ends is there."""

from __future__ import annotations

from pathlib import Path

from flintmq.format import record
from flintmq.format.checkpoint import Checkpoint
from flintmq.store.commitlog.end_of_log import StopFacts
from flintmq.store.layout.mark import DurableMark
from flintmq.store.recovery.scan_start import begin_of_dispatch
from tests.support.small_logs import FILE_SIZE, SIZE, log_of, make


def test_a_list_of_which_nothing_is_said_is_not_there(tmp_path: Path):
    """The mark alone is not enough after a clean stop: queues that lost their files would not be missed."""
    files = log_of(tmp_path, make(0, 1001) + record.encode_blank(FILE_SIZE - SIZE), make(FILE_SIZE, 1002))
    end = FILE_SIZE + SIZE
    facts = StopFacts(clean=True, mark=DurableMark(end, end))
    assert begin_of_dispatch(files, facts, Checkpoint(10**6, 10**6)) == FILE_SIZE
    assert begin_of_dispatch(files, facts, Checkpoint(10**6, 10**6), listed=True) == end
