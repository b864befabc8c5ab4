"""Files and offsets of a bulk load."""

from collections import Counter

import numpy
import pytest

from flintmq.spark.jobs.replay.plan import ChunkCount, Packer, ReplayTask, share_out
from flintmq.spark.jobs.replay.source import Chunk


def by_hand(sizes: list[int], file_size: int) -> int:
    """How many files: a record must leave 8 bytes of its file free."""
    files, left = 1, file_size
    for size in sizes:
        if size > left - 8:
            files, left = files + 1, file_size
        left -= size
    return files


@pytest.mark.parametrize("cut", [1, 3, 7, 50])
def test_files_are_counted_as_they_are_filled(cut: int) -> None:
    sizes = numpy.random.default_rng(5).integers(90, 992, 50)
    sizes[7:9] = 992
    packer = Packer(1000)
    for first in range(0, len(sizes), cut):
        packer.add(sizes[first : first + cut])
    assert packer.files == by_hand(sizes.tolist(), 1000)


def counted(number: int, rows: int, size: int, files: int = 1, time: int = 5) -> ChunkCount:
    queues = {("T", 0): rows - 1, ("U", number): 1} if rows else {}
    return ChunkCount(Chunk(number, number + 1), rows, size, files, time, queues, Counter())


def test_chunks_share_a_file_where_they_fit() -> None:
    chunks = [
        counted(0, 4, 500, time=9),
        counted(1, 0, 0),
        counted(2, 3, 492),
        counted(3, 9, 2500, 3),
        counted(4, 2, 10),
    ]
    first, large, last = share_out(chunks, 1000)
    assert [chunk.begin for chunk in first.chunks] == [0, 2] and (first.begin, first.files, first.rows) == (0, 1, 7)
    assert (large.begin, large.files, large.last_time) == (1000, 3, 9)
    assert large.queues == {("T", 0): 5, ("U", 0): 1, ("U", 2): 1}
    assert (last.begin, last.last, large.last) == (4000, True, False) and last.queues["T", 0] == 13
    assert share_out([counted(0, 0, 0)], 1000) == []


def test_a_share_goes_through_a_file() -> None:
    [share] = share_out([counted(0, 4, 500)], 1000)
    again = ReplayTask.from_json(share.to_json())
    assert again == share and isinstance(again.chunks[0], Chunk)
