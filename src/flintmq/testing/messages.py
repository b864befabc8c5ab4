"""Generates messages: a cycle of them, decided once from a seed and then repeated.

Deciding on a message in Python costs microseconds; a store of 10 GB has tens of millions. So a `Cycle` of some thousand
messages is made once, and each round fills in only the differences: queue offsets, times, the digits in unique ids and
keys, and the start of each body in a pool of text (or random bytes). Messages that depend on the place of others (a
commit names its half message) are `late`: they are finished one by one.
"""

from __future__ import annotations

import itertools
import random
import struct
import zlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flintmq.errors import MissingExtraError, UsageError
from flintmq.format import inner_batch, properties
from flintmq.format.group_topics import retry_topic
from flintmq.format.message_id import parse_host
from flintmq.testing.rows import Rows

KINDS = (
    "flags",
    "ipv6",
    "v2",
    "compressed",
    "odd",
    "delay",
    "transactions",
    "batches",
    "inner_batches",
    "light_queues",
)
NAMES = ("Orders", "Payments", "Shipments", "Inventory", "Customers", "Invoices", "Returns", "Audit")
TAGS = ("created", "changed", "paid", "shipped", "cancelled")
WORDS = (
    "order payment invoice customer basket item price discount shipped paid returned warehouse carrier parcel "
    "pending confirmed rejected refund account balance currency total quantity address street city country note"
)

SCHEDULE, HALF, OP = "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
BATCH_TOPIC, LIGHT_TOPIC, ODD_TOPIC = "Bulk", "Devices", "Größen-库存"
DELAY_MS = (1000, 5000, 10000, 30000)  # of levels 1 to 4
N = b"\0"  # the place of the message number's eight digits in a template's properties


@dataclass(frozen=True)
class Shape:
    """The properties of a store's messages; `write_store` explains the fields."""

    topics: Sequence[tuple[str, float]]
    queues: int
    body_bytes: tuple[int, int]
    random_bodies: bool
    tags: Sequence[str]
    keys: int
    kinds: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        unknown = sorted(self.kinds - set(KINDS))
        if unknown:
            raise UsageError(f"unknown kinds of messages: {', '.join(unknown)}; there are: {', '.join(KINDS)}")
        low, high = self.body_bytes
        if not 0 <= low <= high <= 1 << 28 or self.queues < 1 or self.keys < 0 or not self.topics:
            raise UsageError("body_bytes must be (least, most), queues at least 1, keys not negative, topics not none")


Late = Callable[[int, int], None]  # finishes a row, given its place in the cycle and the message's number


@dataclass
class Cycle:
    """Messages to repeat.

    Attributes:
        rows: the messages as columns; `fill` renews them.
        templates: encoded properties of each row, with N in place of digits.
        queue_of: for each row the number of its queue in `counters`, -1 for records without a place in a queue.
        place: for each row the number of offsets of that queue that earlier rows take.
        takes: for each row the number of offsets that it takes.
        steps: queue number -> number of offsets that all rows take.
        pooled: length of each row's body that is taken from the pool; -1 for bodies of their own.
        late: row -> function that finishes it.
        batches: first row of a classic batch -> row after its last.
    """

    pool: bytes
    rows: Rows = field(default_factory=Rows)
    templates: list[bytes] = field(default_factory=list)
    queue_of: list[int] = field(default_factory=list)
    place: list[int] = field(default_factory=list)
    takes: list[int] = field(default_factory=list)
    steps: dict[int, int] = field(default_factory=dict)
    pooled: list[int] = field(default_factory=list)
    body_at: list[int] = field(default_factory=list)
    born_ago: list[int] = field(default_factory=list)
    late: dict[int, Late] = field(default_factory=dict)
    batches: dict[int, int] = field(default_factory=dict)
    _pool_at: int = 0
    _fixed: int = 0
    _longest: int = 0

    def __len__(self) -> int:
        return len(self.templates)

    def seal(self) -> None:
        """Append the pool to the rows' own bodies, after the last message was added."""
        bodies = self.rows.bodies
        self._pool_at = len(bodies.data)
        bodies.data += self.pool
        self._fixed = len(bodies.data)
        self._longest = max(self.pooled, default=0)

    def steps_of(self, count: int) -> dict[int, int]:
        """Return the number of offsets per queue that the first `count` rows take."""
        steps: dict[int, int] = {}
        for queue, takes in zip(self.queue_of[:count], self.takes[:count], strict=True):
            if takes:
                steps[queue] = steps.get(queue, 0) + takes
        return steps

    def fill(self, number: int, shift: int, counters: list[int], times: Sequence[int]) -> None:
        """Renew the rows for another round.

        Args:
            number: of the round's first message.
            shift: moves all places in the pool.
            counters: next offset of each queue.
            times: store times, ms.
        """
        rows = self.rows
        texts = [text.replace(N, b"%08X" % n) for n, text in enumerate(self.templates, number)]
        ends = array("q", itertools.accumulate(map(len, texts)))
        rows.properties.data = bytearray(b"".join(texts))
        rows.properties.starts, rows.properties.ends = array("q", [0, *ends[:-1]]), ends
        rows.queue_offsets = array(
            "q", [counters[q] + p if q >= 0 else 0 for q, p in zip(self.queue_of, self.place, strict=True)]
        )
        rows.store_times = array("q", times)
        rows.born_times = array("q", [time - ago for time, ago in zip(times, self.born_ago, strict=True)])
        del rows.bodies.data[self._fixed :]
        room, first = len(self.pool) - self._longest + 1, self._pool_at
        starts = [
            first + (at + shift) % room if size >= 0 else at for at, size in zip(self.body_at, self.pooled, strict=True)
        ]
        sizes = self.pooled
        rows.bodies.ends = array(
            "q", [s + n if n >= 0 else e for s, n, e in zip(starts, sizes, rows.bodies.ends, strict=True)]
        )
        rows.bodies.starts = array("q", starts)


