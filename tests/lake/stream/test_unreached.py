"""Records of the log that have no unit any more."""

from pathlib import Path

import numpy

from flintmq import Message, MessageStore
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.stream.plan import StreamTask
from flintmq.lake.stream.unreached import Unreached
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.walk import LogWalk


def test_a_queue_that_lost_its_last_units_is_told_though_it_has_its_first(tmp_path: Path) -> None:
    with MessageStore(tmp_path) as store:
        for number in range(10):
            store.put(Message("T", b"%d" % number))
        store.put(Message("Other", b"dispatched after them"))
    [file] = (tmp_path / "consumequeue" / "T" / "0").iterdir()
    data = file.read_bytes()
    file.write_bytes(data[: 5 * 20] + bytes(len(data) - 5 * 20))
    log = LogFiles.discover([str(tmp_path / "commitlog")])
    found = Unreached(StreamTask(str(tmp_path), ReadOptions(path=str(tmp_path)), log, 0, 1, {}, frozenset(), False))
    for piece in LogWalk(log):
        found.look(piece, numpy.zeros(0, numpy.int64))
    assert list(found.lost()) == ["topic 'T', queue 0, offset 9: the log has it, and its queue's files end at offset 5"]
