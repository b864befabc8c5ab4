"""Queue units and index keys: the kernel against the slow rules of format/, record by record, and its edges."""

import os
import random
import subprocess
import sys
from array import array

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.format import consume_queue, index, properties, record
from flintmq.format.text import java_decode, java_hash
from flintmq.kernels.read import derive, walk
from tests.compat.stores import Golden

DELAYS = StoreConfig().delay_ms


class Run:
    """One call of derive over records laid end to end, with a table that knows their queues."""

    def __init__(
        self, *records: record.Record, flags: int = derive.INDEX, known: bool = True, keys: int = 2_000
    ) -> None:
        self.data, at = b"", array("q")
        for one in records:
            at.append(len(self.data))
            self.data += record.encode(one)
        self.names, self.table, self.slots = bytearray(b"\0"), array("q", bytes(64)), array("i", [-1] * 64)
        self.queues: list[tuple[bytes, int]] = []
        for one in records if known else []:
            self.learn(one.topic, one.queue_id)
        n = len(records)
        self.unit_queue, self.unit_offset, self.unit_time = (
            array("i", bytes(4 * n)),
            array("q", bytes(8 * n)),
            array("q", bytes(8 * n)),
        )
        self.unit_bytes = bytearray(20 * n)
        self.hashes, self.offsets, self.times = (
            array("i", bytes(4 * keys)),
            array("q", bytes(8 * keys)),
            array("q", bytes(8 * keys)),
        )
        self.at, self.why, self.units, self.keys = derive.derive(
            self.data, 5000, at, 0, n, self.slots, self.table, self.names, array("q", DELAYS), flags,
            self.unit_queue, self.unit_offset, self.unit_time, self.unit_bytes, 0,
            self.hashes, self.offsets, self.times, 0,
        )  # fmt: skip

    def learn(self, topic: bytes, queue_id: int) -> None:
        if (topic, queue_id) in self.queues:
            return
        number = len(self.queues)
        self.queues.append((topic, queue_id))
        h = derive.queue_hash(topic, queue_id)
        kind = (
            derive.SCHEDULE if topic == b"SCHEDULE_TOPIC_XXXX" else derive.BATCH if topic == b"Batch" else derive.PLAIN
        )
        prefix = java_hash(java_decode(topic) + "#") & 0xFFFFFFFF
        row = array("q", [len(self.names), len(topic), queue_id, h, prefix, kind, 0, 0])
        self.table = row if number == 0 else self.table + row
        self.names += topic
        slot = h & 63
        while self.slots[slot] >= 0:
            slot = (slot + 1) & 63
        self.slots[slot] = number


def expected_unit(one: record.Record, offset: int) -> bytes:
    """The unit by the slow rules."""
    pairs = properties.parse_bytes(one.properties)
    topic = java_decode(one.topic)
    code = consume_queue.tags_code(pairs.get("TAGS"), topic, one.store_timestamp, pairs.get("DELAY"), DELAYS)
    return consume_queue.UNIT.pack(consume_queue.Unit(offset, one.size, code))


def expected_keys(one: record.Record, peer: str) -> list[int]:
    """Hashes of the keys by the slow rules."""
    keys = index.keys_of(properties.parse_bytes(one.properties), one.sys_flag, peer)
    return [index.key_hash(java_decode(one.topic), key) for key in keys]


@pytest.mark.parametrize("peer", [index.PEER_533, index.PEER_540])
def test_golden_records_give_the_units_and_keys_of_the_slow_rules(golden_store: Golden, peer: str) -> None:
    flags = derive.INDEX | (derive.TAG_KEYS if peer == index.PEER_540 else 0)
    for file in sorted((golden_store.path / "commitlog").iterdir()):
        data, positions = file.read_bytes(), array("q", bytes(8 * 5000))
        n = len(data)
        count, *_ = walk.walk(data, 0, n, n, n, int(file.name), 0, 1 << 26, walk.CHECK_CRC, positions)
        for at in positions[:count]:
            one = record.decode(data, at)
            run = Run(one, flags=flags)
            assert (run.at, run.why) == (1, derive.DONE), one
            dispatched = one.transaction in (record.TRANSACTION_NONE, record.TRANSACTION_COMMIT)
            assert run.units == dispatched
            if dispatched:
                assert bytes(run.unit_bytes) == expected_unit(one, 5000)
                assert (run.unit_queue[0], run.unit_offset[0], run.unit_time[0]) == (
                    0,
                    one.queue_offset,
                    one.store_timestamp,
                )
            assert list(run.hashes[: run.keys]) == expected_keys(one, peer)
            assert set(run.offsets[: run.keys]) <= {5000} and set(run.times[: run.keys]) <= {one.store_timestamp}


NAMES = ["TAGS", "KEYS", "UNIQ_KEY", "DELAY", "TAG", "TAGSX", "keys", "A", "", "é", "INNER_NUM"]
VALUES = [
    "a",
    "",
    "k1 k2",
    " k  k ",
    "3",
    "é",
    "日本 語",
    "😀 x",
    "\x01v",
    "AaAa BBBB",
    "polygenelubricants",
    "99999999999",
]