class Maker:
    """Makes one cycle.

    Queues have their numbers in `numbers`, light queues their next offset in `light`: dictionaries that all cycles of a
    store share. Those in `rest` get the first messages.
    """

    def __init__(
        self,
        shape: Shape,
        seed: str,
        pool: bytes,
        numbers: dict[tuple[str, int], int],
        light: dict[str, int],
        rest: Sequence[tuple[str, int]] = (),
    ) -> None:
        self.shape, self.numbers, self.light, self.rest = shape, numbers, light, list(rest)
        self.random = random.Random(seed)
        self.cycle = Cycle(pool)
        self.hosts = [parse_host(f"10.1.{self.random.randrange(256)}.{i}:{40000 + i}") for i in range(1, 17)]
        self.host6 = parse_host("[2001:db8::17]:41000")
        self.broker, self.broker6 = parse_host("10.0.0.2:10911"), parse_host("[2001:db8::2]:10911")
        self.weights = list(itertools.accumulate(weight for _, weight in shape.topics))
        self.prefix = f"{self.random.getrandbits(96):024X}"

    def make(self, count: int) -> Cycle:
        """Make a cycle of exactly `count` messages; a quarter of the steps are of special kinds."""
        kinds = sorted(self.shape.kinds)
        while len(self.cycle) < count:
            if kinds and not self.rest and self.random.random() < 0.25:
                getattr(self, "_" + self.random.choice(kinds))(count - len(self.cycle))
            else:
                self._plain()
        self.cycle.seal()
        return self.cycle

    def counter(self, topic: str, queue_id: int) -> int:
        """Return the number of a queue."""
        return self.numbers.setdefault((topic, queue_id), len(self.numbers))

    def _topic(self) -> str:
        return self.random.choices([name for name, _ in self.shape.topics], cum_weights=self.weights)[0]

    def _size(self) -> int:
        return self.random.randint(*self.shape.body_bytes)

    def _usual(self, extra: dict[str, str] | None = None) -> bytes:
        """Return the properties of a usual message: keys, a unique id, a tag or none, WAIT."""
        pairs: dict[str, str | None] = {}
        if self.shape.keys:
            names = ["k\0"] + [f"c{self.random.randrange(5000)}" for _ in range(self.shape.keys - 1)]
            pairs[properties.KEYS] = " ".join(names)
        pairs[properties.UNIQ_KEY] = self.prefix + "\0"
        pairs[properties.WAIT] = "true"
        if self.shape.tags:
            pairs[properties.TAGS] = self.random.choice([*self.shape.tags, None])
        pairs.update(extra or {})
        return properties.encode(pairs)

    def _add(
        self,
        topic: str,
        queue_id: int,
        template: bytes,
        body: bytes | None = None,
        *,
        takes: int = 1,
        sys_flag: int = 0,
        flag: int = 0,
        reconsumed: int = 0,
    ) -> int:
        """Add one message.

        Args:
            body: None for one from the pool.
            takes: number of queue offsets that it uses.
        """
        cycle = self.cycle
        number = self.counter(topic, queue_id) if takes else -1
        cycle.queue_of.append(number)
        cycle.place.append(cycle.steps.get(number, 0))
        cycle.takes.append(takes)
        if takes:
            cycle.steps[number] = cycle.steps.get(number, 0) + takes
        cycle.templates.append(template)
        cycle.born_ago.append(self.random.randrange(30))
        row = cycle.rows.add(
            topic.encode(),
            queue_id,
            0,
            body or b"",
            flag=flag,
            sys_flag=sys_flag,
            reconsumed=reconsumed,
            born_host=self.host6 if sys_flag & 0x10 else self.random.choice(self.hosts),
            store_host=self.broker6 if sys_flag & 0x20 else self.broker,
        )
        cycle.pooled.append(self._size() if body is None else -1)
        cycle.body_at.append(self.random.getrandbits(40) if body is None else cycle.rows.bodies.starts[row])
        return row

    def _queue(self) -> int:
        return self.random.randrange(self.shape.queues)

    def _plain(self) -> None:
        topic, queue = self.rest.pop() if self.rest else (self._topic(), self._queue())
        self._add(topic, queue, self._usual())

    # The special kinds. Each method gets the number of messages left in the cycle.

    def _flags(self, left: int) -> None:
        flag = self.random.choice((1, -1, 2**31 - 1, -(2**31), self.random.getrandbits(31)))
        multi_tag = {properties.TAGS: "paid || shipped"}
        sys_flag = self.random.choice((0, 2))
        self._add(
            self._topic(),
            self._queue(),
            self._usual(multi_tag if sys_flag else None),
            flag=flag,
            sys_flag=sys_flag,
            reconsumed=self.random.choice((0, 1, 16)),
        )

    def _ipv6(self, left: int) -> None:
        self._add(self._topic(), self._queue(), self._usual(), sys_flag=self.random.choice((0x10, 0x20, 0x30)))

    def _v2(self, left: int) -> None:
        group = "consumers-of-" + "-".join(["a-long-name"] * 10)
        extra = {
            properties.RETRY_TOPIC: self._topic(),
            properties.ORIGIN_MESSAGE_ID: "0A00000200002A9F0000000000000000",
        }
        self._add(retry_topic(group), 0, self._usual(extra), reconsumed=1)

    def _compressed(self, left: int) -> None:
        start = self.random.randrange(max(1, len(self.cycle.pool) - 4096))
        body = self.cycle.pool[start : start + max(200, self._size())]
        kind = self.random.randrange(4)
        self._add(self._topic(), self._queue(), self._usual(), compress(body, kind), sys_flag=1 | kind << 8)

    def _odd(self, left: int) -> None:
        strings = (
            b"",
            b"A\x01\x02B\x01x\x02",
            b"\x01v\x02",
            b"A\x01b",
            b"A\x01b\x01c\x02",
            b"\x02\x02A\x01b\x02A\x01c\x02",
        )
        magics = struct.pack(">IIII", 0xDAA320A7, 0xDAA320AB, 0xCBD43194, 0) * 3
        unicode = properties.encode({"KEYS": "ключ k\0", "TAGS": "größe", "名": "值\U0001f600"})
        template = self.random.choice((*strings, unicode, self._usual()))
        body = self.random.choice((b"", magics, b"\0", bytes(300), None))
        self._add(ODD_TOPIC, self.random.choice((0, 0, 7)), template, body)

    def _delay(self, left: int) -> None:
        level = self.random.randrange(len(DELAY_MS)) + 1
        topic, queue = self._topic(), self._queue()
        template = self._usual({"DELAY": str(level), "REAL_TOPIC": topic, "REAL_QID": str(queue)})
        self._add(SCHEDULE, level - 1, template)
        if left > 1:
            self._add(topic, queue, template)  # the delivered copy, which still has all properties

    def _transactions(self, left: int) -> None:
        topic, queue = self._topic(), self._queue()
        marks = {"TRAN_MSG": "true", "PGROUP": "payers"}
        ending = self.random.choice((0x4, 0x8, 0x8, 0xC))
        if ending == 0x4:  # only other writers store prepared and rolled-back records; they have no queue offset
            self._add(topic, queue, self._usual(marks), takes=0, sys_flag=0x4)
            return
        real = {"REAL_TOPIC": topic, "REAL_QID": str(queue)}
        half = self._add(HALF, 0, self._usual(marks | real | {"__transactionId__": self.prefix + "\0"}))
        rows = self.cycle.rows
        if left > 1:
            end = self._add(topic, queue, self._usual(marks | real), takes=int(ending == 0x8), sys_flag=ending)

            def name_half(row: int, _: int) -> None:
                rows.prepared_offsets[row] = rows.physical_offsets[half]

            self.cycle.late[end] = name_half
        if left > 2:
            op = self._add(OP, 0, properties.encode({"TAGS": "d"}), b"")
            self.cycle.late[op] = lambda row, _: rows.bodies.set(row, b"%d," % rows.queue_offsets[half])

    def _batches(self, left: int) -> None:
        topic, queue, first = self._topic(), self._queue(), len(self.cycle)
        for _ in range(min(left, self.random.randrange(2, 9))):
            self._add(topic, queue, self._usual({"CLUSTER": "DefaultCluster"}))
            self.cycle.born_ago[-1] = self.cycle.born_ago[first]
        self.cycle.batches[first] = len(self.cycle)

    def _inner_batches(self, left: int) -> None:
        count, queue = self.random.randrange(1, 12), self.random.randrange(2)
        entry = properties.encode({"KEYS": f"e{self.random.randrange(99)}"})
        start = self.random.randrange(max(1, len(self.cycle.pool) - 2000))
        bodies = [self.cycle.pool[start + 10 * i : start + 13 * i + 5] for i in range(count)]
        body = inner_batch.encode(inner_batch.Entry(flag=i, body=b, properties=entry) for i, b in enumerate(bodies))
        row = self._add(BATCH_TOPIC, queue, b"", body, takes=count, sys_flag=0xC0)
        usual = self._usual()
        rows = self.cycle.rows

        def number(row: int, message: int) -> None:
            pairs = properties.encode({"INNER_NUM": str(count), "INNER_BASE": str(rows.queue_offsets[row])})
            rows.properties.set(row, usual.replace(N, b"%08X" % message) + pairs)

        self.cycle.late[row] = number

    def _light_queues(self, left: int) -> None:
        names = self.random.sample([f"%LMQ%device-{i}" for i in range(12)], self.random.randrange(1, 4))
        row = self._add(LIGHT_TOPIC, self._queue(), b"")
        usual = self._usual({"INNER_MULTI_DISPATCH": ",".join(names)})
        rows, light = self.cycle.rows, self.light

        def number(row: int, message: int) -> None:
            offsets = [light.get(name, 0) for name in names]
            light.update({name: offset + 1 for name, offset in zip(names, offsets, strict=True)})
            pairs = properties.encode({"INNER_MULTI_QUEUE_OFFSET": ",".join(map(str, offsets))})
            rows.properties.set(row, usual.replace(N, b"%08X" % message) + pairs)

        self.cycle.late[row] = number


