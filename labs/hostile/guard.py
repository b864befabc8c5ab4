"""Buffers that end right before a page nobody may touch: a kernel that reads one byte too far dies by SIGSEGV.

`python -m labs.hostile.guard KERNEL SEED ROUNDS` feeds one kernel mutated records in such buffers. The
process dies if the kernel leaves its buffer; otherwise it prints how many rounds it did. Other tests look at the
results.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import struct
import sys
import tempfile
import time
from array import array
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from flintmq.kernels import only_file
from flintmq.kernels.read import derive as derive_kernel
from flintmq.kernels.read import (
    fetch,
    gather_views,
    group_units,
    index_check,
    json_line,
    odd_text,
    record_parts,
    select,
    walk,
    zone_keys,
)
from flintmq.kernels.read import gather as gather_kernel
from flintmq.kernels.write import append_columns as columns_kernel
from flintmq.kernels.write import (
    encode,
    encode_one,
    fast_append,
    fast_get,
    index_insert,
    pull_frame,
    send_frame,
    unique_keys,
)
from flintmq.message import GetResult, Message, PutMessageStatus, PutResult, RawResult, StoredMessage
from flintmq.remoting.frames import JSON, ROCKETMQ, RemotingFrame, encode_frame
from flintmq.remoting.pulls import FIELDS
from tests.robustness.hostile.records import LOG, record_starts

PREFIX = b"0A1B2C3D4E5F60718293"
HEADER = (
    b'{"code":310,"extFields":{"a":"group","b":"topic","c":"TBW102","d":"8","e":"1","f":"0","g":"1700000000000",'
    b'"h":"0","i":"UNIQ_KEY\\u0001k\\u0002WAIT\\u0001true\\u0002","j":"0","k":"false","m":"false","n":"broker-a"},'
    b'"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":513}'
)
SEND = struct.pack(">II", 4 + len(HEADER) + 9, len(HEADER)) + HEADER + b"some body"
ASKED = {
    "consumerGroup": "group", "topic": "topic", "queueId": "1", "queueOffset": "7", "maxMsgNums": "32", "sysFlag": "7",
    "commitOffset": "5", "suspendTimeoutMillis": "15000", "subscription": "a || b", "subVersion": "1700000000000",
    "expressionType": "TAG", "bname": "broker-a",
}  # fmt: skip
PULLS = [encode_frame(RemotingFrame(11, 7, fields=ASKED, language="JAVA"), kind) for kind in (JSON, ROCKETMQ)]
_PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Guarded:
    """A region between two forbidden pages, of which buffers are cut from either end.

    Args:
        size: bytes that the largest buffer may have.
    """

    def __init__(self, size: int) -> None:
        self.room = -(-size // _PAGE) * _PAGE
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        at = _libc.mmap(None, self.room + 2 * _PAGE, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        assert at not in (None, ctypes.c_void_p(-1).value), "mmap failed"
        self.start = at + _PAGE
        for page in (at, self.start + self.room):
            assert _libc.mprotect(page, _PAGE, 0) == 0, "mprotect failed"

    def last(self, size: int) -> memoryview:
        """The last `size` bytes: behind them lies the forbidden page."""
        return self._view(self.start + self.room - size, size)

    def first(self, size: int) -> memoryview:
        """The first `size` bytes: before them lies the forbidden page."""
        return self._view(self.start, size)

    def _view(self, address: int, size: int) -> memoryview:
        assert 0 <= size <= self.room
        return memoryview((ctypes.c_char * size).from_address(address)).cast("B")

    def holding(self, data: bytes, behind: bool = True) -> memoryview:
        """A buffer with these bytes, before the forbidden page or behind it."""
        view = self.last(len(data)) if behind else self.first(len(data))
        view[:] = data
        return view


EXTREMES = (0, 1, -1, 0x7F, 0x80, 0x7FFF, -0x8000, 0x7FFFFFFF, -0x80000000, 0x7FFFFFFFFFFFFFFF, -0x8000000000000000)


def mutate(data: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, some of them to the ends of what a length can be; then perhaps cut."""
    out = bytearray(data)
    for _ in range(chance.randrange(4)):
        at, width = chance.randrange(len(out)), chance.choice((1, 2, 4, 8))
        value = chance.choice(EXTREMES) if chance.random() < 0.5 else chance.getrandbits(63)
        out[at : at + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "big")
    if chance.random() < 0.3 and out:
        del out[chance.randrange(len(out)) :]
    return bytes(out or b"\0")


