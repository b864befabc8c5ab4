"""Records where they lie: which of them, in which pieces, and that files are given back. As Arrow: tests/arrow."""

from pathlib import Path

from flintmq.message import GetMessageStatus, Message
from flintmq.store.message_store import MessageStore
from flintmq.store.read.get_batch import AT_ONCE, PieceReader
from tests.support.engine import FILE_SIZE, message, open_small, put_all, put_dispatched


def read(store: MessageStore, topic: bytes = b"T", offset: int = 0, most: int = 1 << 20, size: int = 1 << 30):
    """(status, where to go on, (log offset, queue offset) of each record, pieces) of one answer."""
    found = PieceReader(store._parts.reader, topic, 0, offset, most, size)
    answer = store._parts.reader.answer(topic, 0, offset, 0, found.take)
    places = [
        (piece.base + at, int.from_bytes(piece.data[at + 20 : at + 28], "big"))
        for piece in found.pieces
        for at in piece.positions[: piece.count]
    ]
    assert found.rows == len(places)
    ends = [(piece.base + piece.end, piece.file.start) for piece in found.pieces]
    found.release()
    return answer.status, answer.next_begin_offset, places, ends


def test_a_piece_is_of_one_log_file(tmp_path: Path):
    with open_small(tmp_path, mappedFileSizeConsumeQueue="4000") as store:
        results = put_all(store, 60)
        assert store.wait_dispatched(60)
        status, following, places, ends = read(store)
        assert (status, following) == (GetMessageStatus.FOUND, 60)
        assert places == [(r.physical_offset, r.queue_offset) for r in results]
        files = sorted({r.physical_offset // FILE_SIZE * FILE_SIZE for r in results})
        assert len(files) > 1 and [start for _, start in ends] == files
        assert ends[-1][0] == results[-1].physical_offset + results[-1].size


def test_the_limit_of_bytes_is_kept_and_the_rest_comes_next(tmp_path: Path):
    with open_small(tmp_path, mappedFileSizeCommitLog=1 << 20, mappedFileSizeConsumeQueue="200000") as store:
        put_dispatched(store, 3 * AT_ONCE)
        size = store.get("T", 0, 0).messages[0].size
        for room in (1, 10 * size, (AT_ONCE + 100) * size):
            _, following, places, _ = read(store, size=room)
            assert len(places) == following and max(1, room // size // 2) <= following <= max(1, room // size)


def test_a_hole_is_stepped_over(tmp_path: Path):
    with open_small(tmp_path, mappedFileSizeConsumeQueue="4000") as store:
        put_dispatched(store, 10)
        queue = tmp_path / "consumequeue/T/0" / ("0" * 20)
        data = bytearray(queue.read_bytes())
        data[60:100] = bytes(20) + data[0:20]  # offset 3 lost, and offset 4 says the place of offset 0
        queue.write_bytes(data)
        status, following, places, _ = read(store)
        assert (status, following) == (GetMessageStatus.FOUND, 10)
        assert [offset for _, offset in places] == [0, 1, 2, 5, 6, 7, 8, 9]


def test_records_of_other_queues_have_no_place_here(tmp_path: Path):
    with open_small(tmp_path, mappedFileSizeConsumeQueue="4000") as store:
        for number in range(6):
            store.put(message(number, "U" if number % 2 else "T"))
        store.put(Message("T", bytes(70_000)[:100], flag=1))
        assert store.wait_dispatched(60)
        assert [offset for _, offset in read(store)[2]] == [0, 1, 2, 3]
        assert read(store, b"nobody")[:2] == (GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0)
