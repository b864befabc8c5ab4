"""Which parts of its range a sparse task reads."""

from pathlib import Path

from flintmq import Message, MessageStore
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.stream.plan import StreamTask
from flintmq.lake.stream.scan import pieces_of
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.report import Report
from flintmq.store.layout.queue_name import QueueName


def test_records_of_two_queues_are_read_in_the_order_of_the_log(tmp_path: Path) -> None:
    """Whatever queue a record is of; 100 KB between the second and the third are not read."""
    with MessageStore(tmp_path) as store:
        ends = []
        for topic, queue, body in (("T", 0, b"0"), ("T", 1, b"1"), ("Other", 0, b"x" * 100_000), ("T", 0, b"2")):
            done = store.put(Message(topic, body, queue_id=queue))
            ends.append((done.physical_offset, done.physical_offset + done.size))
    log = LogFiles.discover([str(tmp_path / "commitlog")])
    spans = {QueueName("T", 0): (0, 2), QueueName("T", 1): (0, 1)}
    part = StreamTask(
        str(tmp_path), ReadOptions(path=str(tmp_path)), log, 0, ends[-1][1], spans, frozenset(), sparse=True
    )
    found = [
        piece.base + at for piece in pieces_of(part, Report(), strict=True) for at in piece.positions[: piece.count]
    ]
    assert found == [ends[number][0] for number in (0, 1, 3)]