def number(chance: random.Random, around: int) -> int:
    """A number that is right, nearly right, or extreme."""
    return chance.choice((around, around, around, around + 1, around - 1, 0, chance.choice(EXTREMES)))


class Tries:
    """One try of each kernel a call. `data` and `positions` fit together, until the dice change one of them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.region = Guarded(64 * 1024)
        self.output = Guarded(1 << 20)

    def _log(self) -> tuple[memoryview, array[int], int]:
        """A buffer with a stretch of log, where its records begin (perhaps no longer so), its log offset."""
        chance = self.chance
        starts = record_starts()
        first = chance.randrange(len(starts) - 4)
        last = min(first + chance.randrange(1, 12), len(starts) - 1)
        begin = starts[first]
        data = mutate(LOG[begin : starts[last]], chance) if chance.random() < 0.8 else LOG[begin : starts[last]]
        positions = array("q", (at - begin for at in starts[first:last]))
        if chance.random() < 0.2:
            positions[chance.randrange(len(positions))] = chance.choice((-1, len(data), len(data) - 1, *EXTREMES))
        return self.region.holding(data, chance.random() < 0.8), positions, begin

    def walk(self) -> None:
        data, _, base = self._log()
        n, chance = len(data), self.chance
        end = number(chance, n)
        walk.walk(data, 0, number(chance, n), end, number(chance, n), base, 0, 1 << 26, 3, array("q", bytes(160)))

    def resync(self) -> None:
        data, _, base = self._log()
        at = self.chance.randrange(min(len(data), 30))
        walk.resync(data, at, number(self.chance, len(data)), number(self.chance, len(data)), base, 1 << 26)

    def crc32(self) -> None:
        data = self.region.holding(self.chance.randbytes(self.chance.randrange(1, 1200)), self.chance.random() < 0.7)
        walk.crc32(data, self.chance.randrange(3))

    def touch(self) -> None:
        data, _, _ = self._log()
        n, chance = len(data), self.chance
        walk.touch(data, number(chance, 0), number(chance, n), number(chance, 1))

    def derive(self) -> None:
        data, positions, base = self._log()
        count, names = len(positions), bytearray(b"\0" + LOG[:64])
        slots, table = array("i", [-1]) * 16, array("q", bytes(64))
        first = stored_queue(data, positions)
        if first is not None:  # the queue of the first record is known, so that derive goes on to what follows
            topic, queue_id = first
            names += topic
            row = [len(names) - len(topic), len(topic), queue_id, derive_kernel.queue_hash(topic, queue_id), 7, 0, 0, 0]
            table = array("q", row)
            slots[row[3] & 15] = 0
        keys = self.chance.choice((0, 1, 4, 64, 20_000))
        derive_kernel.derive(
            data, base, positions, 0, number(self.chance, count), slots, table, names, array("q", [1000]),
            self.chance.choice((0, 1, 3, 5, 7)), array("i", bytes(4 * count)), array("q", bytes(8 * count)),
            array("q", bytes(8 * count)), self.output.last(20 * count), number(self.chance, 0),
            self.output_ints(keys), array("q", bytes(8 * keys)), array("q", bytes(8 * keys)), number(self.chance, 0),
        )  # fmt: skip

    def output_ints(self, count: int) -> array[int]:
        """An int32 array of this length."""
        return array("i", bytes(4 * count))

    def gather(self) -> None:
        data, positions, _ = self._log()
        rows, room = len(positions), self.chance.choice((65, 200, 4096, 30_000))
        plan, longs, ints, out = column_plan(rows, room, self.output)
        if self.chance.random() < 0.3:
            plan[self.chance.randrange(len(plan))] = number(self.chance, room)
        gather_kernel.gather(
            data, positions, 0, number(self.chance, rows), plan, 0, rows, longs, ints, out, array("q", bytes(8 * 2048))
        )

    def gather_views(self) -> None:
        data, positions, _ = self._log()
        rows = len(positions)
        plan, longs, ints, out = view_plan(rows, self.chance.choice((65, 200, 4096)), self.output)
        if self.chance.random() < 0.3:
            plan[self.chance.randrange(len(plan))] = number(self.chance, rows)
        gather_kernel.gather(
            data, positions, 0, number(self.chance, rows), plan, 0, rows, longs, ints, out, array("q", bytes(8 * 2048))
        )

    def copy_records(self) -> None:
        data, positions, _ = self._log()
        count = number(self.chance, len(positions))
        out = self.output.last(self.chance.choice((1, len(data), len(data))))
        gather_views.copy_records(data, positions, count, out, array("q", bytes(8 * len(positions))))

    def goes_beyond(self) -> None:
        count = self.chance.randrange(1, 600)
        views = self.output.holding(bytes(16 * count - self.chance.choice((0, 0, 4)))).cast("i")
        gather_views.goes_beyond(views, number(self.chance, count))

    def only_file(self) -> None:
        """A directory with names of all lengths; how much is asked for has nothing to do with what there is."""
        chance = self.chance
        size, wanted = chance.randrange(200), number(chance, 100)
        with tempfile.TemporaryDirectory() as parent:
            folder = os.path.join(parent, "f" * chance.choice((1, 255)))
            os.mkdir(folder)
            names = {"n" * chance.choice((1, 20, 254, 255)) for _ in range(chance.choice((0, 1, 1, 1, 2)))}
            for name in names:
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(bytes(size))
            opened = os.open(parent, os.O_RDONLY)
            try:
                found = only_file.only_file(opened, os.path.basename(folder).encode(), min(wanted, 1 << 20))
            finally:
                os.close(opened)
        if found is not None:
            assert ({found[0].decode()}, found[1], found[2]) == (names, size, bytes(min(size, wanted)))

    def _units(self, positions: array[int], base: int) -> memoryview:
        """Queue units that lead to these positions, more or less."""
        sizes = [number(self.chance, 150) for _ in positions]
        data = b"".join(
            struct.pack(">qiq", max(-(1 << 63), min(at + base, (1 << 63) - 1)), size & 0x7FFFFFFF, 0)
            for at, size in zip(positions, sizes, strict=True)
        )
        return self.output.holding(data)

    def fetch_run(self) -> None:
        _, positions, base = self._log()
        count, low = len(positions), number(self.chance, 0)
        fetch.run(self._units(positions, base), number(self.chance, 0), number(self.chance, count), low, 1 << 40)

    def fast_get(self) -> None:
        """Records from a map that ends before the forbidden page, by units that tell anything."""
        data, positions, base = self._log()
        count, chance = len(positions), self.chance
        topic, queue_id = stored_queue(data, positions) or (b"Basic", 0)
        file = fast_append.AppendTarget()
        file.start, file.size = base, len(data)
        file.attach(data)
        file.wrote = chance.randrange(len(data) + 1) if chance.random() < 0.2 else len(data)
        units = bytes(self._units(positions, base))
        queue = fast_get.ReadableQueue(topic, chance.choice((count, 1000)), count)
        queue.blocks[0] = units[: chance.choice((len(units), chance.randrange(len(units) + 1)))]
        queue.max_offset = count
        files = SimpleNamespace(files=(file,), file_size=file.size, pool=None)
        limits = 32, 1 << 18, 8, 1 << 16, 1 << 30, 800
        reader = fast_get.FastReader(files, StoredMessage, GetResult, RawResult, (0, 1, 2), limits, lambda _: {1, 2}, 0)
        reader.know("T", queue_id, queue)
        tags = chance.choice((None, "*", "A || B"))
        try:
            found = reader.read("T", queue_id, chance.randrange(count), number(chance, count), tags, 0)
        except AttributeError:  # this queue has no file to read the missing units from
            return
        for message in found.messages if found is not None else []:
            assert message.body is not None and len(message.raw) == message.size

    def fetch_check(self) -> None:
        data, positions, base = self._log()
        count = len(positions)
        topic, queue_id = stored_queue(data, positions) or (b"Basic", 0)
        fetch.check(
            self._units(positions, base), number(self.chance, 0), number(self.chance, count), data, base,
            number(self.chance, len(data)), 1 << 26, topic, queue_id, number(self.chance, 0),
            array("q", bytes(8 * count)),
        )  # fmt: skip

    def fetch_whole(self) -> None:
        data, positions, _ = self._log()
        fetch.whole(data, positions, number(self.chance, len(positions)))

    def fetch_take(self) -> None:
        data, positions, _ = self._log()
        for message in fetch.take(StoredMessage, data, positions, number(self.chance, len(positions))):
            assert message.body is not None and len(message.raw) == message.size

    def select(self) -> None:
        data, positions, _ = self._log()
        count = len(positions)
        query = array("q", [-1 << 63, (1 << 63) - 1, self.chance.randrange(3), self.chance.randrange(3)])
        table = array("q", [0, -1, 0] * 4)
        spot = 3 * select.slot_of(b"Basic", 4)
        table[spot : spot + 3] = array("q", [1, 5, 3])
        rules = array("q", [-2, 0, 0, number(self.chance, -1), 0, 1 << 40, number(self.chance, -2), 0, 0])
        select.select(
            data,
            positions,
            0,
            0,
            number(self.chance, count),
            query,
            table,
            b"\0Basic",
            rules,
            array("q", [0, -1, 0]),
            b"\0",
        )

    def zone(self) -> None:
        data, positions, _ = self._log()
        count = len(positions)
        state = array("q", bytes(8 * zone_keys.STATE))
        state[zone_keys.USED] = number(self.chance, 0)
        hashes = array("q", bytes(8 * self.chance.randrange(1, 200)))
        with suppress(ValueError):
            zone_keys.take(data, positions, number(self.chance, 0), number(self.chance, count), state, hashes)
        hashes[0] = self.chance.choice(EXTREMES)
        zone_keys.fill(hashes, number(self.chance, len(hashes)), self.output.last(64 * self.chance.randrange(1, 9)))
        with suppress(ValueError):
            zone_keys.keyed(data, positions, number(self.chance, count), b"key")
        with suppress(ValueError):
            text = bytes(data[-self.chance.randrange(1, 40) :])
            zone_keys.find(data, number(self.chance, 0), number(self.chance, len(data)), text)
        block = self.region.holding(bytes(64))
        zone_keys.may_have(block, self.chance.choice(EXTREMES))
        zone_keys.block_number(self.chance.choice(EXTREMES), number(self.chance, 7))

    def json_line(self) -> None:
        data, positions, _ = self._log()
        at = positions[self.chance.randrange(len(positions))]
        record = data[at:] if 0 <= at < len(data) and self.chance.random() < 0.5 else data
        size = int.from_bytes(record[:4], "big")
        if 91 <= size <= len(record):
            record = self.region.holding(bytes(record[:size]))
        plan = bytearray(
            value for kind in range(gather_kernel.UNIQ_KEY + 2) for value in (1, kind, self.chance.randrange(77))
        )
        if self.chance.random() < 0.5:
            plan[self.chance.randrange(len(plan))] = self.chance.randrange(256)
        json_line.line(record, b"Ym9keQ==", b"," * self.chance.randrange(13, 20), bytes(plan), lambda *_: "null", None)

    def split(self) -> None:
        pieces = (
            b"TAGS",
            b"KEYS",
            b"UNIQ_KEY",
            b"\x01",
            b"\x02",
            b"a",
            b"\xe4\xb8\xad",
            b"\xff",
            b"x" * 70,
            b"\x01\x02",
        )
        text = b"".join(self.chance.choice(pieces) for _ in range(self.chance.randrange(1, 40)))
        data = self.region.holding(text, self.chance.random() < 0.7)
        at = self.chance.randrange(len(text))
        record_parts.split_properties(data, at, number(self.chance, len(text)), array("q", bytes(8 * 102)))

    def texts(self) -> None:
        data, positions, _ = self._log()
        odd_text.scan(data, positions, number(self.chance, 0), number(self.chance, len(positions)), 0)

    def group(self) -> None:
        count, queues = self.chance.randrange(1, 20), self.chance.randrange(1, 5)
        numbers = array("i", (self.chance.choice((0, queues - 1, queues, -1, 0)) for _ in range(count)))
        data = self.region.holding(bytes(20 * count))
        longs = array("q", bytes(8 * count))
        group_units.group(
            numbers, longs, longs, data, number(self.chance, count), array("q", bytes(8 * queues + 8)),
            array("q", bytes(8 * count)), array("q", bytes(8 * count)), self.output.last(20 * count),
        )  # fmt: skip
        group_units.run_length(array("q", EXTREMES), 0, len(EXTREMES))

    def _index(self) -> tuple[memoryview, int, int]:
        slots, items = self.chance.randrange(1, 9), self.chance.randrange(2, 30)
        size = 40 + 4 * slots + 20 * items
        data = self.chance.randbytes(size) if self.chance.random() < 0.5 else bytes(size)
        if self.chance.random() < 0.5:
            data = data[:36] + (number(self.chance, items) & 0xFFFFFFFF).to_bytes(4, "big") + data[40:]
        return self.region.holding(data, self.chance.random() < 0.7), slots, items

    def _keys(self) -> tuple[array[int], array[int], array[int]]:
        hashes = array("i", (self.chance.choice((0, 1, 0x7FFFFFFF, -1, -0x80000000)) for _ in range(12)))
        numbers = array("q", (self.chance.choice(EXTREMES) for _ in range(12)))
        return hashes, numbers, numbers

    def insert(self) -> None:
        data, slots, items = self._index()
        index_insert.insert(
            data, number(self.chance, slots), number(self.chance, items), *self._keys(), 0, number(self.chance, 12),
            number(self.chance, items) if self.chance.random() < 0.5 else -1,
        )  # fmt: skip

    def match(self) -> None:
        count = self.chance.randrange(1, 30)
        data = self.region.holding(
            self.chance.randbytes(20 * count) if self.chance.random() < 0.5 else bytes(20 * count)
        )
        heads = array("i", bytes(4 * self.chance.randrange(1, 9)))
        args = number(self.chance, count), number(self.chance, 1), number(self.chance, 0)
        index_check.match(data, *args, heads, *self._keys(), 0, number(self.chance, 12))

    def skip(self) -> None:
        count = self.chance.randrange(1, 30)
        data = self.region.holding(
            self.chance.randbytes(20 * count) if self.chance.random() < 0.5 else bytes(20 * count)
        )
        heads = array("i", bytes(4 * self.chance.randrange(1, 9)))
        index_check.skip(
            data, number(self.chance, count), 1, heads, number(self.chance, 0), number(self.chance, 1 << 40)
        )

    def append(self) -> None:
        rows, chance = 3, self.chance
        source = self.region.holding(chance.randbytes(300))
        out = self.output.last(chance.choice((8, 90, 91, 200, 1500)))

        def ends(size: int) -> tuple[array[int], array[int]]:
            starts = array("q", (number(chance, 40 * row) for row in range(rows)))
            return starts, array("q", (number(chance, start + size) for start in starts))

        ints = [array("i", bytes(4 * rows)) for _ in range(4)]
        ints[2][0] = chance.choice((0, 0x10, 0x20, 0x30))
        longs = [array("q", bytes(8 * rows)) for _ in range(4)]
        begins, stops = (array("q", (number(chance, 280) for _ in range(rows))) for _ in range(2))
        encode.append(
            out, 0, number(chance, len(out) + 8), 0, 0, rows, number(chance, 0), number(chance, 4096),
            chance.randrange(2), source, *ends(30), source, *ends(10), source, *ends(20), source, begins, stops,
            ints[0], longs[0], ints[1], ints[2], longs[1], longs[2], ints[3], longs[3], array("q", bytes(8 * rows)),
        )  # fmt: skip

    def put(self) -> None:
        chance = self.chance
        out = self.output.last(chance.choice((8, 90, 91, 99, 200, 1500)))
        body, topic, properties = (self.region.holding(chance.randbytes(chance.randrange(60))) for _ in range(3))
        hosts = chance.randbytes(chance.choice((16, 28, 40, 40, 40)))
        encode_one.encode(
            out, number(chance, len(out)), 0, body, topic, properties, hosts, 0, 0, 0,
            chance.choice((0, 0x10, 0x20, 0x30)), 0, 0, 0, 0, chance.random() < 0.5,
        )  # fmt: skip

    def _appender(self) -> tuple[fast_append.Appender, fast_append.AppendTarget]:
        """An appender whose file ends, at some place before its end, where nobody may write further."""
        chance, file = self.chance, fast_append.AppendTarget()
        file.start, file.size = 0, chance.choice((8, 100, 200, 1500, 4096))
        file.wrote, file.reserved = chance.randrange(file.size + 1), number(chance, file.size)
        file.attach(self.output.last(file.size))
        made = fast_append.Appender("stored", bytes(chance.choice((16, 40))), 2000, chance.random() < 0.5, 0, 0)
        made.target = file
        if chance.random() < 0.5:
            made.keys = unique_keys.Numbers()
            begin = int(time.time() * 1000) - 1000
            made.keys.start(begin, begin + (1 << 31), PREFIX)
        return made, file

    def append_message(self) -> None:
        chance, (made, _) = self.chance, self._appender()
        made.topics["T"] = topic = fast_append.Topic(b"T" * chance.choice((1, 127, 128)))
        topic.places[0] = fast_append.QueueCounter(0)
        words = [
            chance.choice(("", "a", "k" * 300, "k" * 32_700, "\x01", "\udc80", "报警" * 20, "DELAY", "UNIQ_KEY"))
            for _ in range(4)
        ]
        message = Message("T", bytes(chance.randrange(300)), words[0], words[1], {words[2]: words[3]})
        message.sys_flag, message.born_timestamp = number(chance, 0), number(chance, 0)
        if chance.random() < 0.3:
            message.properties_bytes = chance.randbytes(chance.randrange(40))
        made.append(message)

    def send_frame(self) -> None:
        chance = self.chance
        frame = SEND if chance.random() < 0.2 else mutate(SEND, chance)
        for _ in range(chance.randrange(3)):  # an escape, a quote, an end where none was
            at = chance.randrange(8, len(SEND))
            piece = chance.choice((b"\\u00e4", b"\\u0", b"\\", b'"', b"}", b"WAIT", b"9" * 30))
            frame = frame[:at] + piece + frame[at + len(piece) :]
        data = self.region.holding(frame, chance.random() < 0.8)
        send_frame.read(data, number(chance, 0), "1.2.3.4:5")

    def pull_frame(self) -> None:
        chance = self.chance
        pull = chance.choice(PULLS)
        frame = pull if chance.random() < 0.2 else mutate(pull, chance)
        for _ in range(chance.randrange(3)):  # another length, a quote, an end where none was
            at = chance.randrange(8, len(pull))
            piece = chance.choice((b"\0\0\0\x14", b"\0\x05", b"\\", b'"', b"}", b"topic", b"9" * 30))
            frame = frame[:at] + piece + frame[at + len(piece) :]
        data = self.region.holding(frame, chance.random() < 0.8)
        pull_frame.read(data, number(chance, 0), tuple(FIELDS.values())[: chance.choice((12, 12, 12, 3))])

    def pull_answer(self) -> None:
        chance = self.chance
        pieces = tuple(bytes(chance.randrange(200)) for _ in range(chance.choice((4, 5, 5, 5))))
        opaque, following, low, high = (chance.choice(EXTREMES) for _ in range(4))
        data = bytes(chance.randrange(300))
        pull_frame.answer(pieces, opaque, following, low, high, data, number(chance, 0))

    def send_answer(self) -> None:
        chance = self.chance
        pieces = tuple(bytes(chance.randrange(200)) for _ in range(chance.choice((5, 6, 6, 6))))
        key = chance.choice((b"", b"UNIQ_KEY\x01", b"UNIQ_KEY\x01" + b"k" * chance.randrange(300) + b"\x02", b"\x02"))
        host = bytes(chance.choice((0, 7, 8, 20)))
        offset, physical = chance.choice(EXTREMES), chance.choice((77, *EXTREMES))
        result = PutResult(PutMessageStatus.PUT_OK, offset, physical, 100, 0, host, None, key)
        send_frame.answer(pieces, chance.choice(EXTREMES), chance.choice(EXTREMES), result)

    def append_columns(self) -> None:
        chance, rows, (made, file) = self.chance, self.chance.randrange(8), self._appender()
        data = self.region.holding(
            bytes(chance.randrange(2 if chance.random() < 0.001 else 3, 256) for _ in range(240))
        )

        def texts(most: int, count: int) -> columns_kernel.Texts:
            ends = sorted(chance.randrange(most + 1) for _ in range(count + 1))
            if chance.random() < 0.02:
                ends[chance.randrange(count + 1)] = chance.choice((-1, 241, 0x7FFFFFFF))
            valid = chance.randbytes(1) if chance.random() < 0.3 else b""
            said = number(chance, count) if chance.random() < 0.02 else count
            return columns_kernel.Texts(data, array("i", ends).tobytes(), valid, False, 0, said)

        ids = array("i", (chance.choice((0, 1, 1, 65_535, 65_536)) for _ in range(rows * chance.randrange(2))))
        keys = texts(240, rows) if chance.random() < 0.5 else None
        maps = names = values = None
        if chance.random() < 0.5:
            maps, names, values = texts(5, rows), texts(240, 5), texts(240, 5)
        tags = texts(240, rows) if chance.random() < 0.5 else None
        prefix, first = (PREFIX, number(chance, 0)) if chance.random() < 0.5 else (b"", 0)
        columns_ = columns_kernel.Columns(
            b"T", texts(240, rows), tags, keys, maps, names, values, ids, array("q"), prefix, first
        )
        seen = bytearray(columns_kernel.QUEUES)
        row, what = columns_.check(2000, file.size, chance.random() < 0.5, seen)
        places = {queue_id: fast_append.QueueCounter(0) for queue_id, there in enumerate(seen) if there}
        if what == columns_kernel.GOOD:
            first = chance.randrange(rows + 1)
            end = columns_.put(made, file, first, 0, 4096, places, array("q", bytes(8 << 16)))
            room = number(chance, rows) if chance.random() < 0.1 else rows
            numbers, offsets = array("i", bytes(4 << 16)), array("q", bytes(8 << 16))
            out = array("i", bytes(4 * rows)), array("q", bytes(8 * rows)), array("q", bytes(8 * rows))
            units = self.output.last(max(0, min(20 * room, 4096)))
            columns_.units(first, end, 0, 0, numbers, offsets, *out, units, chance.random() < 0.5)


def stored_queue(data: memoryview, positions: array[int]) -> tuple[bytes, int] | None:
    """Topic and queue id of the first record, if it is a whole one."""
    from flintmq.errors import FormatError
    from flintmq.format import record

    try:
        found = record.decode(data, max(positions[0], 0))
    except FormatError:
        return None
    return (found.topic, found.queue_id) if found.topic else None


def column_plan(rows: int, room: int, output: Guarded) -> tuple[array[int], array[int], array[int], memoryview]:
    """A plan for all columns: `room` bytes for each text, one behind the other, the last one before the guard page."""
    numbers = [
        (gather_kernel.INT32, 12),
        (gather_kernel.INT64, 20),
        (gather_kernel.UINT32, 8),
        (gather_kernel.MICROSECONDS, 56),
    ]
    kinds = [
        gather_kernel.MAGIC,
        gather_kernel.TOPIC,
        gather_kernel.BODY,
        gather_kernel.BORN_HOST,
        gather_kernel.STORE_HOST,
        gather_kernel.OFFSET_MSG_ID,
    ]
    plan, n_longs, n_ints, n_out = array("q"), 0, 0, 0
    bits = (rows + 7) // 8
    pairs = 4 * rows
    group = [(gather_kernel.PROPERTIES, pairs), (gather_kernel.NAMES, 1), (gather_kernel.VALUES, 1)]
    group += [(gather_kernel.TAGS, 1), (gather_kernel.KEYS, 1), (gather_kernel.UNIQ_KEY, 1)]
    for kind, number_ in [*numbers, *((kind, 0) for kind in kinds), *group]:
        ints = 0 if 1 <= kind <= 3 else (pairs if kind in (gather_kernel.NAMES, gather_kernel.VALUES) else rows) + 1
        text = room if kind > gather_kernel.MICROSECONDS and kind != gather_kernel.PROPERTIES else 0
        has_bits = kind == gather_kernel.MICROSECONDS or kind >= gather_kernel.TAGS
        plan.extend((kind, number_, n_longs, n_ints, n_out, n_out + text, n_out + text if has_bits else -1))
        n_longs, n_ints, n_out = n_longs + rows * (1 <= kind <= 3), n_ints + ints, n_out + text + bits * has_bits
    return plan, array("q", bytes(8 * n_longs)), array("i", bytes(4 * n_ints)), output.last(max(n_out, 1))


def view_plan(rows: int, room: int, output: Guarded) -> tuple[array[int], array[int], array[int], memoryview]:
    """A plan for all columns of views and codes; `room` bytes for the texts of a dictionary."""
    bits, pairs, views = 4, 4 * rows, 4 * rows
    most = 1 << bits - 1
    plan, longs, ints, n_out = array("q"), array("q"), array("i"), 0
    group = [(gather_kernel.PROPERTY_VIEWS, pairs, rows + 1), (gather_kernel.NAME_VIEWS, 1, 4 * pairs)]
    group += [(gather_kernel.VALUE_VIEWS, 1, 4 * pairs)]
    group += [(kind, 1, views) for kind in (gather_kernel.TAGS_VIEW, gather_kernel.KEYS_VIEW)]
    group += [(gather_kernel.UNIQ_KEY_VIEW, 1, views)]
    for kind, field, n_ints in [(gather_kernel.BODY_VIEW, 1, views), (gather_kernel.MAGIC_CODE, 0, rows), *group]:
        has_bits = kind >= gather_kernel.TAGS_VIEW
        plan.extend((kind, field, 0, len(ints), 0, 0, n_out if has_bits else -1))
        ints.extend([0] * n_ints)
        n_out += (rows + 7) // 8 * has_bits
    for kind in (gather_kernel.TOPIC_CODE, gather_kernel.BORN_HOST_CODE, gather_kernel.STORE_HOST_CODE):
        at = len(ints)
        ints.extend([0] * (rows + 3 * most + 1))
        plan.extend((kind, bits, len(longs), at, n_out, n_out + room, at + rows))
        longs.extend([0] * (most + 1))
        n_out += room
    return plan, longs, ints, output.last(max(n_out, 1))


KERNELS = tuple(name for name in vars(Tries) if not name.startswith("_") and name != "output_ints")


def main(words: list[str]) -> int:
    """KERNEL SEED ROUNDS: that many tries of one kernel, or of each with "all"."""
    seed, rounds = int(words[1]), int(words[2])
    tries = Tries(seed)
    for kernel in KERNELS if words[0] == "all" else [words[0]]:
        one: Callable[[], Any] = getattr(tries, kernel)
        print(f"{kernel}: ", end="", flush=True)  # the last name that is printed is the one that died
        refused = 0
        for _ in range(rounds):
            try:
                one()
            except (ValueError, IndexError, OverflowError):  # a refusal is right; leaving the buffer is not
                refused += 1
        print(f"{rounds} rounds, {refused} refused", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
