"""Stores made to cost much: each bomb is a function of a directory and about how many bytes it may take.

Every bomb is legal bytes as far as it can be, so that readers go on; what is hostile is how often something stands
there.
"""

import json
import struct
from collections.abc import Callable
from pathlib import Path

from flintmq.format import checkpoint, flintmq_mark, index, record
from flintmq.format.batch_queue import BATCH_UNIT, BatchUnit
from flintmq.format.consume_queue import UNIT, Unit
from tests.robustness.hostile.records import T0, encoded

Bomb = Callable[[Path, int], None]
BOMBS: dict[str, Bomb] = {}
_HEAD = struct.Struct(">iIiiiqqiq8sq8siqi")  # a V1 record with IPv4 hosts, up to its body's length


def bomb(make: Bomb) -> Bomb:
    """Enter a bomb in the table."""
    BOMBS[make.__name__] = make
    return make


def log_file(root: Path, data: bytes | bytearray, start: int = 0, size: int | None = None) -> Path:
    """One file of a commit log, with zeros behind."""
    folder = root / "commitlog"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{start:020}"
    path.write_bytes(data)
    with path.open("r+b") as file:
        file.truncate(len(data) + 4096 if size is None else size)
    return path


def fill(size: int, each: Callable[[int, int], bytes]) -> bytearray:
    """Records of `each(number, log offset)` until there are `size` bytes."""
    data, number = bytearray(), 0
    while len(data) < size:
        data += each(number, len(data))
        number += 1
    return data


def header(offset: int, size: int, body: int) -> bytes:
    """The first 88 bytes of a record that says it stands at `offset`."""
    return _HEAD.pack(size, record.MAGIC_V1, 1, 0, 0, 0, offset, 0, 0, bytes(8), T0, bytes(8), 0, 0, body)


def plain(number: int, offset: int) -> bytes:
    return encoded(offset, queue_offset=number, store_timestamp=T0 + number)


@bomb
def headers_that_claim_much(root: Path, size: int) -> None:
    """Behind a few records: headers back to back, each of a record that reaches far and fails its checksum at last."""
    data = fill(1000, plain)
    while len(data) < size:
        claimed = min(400_000, size - len(data))
        data += header(len(data), claimed, max(claimed - 91, 0)) if claimed >= 91 else bytes(claimed)
    log_file(root, data, size=size + 4096)


@bomb
def headers_beyond_every_window(root: Path, size: int) -> None:
    """The same with records larger than what is read at once."""
    data = fill(1000, plain)
    while len(data) < size:
        claimed = size - len(data)
        data += header(len(data), claimed, max(claimed - 91, 0)) if claimed >= 91 else bytes(claimed)
    log_file(root, data, size=size + 4096)


def _every_second(root: Path, size: int) -> None:
    def each(number: int, offset: int) -> bytes:
        made = bytearray(plain(number, offset))
        made[90] ^= number & 1
        return bytes(made)

    log_file(root, fill(size, each))


@bomb
def every_second_record_damaged(root: Path, size: int) -> None:
    """As many separate damages as there can be."""
    _every_second(root, size)


@bomb
def every_second_record_damaged_unclean(root: Path, size: int) -> None:
    """The same after an unclean stop, below a durable mark."""
    _every_second(root, size)
    (root / "abort").write_bytes(b"")
    (root / "flintmq.mark").write_bytes(flintmq_mark.encode(1 << 60, 0))


@bomb
def damaged_and_older(root: Path, size: int) -> None:
    """A first record from the future, then damage after damage below the mark with only older records behind."""

    def each(number: int, offset: int) -> bytes:
        made = bytearray(encoded(offset, queue_offset=number, store_timestamp=T0 + (0 if number else 10**12)))
        made[90] ^= number & 1
        return bytes(made)

    log_file(root, fill(size, each))
    (root / "abort").write_bytes(b"")
    (root / "flintmq.mark").write_bytes(flintmq_mark.encode(1 << 60, 0))


@bomb
def clocks_that_step(root: Path, size: int) -> None:
    """The store time steps back at every second record, and each step is higher than the one before."""

    def each(number: int, offset: int) -> bytes:
        return encoded(offset, queue_offset=number, store_timestamp=T0 + (number if number % 2 else 0))

    log_file(root, fill(size, each))
    (root / "checkpoint").write_bytes(checkpoint.encode(checkpoint.Checkpoint(1 << 60)))


