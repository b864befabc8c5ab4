"""Ranges of an object: large and ahead where it is read in order, small blocks elsewhere, never too many at a time."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from flintmq.errors import StoreAccessError
from flintmq.objects.bucket import ObjectEntry
from flintmq.objects.remote_file import AHEAD, BLOCK, BLOCKS_KEPT, CHUNK, FIRST_CHUNK, ReadAhead, RemoteFile

SIZE = 3 * CHUNK + 12_345
DATA = bytes(i * 7 + (i >> 8) & 255 for i in range(1 << 16)) * (SIZE // (1 << 16) + 1)
URL = "s3://bucket/store/file"


class Client:
    """A bucket with one object, which notes what is asked of it."""

    def __init__(self, size=SIZE):
        self.length, self.asked, self.at_once, self.most = size, [], 0, 0
        self.error = None
        self._lock = threading.Lock()

    def find(self, key):
        if self.error:
            raise self.error
        return ObjectEntry(key, self.length) if key == "k" else None

    def read(self, key, begin, end):
        with self._lock:
            self.asked.append((begin, end - begin))
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        time.sleep(0.002)
        with self._lock:
            self.at_once -= 1
        if self.error:
            raise self.error
        return DATA[begin:end]


@pytest.fixture
def pool():
    with ThreadPoolExecutor(8) as pool:
        yield pool


def walk(ahead, begin, end, step):
    """What reading in pieces gives, each a bit before the end of the one before, as records that are cut are."""
    buffer, got, position = bytearray(step), bytearray(), begin
    while position < end:
        done = ahead.read_into(memoryview(buffer)[: end - position], position)
        if not done:
            break
        keep = min(done, max(1, done - 100)) if position + done < end else done
        got += buffer[:keep]
        position += keep
    return bytes(got)


@pytest.mark.parametrize("sure", [True, False])
@pytest.mark.parametrize("begin, end", [(0, SIZE), (1000, CHUNK + 5000), (CHUNK, 2 * CHUNK), (SIZE - 10, SIZE)])
def test_in_order(pool, sure, begin, end):
    client = Client()
    ahead = ReadAhead(RemoteFile(client, URL, "k"), pool, begin, end, sure=sure)
    assert walk(ahead, begin, end, 1 << 20) == DATA[begin:end]
    asked = sorted(client.asked)
    assert asked[0][0] == begin and sum(count for _, count in asked) == end - begin  # each byte once
    assert max(count for _, count in asked) <= CHUNK
    assert client.most <= AHEAD + 1
    assert asked[0][1] == min(CHUNK if sure else FIRST_CHUNK, end - begin)


def test_no_more_is_fetched_than_ahead(pool):
    client = Client()
    ahead = ReadAhead(RemoteFile(client, URL, "k"), pool, 0, SIZE, sure=False)
    ahead.read_into(memoryview(bytearray(10)), 0)
    time.sleep(0.05)
    assert sorted(client.asked) == [
        (0, FIRST_CHUNK),
        (FIRST_CHUNK, 2 * FIRST_CHUNK),
        (3 * FIRST_CHUNK, 4 * FIRST_CHUNK),
    ]
    ahead.stop()


def test_what_is_not_in_the_range_is_left_to_others(pool):
    ahead = ReadAhead(RemoteFile(Client(), URL, "k"), pool, 1000, 2000, sure=True)
    buffer = memoryview(bytearray(500))
    assert ahead.read_into(buffer, 0) == 0
    assert ahead.read_into(buffer, 1800) == 200 and buffer[:200] == DATA[1800:2000]
    assert ahead.read_into(buffer, 1000) == 0  # passed
    assert ahead.read_into(buffer, 2000) == 0


def test_here_and_there(pool):
    client = Client()
    file = RemoteFile(client, URL, "k")
    for position in (0, 20, BLOCK - 20, BLOCK - 10, 5 * BLOCK):
        assert file.read(position, 20) == DATA[position : position + 20]
    assert client.asked == [(0, BLOCK), (BLOCK, BLOCK), (5 * BLOCK, BLOCK)]
    assert file.read(SIZE - 5, 20) == DATA[SIZE - 5 : SIZE] and file.read(SIZE, 1) == b""
    assert file.read(10, 5 * BLOCK) == DATA[10 : 10 + 5 * BLOCK] and client.asked[-1] == (10, 5 * BLOCK)
    for number in range(10, 10 + BLOCKS_KEPT):
        file.read(number * BLOCK, 1)
    file.read(0, 1)
    assert client.asked.count((0, BLOCK)) == 2  # forgotten meanwhile


def test_errors_name_url_and_offset(pool):
    client = Client()
    file = RemoteFile(client, URL, "k")
    client.error = StoreAccessError("ACCESS_DENIED", place=URL, advice="check s3.endpoint")
    with pytest.raises(StoreAccessError, match=f"^{URL}, offset 65536: ACCESS_DENIED; check s3.endpoint$"):
        file.read(70_000, 5)
    ahead = ReadAhead(file, pool, 0, SIZE, sure=True)
    with pytest.raises(StoreAccessError, match=f"^{URL}, offset 0: "):
        ahead.read_into(memoryview(bytearray(5)), 0)
    with pytest.raises(StoreAccessError, match=f"^{URL}: ACCESS_DENIED"):
        RemoteFile(client, URL, "k")


def test_gone_and_shorter():
    client = Client()
    file = RemoteFile(client, URL, "k")
    client.error = FileNotFoundError(2, "No such file", URL)
    with pytest.raises(FileNotFoundError, match=f"{URL}, offset 0"):
        file.fetch(0, 5)
    client.error, client.read = None, lambda key, begin, end: b""
    assert file.fetch(0, 5) == b""
    for key in ("other", ""):
        with pytest.raises(FileNotFoundError, match=URL):
            RemoteFile(client, URL, key)
