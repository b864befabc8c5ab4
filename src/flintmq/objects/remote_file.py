"""Reads one object of object storage in ranges of bounded size.

There are two ways. A sequential read fetches large ranges, some of them ahead. A random read fetches small blocks and
keeps them for a moment, so that a binary search in a queue's units costs a few requests. The client tries each request
several times, each for a bounded time; the final error names URL and offset.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict, deque
from concurrent.futures import Executor, Future

from flintmq.errors import StoreAccessError
from flintmq.objects.bucket import Bucket

BLOCK = 64 * 1024  # of random reads
BLOCKS_KEPT = 16
CHUNK = 8 << 20  # of sequential reads
FIRST_CHUNK = 256 * 1024  # of a sequential read that may end soon; each further one is twice as long
AHEAD = 2  # chunks that are fetched after the one that is read


class RemoteFile:
    """One object as it was when it was opened.

    `seen`: when it was opened, by the monotonic clock. Thread: any.
    """

    def __init__(self, bucket: Bucket, url: str, key: str) -> None:
        self.url, self.key, self.seen, self._bucket = url, key, time.monotonic(), bucket
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._lock = threading.Lock()
        found = bucket.find(key) if key else None
        if found is None or found.size is None:
            raise FileNotFoundError(2, os.strerror(2), url)
        self.size: int = found.size

    def fetch(self, position: int, count: int) -> bytes:
        """Fetch bytes in one request; fewer where the object ends, even if it has become shorter."""
        assert position >= 0  # it would count from the object's end
        count = min(count, self.size - position)
        if count <= 0:
            return b""
        try:
            return self._bucket.read(self.key, position, position + count)
        except FileNotFoundError as error:
            raise FileNotFoundError(2, os.strerror(2), f"{self.url}, offset {position}") from error
        except StoreAccessError as error:
            place = f"{self.url}, offset {position}"
            raise StoreAccessError(error.cause, place=place, advice=error.advice) from error

    def read(self, position: int, count: int) -> bytes:
        """Read bytes at random, from blocks of which the last ones are kept."""
        count = min(count, self.size - position)
        if count <= 0:
            return b""
        first, last = position // BLOCK, (position + count - 1) // BLOCK
        if last - first > 1:
            return self.fetch(position, count)
        data = b"".join(self._block(number) for number in range(first, last + 1))
        return data[position - first * BLOCK :][:count]

    def _block(self, number: int) -> bytes:
        with self._lock:
            found = self._blocks.get(number)
            if found is not None:
                self._blocks.move_to_end(number)
                return found
        found = self.fetch(number * BLOCK, BLOCK)
        with self._lock:
            self._blocks[number] = found
            if len(self._blocks) > BLOCKS_KEPT:
                self._blocks.popitem(last=False)
        return found


class ReadAhead:
    """A sequential read of a range: chunks are fetched before they are needed.

    Thread: one at a time.

    Args:
        pool: runs the fetches; at most AHEAD + 1 chunks are fetched or held at a time.
        sure: all of the range will be read; otherwise chunks begin small, as the read may end soon.
    """

    def __init__(self, file: RemoteFile, pool: Executor, begin: int, end: int, *, sure: bool) -> None:
        self.file, self.pool, self.end = file, pool, min(end, file.size)
        self._next, self._step = begin, CHUNK if sure else FIRST_CHUNK
        self._chunks: deque[tuple[int, int, Future[bytes]]] = deque()

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill a buffer from a position on, up to the end of the range.

        Returns:
            Bytes read; 0 if the range does not contain the position.
        """
        while self._chunks and self._chunks[0][1] <= position:
            self._chunks.popleft()[2].cancel()
        if not self._chunks:
            if not self._next <= position < self.end:
                return 0
            self._next = position
        elif position < self._chunks[0][0]:
            return 0
        done, number = 0, 0
        while done < len(buffer):
            self._fill()
            if number == len(self._chunks):
                break
            start, stop, future = self._chunks[number]
            data = memoryview(future.result())[position + done - start :][: len(buffer) - done]
            buffer[done : done + len(data)] = data
            done += len(data)
            if position + done < stop:
                break  # the buffer is full, or the object has become shorter
            number += 1
        return done

    def _fill(self) -> None:
        while len(self._chunks) <= AHEAD and self._next < self.end:
            stop = min(self._next + self._step, self.end)
            assert not self._chunks or self._chunks[-1][1] == self._next  # without a gap
            self._chunks.append((self._next, stop, self.pool.submit(self.file.fetch, self._next, stop - self._next)))
            self._next, self._step = stop, min(2 * self._step, CHUNK)

    def stop(self) -> None:
        while self._chunks:
            self._chunks.popleft()[2].cancel()