@bomb
def a_queue_for_each_record(root: Path, size: int) -> None:
    log_file(root, fill(size, lambda n, at: encoded(at, topic=b"t%d" % n, queue_id=n, body=b"")))


def _collision(number: int, width: int = 20) -> bytes:
    return b"".join(b"Aa" if number >> bit & 1 else b"BB" for bit in range(width))


@bomb
def topics_of_one_hash(root: Path, size: int) -> None:
    """As many topics as records, and Java gives all of them one hash."""
    log_file(root, fill(size, lambda n, at: encoded(at, topic=_collision(n), body=b"")))


@bomb
def records_of_many_keys(root: Path, size: int) -> None:
    """As many keys a record as its properties can hold."""
    text = b"KEYS\x01" + b"k " * 16_000 + b"\x02"
    log_file(root, fill(size, lambda n, at: encoded(at, queue_offset=n, properties=text)))


@bomb
def records_of_many_properties(root: Path, size: int) -> None:
    """8,191 properties a record."""
    text = b"".join(bytes((0x20 + i % 90,)) + b"\x01v\x02" for i in range(8191))
    log_file(root, fill(size, lambda n, at: encoded(at, queue_offset=n, properties=text)))


@bomb
def records_of_many_light_queues(root: Path, size: int) -> None:
    """As many light queues a record as its properties can hold."""
    names = b",".join(b"%%LMQ%%%d" % i for i in range(2000))
    text = (
        b"INNER_MULTI_DISPATCH\x01" + names + b"\x02INNER_MULTI_QUEUE_OFFSET\x01" + b",".join([b"0"] * 2000) + b"\x02"
    )
    log_file(root, fill(size, lambda n, at: encoded(at, queue_offset=n, properties=text)))


@bomb
def odd_text_everywhere(root: Path, size: int) -> None:
    """Topics and properties that are no UTF-8, each one another."""
    text = b"KEYS\x01\xff\xed\xa0\x80 \xfe\x02TAGS\x01\xc0\x80\x02"
    log_file(root, fill(size, lambda n, at: encoded(at, topic=b"\xff\x1b]0;%d\x07" % n, properties=text)))