def test_odd_properties_read_as_java_reads_them() -> None:
    chance = random.Random(7)
    for _ in range(3000):
        text = "".join(
            chance.choice(NAMES) + chance.choice(("\x01", "\x01", "\x01", "", "\x01\x01")) + chance.choice(VALUES)
            + chance.choice(("\x02", "\x02", "\x02", "", "\x02\x02"))
            for _ in range(chance.randrange(6))
        )  # fmt: skip
        one = record.Record(
            topic=chance.choice((b"T", "日本".encode())), properties=text.encode(), store_timestamp=1000
        )
        run = Run(one, flags=derive.INDEX | derive.TAG_KEYS)
        assert run.why == derive.DONE
        assert bytes(run.unit_bytes) == expected_unit(one, 5000), text
        assert list(run.hashes[: run.keys]) == expected_keys(one, index.PEER_540), text


@pytest.mark.parametrize(
    ("delay", "code"),
    [("1", 1000 + 1000), ("18", 1000 + 7_200_000), ("99", 1000 + 7_200_000), ("0", java_hash("t"))],
)
def test_a_scheduled_record_s_code_is_its_time_of_delivery(delay: str, code: int) -> None:
    text = f"TAGS\x01t\x02DELAY\x01{delay}\x02".encode()
    run = Run(record.Record(topic=b"SCHEDULE_TOPIC_XXXX", properties=text, store_timestamp=1000))
    assert consume_queue.UNIT.unpack(run.unit_bytes).tags_code == code


def test_what_is_rare_is_left_to_the_slow_way() -> None:
    plain = record.Record(topic=b"T")
    for one, flags in (
        (record.Record(topic=b"Batch"), 0),
        (record.Record(topic=b"T", properties=b"KEYS\x01\xff\x02"), derive.INDEX),
        (record.Record(topic=b"T", properties=b"TAGS\x01\xed\xa0\x80\x02"), 0),
        (record.Record(topic=b"T", properties=b"UNIQ_KEY\x01\xc3\x02"), derive.INDEX),
        (record.Record(topic=b"SCHEDULE_TOPIC_XXXX", properties=b"DELAY\x01x\x02"), 0),
        (record.Record(topic=b"T", properties=b"INNER_MULTI_DISPATCH\x01a\x02"), derive.LMQ),
    ):
        run = Run(plain, one, plain, flags=flags)
        assert (run.at, run.why, run.units, run.keys) == (1, derive.SPECIAL, 1, 0)


def test_a_new_queue_and_full_keys_stop_the_kernel() -> None:
    run = Run(record.Record(topic=b"T"), known=False)
    assert (run.at, run.why, run.units) == (0, derive.NEW_QUEUE, 0)
    keys = record.Record(topic=b"T", properties=b"KEYS\x01a b c\x02")
    run = Run(keys, keys, keys, keys=8)
    assert (run.at, run.why, run.units, run.keys) == (2, derive.KEYS_FULL, 2, 6)


def test_many_queues_are_told_apart() -> None:
    records = [record.Record(topic=t, queue_id=q) for t in (b"A", b"B", b"AA") for q in (-1, 0, 1, 2, 0x7FFFFFFF)]
    run = Run(*records, *records)
    assert list(run.unit_queue) == [*range(15), *range(15)]


def test_a_position_without_record_is_refused() -> None:
    data = record.encode(record.Record(topic=b"T"))
    for broken in (data[:-1], data[:40], data[:84] + b"\x7f\xff\xff\xff" + data[88:], data[:88] + b"\xff" + data[89:]):
        with pytest.raises(ValueError, match="validated"):
            derive.derive(
                broken, 0, array("q", [0]), 0, 1, array("i", [-1] * 8), array("q", bytes(64)), bytearray(1),
                array("q", [1]), 0, array("i", [0]), array("q", [0]), array("q", [0]), bytearray(20), 0,
                array("i", [0]), array("q", [0]), array("q", [0]), 0,
            )  # fmt: skip


def test_unit_bytes() -> None:
    assert derive.unit(1, 2, -3).hex() == "000000000000000100000002fffffffffffffffd"


@pytest.mark.parametrize("level", [0, 1, 2], ids=["plain", "carry-less", "AVX-512"])
def test_each_kind_of_cpu_gives_java_s_hashes(golden, level: int):
    """Queues with tags that are not ASCII, which Java wrote: with the instructions of lesser CPUs too."""
    store = golden("basic")
    words = ["verify", str(store.path), *(f"--set={key}={value}" for key, value in store.config.items())]
    done = subprocess.run(
        [sys.executable, "-m", "flintmq", *words],
        env={**os.environ, "FLINTMQ_CPU_LEVEL": str(level)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "") and "no defects" in done.stdout, done.stdout[:1000]