def pool_of(shape: Shape, seed: int, messages: int) -> bytes:
    """Return the pool that bodies are cut from: random bytes, or words with spaces."""
    low, high = shape.body_bytes
    size = min(4 << 20, max(1 << 14, messages * (low + high) // 8)) + 2 * high
    source = random.Random(f"pool {seed}")
    if shape.random_bodies:
        return source.randbytes(size)
    words = WORDS.split()
    sentences = [" ".join(source.choices(words, k=source.randrange(4, 12))) + ". " for _ in range(2000)]
    text = "".join(source.choices(sentences, k=size // 40 + 1))
    return (text * (size // len(text) + 1)).encode()[:size]


def compress(body: bytes, kind: int) -> bytes:
    """Compress a body by LZ4 (1), ZSTD (2) or ZLIB (3; 0 for old clients, which name no method).

    Raises:
        MissingExtraError: the library of 1 or 2 is not installed.
    """
    if kind in (0, 3):
        return zlib.compress(body)
    try:
        if kind == 1:
            import lz4.frame

            return bytes(lz4.frame.compress(body))
        try:
            from compression import zstd
        except ImportError:
            from backports import zstd
        return bytes(zstd.compress(body))
    except ImportError as error:
        raise MissingExtraError(f"compressed messages need {error.name}: pip install 'flintmq[compress]'") from error