@bomb
def queue_offsets_at_the_end(root: Path, size: int) -> None:
    """Queue offsets from one end of the 64-bit numbers to the other."""
    places = (0, (1 << 63) - 1, 1, -1, 1 << 62, -(1 << 63), 2, 1 << 40, (1 << 63) // 20, 3)
    log_file(root, fill(size, lambda n, at: encoded(at, queue_offset=places[n % len(places)], queue_id=n % 3)))


@bomb
def many_empty_log_files(root: Path, size: int) -> None:
    """A file for each 256 bytes of budget, all empty but the first."""
    log_file(root, fill(1000, plain), size=1024)
    for number in range(1, size // 256):
        (root / "commitlog" / f"{1024 * number:020}").write_bytes(b"")


@bomb
def many_small_log_files(root: Path, size: int) -> None:
    """Log files of one record each."""
    at = 0
    for number in range(size // 4096):
        data = encoded(at, queue_offset=number, store_timestamp=T0 + number)
        data += record.encode_blank(4096 - len(data))
        log_file(root, data, at, 4096)
        at += 4096


@bomb
def many_queue_directories(root: Path, size: int) -> None:
    """A queue directory for each 256 bytes of budget; 65,536 at 16 MiB."""
    log_file(root, fill(1000, plain))
    for number in range(size // 256):
        (root / "consumequeue" / f"t{number % 256}" / str(number // 256)).mkdir(parents=True)


@bomb
def many_queue_files(root: Path, size: int) -> None:
    """One queue of files of one unit."""
    log_file(root, fill(1000, plain))
    folder = root / "consumequeue" / "T" / "0"
    folder.mkdir(parents=True)
    for number in range(size // 256):
        (folder / f"{20 * number:020}").write_bytes(UNIT.pack(Unit(0, 100, 0)))


def _queue(root: Path, size: int, unit: Callable[[int], bytes], kind: str = "consumequeue") -> None:
    log_file(root, fill(100_000, plain))
    folder = root / kind / "T" / "0"
    folder.mkdir(parents=True)
    width = len(unit(0))
    (folder / f"{0:020}").write_bytes(b"".join(unit(number) for number in range(size // width)))


@bomb
def units_that_lead_to_another_queue(root: Path, size: int) -> None:
    """Every unit points at a record that counts and is not of this queue offset."""
    step = len(plain(0, 0))
    _queue(root, size, lambda n: UNIT.pack(Unit((n * 7919 % 900) * step, step, 0)))


@bomb
def units_that_lead_nowhere(root: Path, size: int) -> None:
    """Every unit points into the log, and never at a record."""
    _queue(root, size, lambda n: UNIT.pack(Unit(1 + n % 90_000, 100, 0)))


@bomb
def batch_units_that_lead_nowhere(root: Path, size: int) -> None:
    """The same in a batch queue, with numbers of messages that overlap."""
    _queue(root, size, lambda n: BATCH_UNIT.pack(BatchUnit(1 + n % 90_000, 100, 0, T0, n, 32_767)), "batchconsumequeue")


def index_file(
    root: Path, items: list[bytes], slots: list[int], end: int = 1 << 40, name: str = "20240101000000000"
) -> None:
    """An index file of these items (number 1 on) with four places for items a slot, so that it tells its division."""
    room = 4 * len(slots)
    body = struct.pack(f">{len(slots)}i", *slots) + bytes(20) + b"".join(items)
    head = index.HEADER.pack(index.Header(T0, T0 + 1000, 0, end, 1, min(len(items) + 1, room)))
    (root / "index").mkdir(parents=True, exist_ok=True)
    (root / "index" / name).write_bytes((head + body).ljust(index.file_size(len(slots), room), b"\0"))


def _chain(root: Path, size: int, offset: Callable[[int], int]) -> None:
    count = size // 20
    slots = count // 4 + 1
    hash_ = index.key_hash("T", "k")
    items = [index.ITEM.pack(index.Item(hash_, offset(n), 0, n - 1)) for n in range(1, 4 * slots)]
    heads = [0] * slots
    heads[hash_ % slots] = len(items)
    index_file(root, items, heads)
    log_file(root, fill(100_000, plain))


@bomb
def one_chain_to_one_record(root: Path, size: int) -> None:
    """All items have the hash asked for, stand in one chain, and lead to one record that has no such key."""
    _chain(root, size, lambda n: 0)


@bomb
def one_chain_to_nowhere(root: Path, size: int) -> None:
    """The same, and each item leads to another place without a record."""
    _chain(root, size, lambda n: 1 + n % 90_000)


@bomb
def many_index_files(root: Path, size: int) -> None:
    """Index files of one item, all of the same time."""
    log_file(root, fill(100_000, plain))
    item = index.ITEM.pack(index.Item(index.key_hash("T", "k"), 0, 0, 0))
    for number in range(size // 1024):
        index_file(root, [item], [1], name=f"{20240101000000000 + number:017}")


@bomb
def tiny_index_files_to_rebuild(root: Path, size: int) -> None:
    """A division of one slot: every three keys of the rebuilt index need a file, and all keys have one store time."""
    index_file(root, [], [0])
    log_file(
        root, fill(size, lambda n, at: encoded(at, queue_offset=n, properties=b"KEYS\x01k\x02", store_timestamp=T0))
    )


def _config(root: Path, text: str | bytes, name: str = "topics.json") -> None:
    log_file(root, fill(1000, plain))
    (root / "config").mkdir()
    (root / "config" / name).write_bytes(text.encode() if isinstance(text, str) else text)


@bomb
def json_of_empty_lists(root: Path, size: int) -> None:
    """The most values for the bytes."""
    _config(root, '{"a":[' + ",".join(["[]"] * (size // 3)) + "]}")


@bomb
def json_of_deep_lists(root: Path, size: int) -> None:
    """Brackets that never close."""
    _config(root, '{"a":' + "[" * size)


@bomb
def json_of_one_key(root: Path, size: int) -> None:
    _config(root, '{"topicConfigTable":{' + ",".join(['"T":{}'] * (size // 7)) + "}}")


@bomb
def json_of_escapes(root: Path, size: int) -> None:
    """A string of lone surrogates."""
    _config(root, '{"a":"' + "\\ud800" * (size // 6) + '"}')


@bomb
def json_of_one_number(root: Path, size: int) -> None:
    _config(root, '{"a":' + "9" * size + "}")


@bomb
def json_of_spaces_and_comments(root: Path, size: int) -> None:
    """Nothing but comments, the last one open."""
    _config(root, "{" + "/**/ " * (size // 5) + "/*")


@bomb
def json_of_consumer_offsets(root: Path, size: int) -> None:
    """Offsets of as many topics and groups as fit."""
    table = {f"t{n}@g{n}": {"0": n} for n in range(size // 24)}
    _config(root, json.dumps({"offsetTable": table}), "consumerOffset.json")
