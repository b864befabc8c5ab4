"""Hostile stores made on purpose: lengths at the ends of their range, chains that loop, names that repaint terminals.

The table of test_commands.py damages files blindly; here each byte is aimed.
"""

import itertools
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.format import consume_queue_ext, index, record
from flintmq.format.consume_queue import UNIT, Unit
from tests.robustness.hostile.bombs import fill, index_file, log_file, plain
from tests.robustness.hostile.cases import COMMANDS
from tests.robustness.hostile.commands import Outcome, complaints, exit_codes, run, stamps
from tests.robustness.hostile.records import T0, encoded
from tests.support.makers import patch

pytestmark = pytest.mark.turn(3, of=["src/flintmq/format/", "src/flintmq/kernels/"])
ALLOWED = exit_codes()
EVIL = "\x1b]0;owned\x07\x1b[2J\u202e\u2066\x9b31m\x7f\u200f"


_turns = itertools.count()
IN_TURNS = (  # two of these a store: they walk the log as the others do, and `everything` is called often
    "tail", "tail --json", "explain", "explain --json", "explain --at", "sql", "retention explain", "recover --dry-run",
    "salvage --dry-run", "salvage --into", "copy",
)  # fmt: skip
TWINS = [name for name in COMMANDS if name.endswith(" --json") and name.removesuffix(" --json") in COMMANDS]


def everything(store: Path, topic: str = "T", key: str = "k", sets: tuple[str, ...] = ()) -> dict[str, int]:
    """Run the commands, each with or without --json; command -> exit code. None may misbehave."""
    before, codes, wrong = stamps(store), {}, []
    turn = next(_turns)
    files = sorted(path for path in store.rglob("*") if path.is_file())
    file = files[turn % len(files)] if files else store
    left_out = set(IN_TURNS) - {IN_TURNS[(turn + at) % len(IN_TURNS)] for at in (0, 5)}
    for number, (name, words) in enumerate(COMMANDS.items()):
        if name in left_out:
            continue
        twin = name if name in TWINS else f"{name} --json"
        if name not in IN_TURNS and twin in TWINS and (name in TWINS) != bool((turn + TWINS.index(twin)) % 2):
            continue
        into = store.parent / f"into-{number}{len(sets)}"
        places = {"STORE": str(store), "FILE": str(file), "INTO": str(into), "TOPIC": topic, "KEY": key}
        done = run(*(places.get(word, word) for word in words), *sets)
        wrong += complaints(done, ALLOWED)
        codes[name.removesuffix(" --json")] = done.status
        if stamps(store) != before:
            wrong.append(f"{name} changed the store")
    assert not wrong, "\n".join(wrong)
    return codes


def small_log(root: Path, count: int = 40) -> bytearray:
    """A log of plain records with keys, and the queue that belongs to it."""
    data = bytearray()
    for number in range(count):
        data += encoded(len(data), queue_offset=number, store_timestamp=T0 + number, properties=b"KEYS\x01k\x02")
    log_file(root, data)
    return data


@pytest.fixture
def store(tmp_path: Path) -> Path:
    small_log(tmp_path / "store")
    return tmp_path / "store"


I32 = (-1, 0, 1, 7, 8, 90, 91, 0x7FFFFFFF, -0x80000000, 0x7FFFFF00, 64 << 20, (64 << 20) + 1)
I16 = (-1, 0, 1, 0x7FFF, -0x8000)


@pytest.mark.parametrize("field", ["size", "body_length", "topic_length", "properties_length"])
def test_hostile_lengths_of_records(tmp_path: Path, field: str) -> None:
    """One length of every third record is wrong, each in another way; the records between are found all the same."""
    places = {"size": (0, ">i", I32), "body_length": (84, ">i", I32), "topic_length": (92, ">b", range(-128, 128, 25))}
    at, form, values = places.get(field, (94, ">h", I16))
    data, cycle = bytearray(), itertools.cycle(values)
    good = []
    for number in range(60):
        made = bytearray(encoded(len(data), queue_offset=number, store_timestamp=T0 + number))
        if number % 3 == 1:
            value = next(cycle)
            if struct.pack(form, value) == bytes(made[at : at + struct.calcsize(form)]):
                value = next(cycle)
            struct.pack_into(form, made, at, value)
        else:
            good.append(len(data))
        data += made
    log_file(tmp_path / "store", data)
    codes = everything(tmp_path / "store")
    assert codes["scan"] == codes["verify"] == codes["rebuild"] == 1
    done = run("scan", tmp_path / "store", "--skip-damage", "--format", "{physical_offset}")
    assert [int(line) for line in done.out.split()] == good


def test_a_record_that_claims_gigabytes_takes_no_memory(tmp_path: Path) -> None:
    """In a sparse file of a terabyte a record of 2 GiB would fit; it is not believed, and the holes cost nothing."""
    data = fill(300, plain)
    head = bytearray(encoded(len(data)))
    struct.pack_into(">i", head, 0, 0x7FFFFFFF)
    struct.pack_into(">i", head, 84, 0x7FFFFFFF - 91)
    log_file(tmp_path / "store", data + head, size=1 << 40)
    codes = everything(tmp_path / "store")
    assert codes["scan"] == codes["verify"] == 0  # a torn tail: nothing follows


@pytest.mark.parametrize("kind", ["consumequeue/T/0", "consumequeue_ext/T/0", "batchconsumequeue/T/0", "timerlog"])
def test_sparse_files_of_a_terabyte(store: Path, kind: str) -> None:
    """Two units at both ends of a hole: nobody reads the hole, nobody makes files as large."""
    folder = store / kind
    folder.mkdir(parents=True)
    with (folder / f"{0:020}").open("wb") as file:
        file.write(UNIT.pack(Unit(0, 100, 0)) * 2)
        file.truncate(1 << 40)
        file.seek((1 << 40) - 4096)
        file.write(UNIT.pack(Unit(0, 100, 0)))
    everything(store)


def test_a_sparse_index_file_of_a_terabyte(store: Path) -> None:
    (store / "index").mkdir()
    size = index.file_size(1 << 33, 1 << 35)
    with (store / "index" / "20240101000000000").open("wb") as file:
        file.write(index.HEADER.pack(index.Header(T0, T0, 0, 100, 1, 2)))
        file.truncate(size)
    codes = everything(store)
    assert codes["query"] == 0 and codes["verify"] == 1


def test_many_bytes_behind_each_name(store: Path) -> None:
    """File names at the end of what 64 bits hold, in every folder whose files are named by offsets."""
    for kind in ("commitlog", "consumequeue/T/0", "batchconsumequeue/T/0", "consumequeue_ext/T/0", "timerlog"):
        folder = store / kind
        folder.mkdir(parents=True, exist_ok=True)
        for start in (2**63 - 1, 2**63 - 8, 2**63, 10**20 - 1, 2**62 // 20 * 20, 2**63 - 2**63 % 20 - 20):
            (folder / f"{start:020}").write_bytes(UNIT.pack(Unit(0, 97, 0)) * 50)
    everything(store)


@pytest.mark.parametrize(
    "offset", [2**63 - 1, 2**62, 2**40, (2**63) // 20, (2**63) // 20 - 1, -1, -(2**63), 2**31, 2**63 // 46]
)
def test_queue_offsets_that_cannot_be(tmp_path: Path, offset: int) -> None:
    """The first, a middle and the last record lie about their place; rebuild fills no disk."""
    data = bytearray()
    for number in range(9):
        lies = number in (0, 4, 8)
        data += encoded(len(data), queue_offset=offset if lies else number, queue_id=number % 2 * lies, topic=b"T")
    store = tmp_path / "store"
    log_file(store, data)
    codes = everything(store)
    assert codes["rebuild"] == 0
    made = sum(path.stat().st_blocks * 512 for path in tmp_path.rglob("*") if path.is_file())
    assert made < 100 << 20


@pytest.mark.parametrize(
    ("number", "base"),
    [
        (b"32767", b"9223372036854775807"),
        (b"32767", b"9223372036854742900"),
        (b"-32768", b"-9223372036854775808"),
        (b"0", b"-1"),
        (b"x", b"0"),
        (b"1", b"99999999999999999999"),
    ],
)
def test_inner_batches_at_the_end_of_numbers(tmp_path: Path, number: bytes, base: bytes) -> None:
    store = tmp_path / "store"
    text = b"INNER_NUM\x01" + number + b"\x02INNER_BASE\x01" + base + b"\x02"
    log_file(store, fill(2000, lambda n, at: encoded(at, queue_offset=n, properties=text, sys_flag=record.INNER_BATCH)))
    (store / "config").mkdir()
    (store / "config" / "topics.json").write_text(
        '{"topicConfigTable":{"T":{"topicName":"T","attributes":{"queue.type":"BatchCQ"}}}}'
    )
    everything(store)


DIVISION = ("--set", "maxHashSlotNum=1000", "--set", "maxIndexNum=4000")


def _item(hash_: int, previous: int, offset: int = 0, seconds: int = 0) -> bytes:
    return index.ITEM.pack(index.Item(hash_, offset, seconds, previous))


HASH = index.key_hash("T", "k")
OTHER = HASH + 4 * 1000  # the same slot of 1000, another hash
CHAINS = {
    "an item that leads to itself": [_item(HASH, 1)],
    "two items of a foreign hash that lead to each other": [_item(OTHER, 2), _item(OTHER, 1)],
    "a loop behind a good start": [_item(HASH, 0), _item(HASH, 3), _item(HASH, 2), _item(HASH, 3)],
    "a chain that goes up": [_item(HASH, n + 1) for n in range(1, 30)],
    "an item far behind the count": [_item(HASH, 2_000_000_000)],
    "a negative item": [_item(HASH, -5), _item(HASH, -(2**31))],
    "offsets out of the log": [
        _item(HASH, n - 1, offset) for n, offset in enumerate((-1, 2**63 - 1, 2**40, -(2**63)), 1)
    ],
    "negative hashes and seconds": [_item(-1, 0, 0, -1), _item(-(2**31), 1, 0, -(2**31))],
}


@pytest.mark.parametrize("chain", CHAINS)
def test_index_chains(store: Path, chain: str) -> None:
    """The walk of a chain ends, and the message is found in the log instead."""
    items = CHAINS[chain]
    slots = [0] * 1000
    slots[HASH % 1000] = len(items)
    index_file(store, items, slots)
    everything(store)
    assert everything(store, sets=DIVISION)["verify"] == 1
    done = run("query", store, "T", "k", "--json", "--limit", "1000", *DIVISION)
    assert done.status == 0 and done.rows == 40


@pytest.mark.parametrize(
    ("count", "slot"),
    [(-1, 1), (-(2**31), -1), (2**31 - 1, 2**31 - 1), (4000, 3999), (4001, 4000), (0, 5), (2, -(2**31))],
)
def test_index_counts_and_slots_beyond_the_file(store: Path, count: int, slot: int) -> None:
    index_file(store, [_item(HASH, 0)], [slot] * 1000)
    path = store / "index" / "20240101000000000"
    patch(path, 36, struct.pack(">i", count))
    everything(store, sets=DIVISION)
    assert run("query", store, "T", "k", "--json", "--limit", "1000", *DIVISION).rows == 40


@pytest.mark.parametrize(
    ("size", "bitmap"), [(0, 0), (-1, 0), (1, 0), (19, 0), (20, -1), (20, 32767), (21, 0), (32767, 32747), (-32768, 0)]
)
def test_extension_units(tmp_path: Path, size: int, bitmap: int) -> None:
    store = tmp_path / "store"
    data = small_log(store)
    (store / "consumequeue" / "T" / "0").mkdir(parents=True)
    step = int.from_bytes(data[:4], "big")
    places = [0, 5, 1000, 2**62, -(2**63), 2**63 - 1, 3, 0]
    units = (
        Unit(n * step, step, max(-(2**63), min(consume_queue_ext.address(0) + place, 2**63 - 1)))
        for n, place in enumerate(places)
    )
    (store / "consumequeue" / "T" / "0" / f"{0:020}").write_bytes(b"".join(map(UNIT.pack, units)))
    (store / "consumequeue_ext" / "T" / "0").mkdir(parents=True)
    unit = struct.pack(">hqqh", size, 5, T0, bitmap)
    (store / "consumequeue_ext" / "T" / "0" / f"{0:020}").write_bytes(unit * 60)
    assert everything(store)["verify"] == 1


def evil_log(store: Path) -> None:
    """Topics, keys, tags, properties and bodies that would repaint a terminal."""
    evil = EVIL.encode() + b"\xff\xfe"

    def each(number: int, offset: int) -> bytes:
        topic = (evil, b"..", b".", b"a/b", b"../../etc/passwd", b"", b"a\0b", b"%s%n{0}", b"[red]x[/red]")[number % 9]
        text = (
            b"KEYS\x01" + evil + b" k\x02TAGS\x01" + evil + b"\x02UNIQ_KEY\x01" + evil + b"\x02" + evil + b"\x01" + evil
        )
        return encoded(offset, topic=topic, properties=text, body=evil * 3, queue_offset=number // 9)

    log_file(store, fill(6000, each))


@pytest.mark.parametrize("topic", [EVIL, "..", "a\0b", "\udcff"])
def test_names_from_records(tmp_path: Path, topic: str) -> None:
    store = tmp_path / "store"
    evil_log(store)
    everything(store, topic, EVIL)
    outside = [path for path in tmp_path.iterdir() if path.name != "store" and not path.name.startswith("into-")]
    assert outside == []
    for into in tmp_path.glob("into-*"):
        made = {path.name for path in into.glob("consumequeue/*")}
        assert all("/" not in name and name not in ("", ".", "..") for name in made)
        assert {path.name for path in into.iterdir()} <= {
            *("checkpoint", "commitlog", "config", "copy.jsonl", "flintmq.mark", "salvage.jsonl"),
            "consumequeue",
            "index",
            "batchconsumequeue",
            "consumequeue_ext",
        }


def test_names_of_files_and_directories(tmp_path: Path) -> None:
    """Every folder of a store holds files and directories with evil names, and the store has one itself."""
    store = tmp_path / f"store{EVIL}"
    small_log(store)
    names = [os.fsencode(EVIL), b"\xff\xfe", b"a\nb\r", b" ", b"-rf", b"x" * 255]
    for kind in ("", "commitlog", "consumequeue", "consumequeue/T", "consumequeue/T/0", "index", "config", "timerlog"):
        (store / kind).mkdir(parents=True, exist_ok=True)
        for name in names:
            Path(os.fsdecode(os.path.join(os.fsencode(store / kind), name))).write_bytes(b"x" * 40)
    for name in names:
        folder = Path(os.fsdecode(os.path.join(os.fsencode(store / "consumequeue"), name[:-1] + b"Q")))
        (folder / "0").mkdir(parents=True)
        (folder / "0" / f"{0:020}").write_bytes(UNIT.pack(Unit(0, 97, 0)) * 4)
    everything(store)


def test_names_in_configuration(store: Path) -> None:
    (store / "config").mkdir()
    name = (
        EVIL.replace("\x1b", "\\u001b").replace("\x07", "\\u0007").replace("\x9b", "\\u009b").replace("\x7f", "\\u007f")
    )
    topics = f'{{"topicConfigTable":{{"{name}":{{"topicName":"{name}","readQueueNums":1,"attributes":{{}}}}}}}}'
    (store / "config" / "topics.json").write_text(topics)
    (store / "config" / "subscriptionGroup.json").write_text(f'{{"subscriptionGroupTable":{{"{name}":{{}}}}}}')
    (store / "config" / "consumerOffset.json").write_text(
        f'{{"offsetTable":{{"T@{name}":{{0:5}},"{name}@g":{{0:9}}}}}}'
    )
    assert everything(store, sets=("--set", "maxIndexNum=100"))["inspect"] == 0


JSON = {
    "deep lists": b'{"a":' + b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "64 levels": b'{"a":' * 63 + b"{}" + b"}" * 63,
    "doubled keys": b'{"topicConfigTable":{"T":{},"T":{"perm":6},"T":5,"T":[]}}',
    "a huge number": b'{"offsetTable":{0:' + b"9" * 100_000 + b"}}",
    "a huge exponent": b'{"offsetTable":{0:1e999999999}}',
    "numbers beyond 64 bits": b'{"offsetTable":{"T@g":{0:9223372036854775808,9223372036854775808:1}}}',
    "numbers at the end of 64 bits": b'{"offsetTable":{"T@g":{0:9223372036854775807,-9223372036854775808:1}}}',
    "NaN": b'{"offsetTable":NaN,"a":Infinity}',
    "no object": b"[]",
    "only a string": b'"' + b"x" * 10_000 + b'"',
    "an open string": b'{"a":"' + b"x" * 10_000,
    "an open comment": b"{/*" + b"*" * 10_000,
    "lone surrogates": b'{"topicConfigTable":{"\\ud800":{},"\\udfff\\ud800":{"attributes":{"\\ud800":"\\ud800"}}}}',
    "a NUL": b'{"topicConfigTable":{"a\0b":{},"\\u0000":{}}}',
    "UTF-16": '{"topicConfigTable":{}}'.encode("utf-16"),
    "not UTF-8": b'{"topicConfigTable":{"\xff\xfe":{"attributes":{"queue.type":"BatchCQ"}}}}',
    "wrong types": b'{"topicConfigTable":[1,2],"offsetTable":"x","subscriptionGroupTable":{"g":[1]},"table":null}',
    "types wrong deeper": b'{"topicConfigTable":{"T":{"attributes":[1],"perm":"x"}},"offsetTable":{"T@g":[1]}}',
    "odd group keys": b'{"offsetTable":{"@":{0:1},"T@":{0:1},"@g":{0:1},"a@b@c":{0:1},"T":{0:1},5:{0:1}}}',
    "levels that are none": b'{"offsetTable":{-1:5,0:5,99999:5,2147483648:5,"x":5}}',
}


@pytest.mark.parametrize("text", JSON)
def test_configuration(store: Path, text: str) -> None:
    """The same bytes as every JSON file of config/, with and without a backup of the same kind."""
    (store / "config").mkdir()
    for name in ("topics", "subscriptionGroup", "consumerOffset", "delayOffset", "lmqConsumerOffset", "consumerFilter"):
        (store / "config" / f"{name}.json").write_bytes(JSON[text])
        (store / "config" / f"{name}.json.bak").write_bytes(JSON[text][::-1])
    (store / "config" / "timermetrics").write_bytes(JSON[text])
    codes = everything(store)
    assert codes["inspect"] == codes["scan"] == 0


def _nothing(path: Path) -> None:
    """No such path."""


NO_STORES: dict[str, Callable[[Path], object]] = {
    "nothing": _nothing,
    "a file": lambda path: path.write_bytes(b"x"),
    "an empty directory": lambda path: path.mkdir(),
    "a FIFO": os.mkfifo,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a log directory itself": lambda path: log_file(path.parent / "s", b"x").parent.rename(path),
    "a DLedger store": lambda path: (path / "dledger-n0").mkdir(parents=True),
    "commitlog is a file": lambda path: (path.mkdir(), (path / "commitlog").write_bytes(b"x")),
}


@pytest.mark.parametrize("what", NO_STORES)
def test_no_store(tmp_path: Path, what: str) -> None:
    path = tmp_path / f"it{EVIL}"
    NO_STORES[what](path)
    wrong = []
    for name, words in COMMANDS.items():
        places = {"STORE": str(path), "FILE": str(path), "INTO": str(tmp_path / "into"), "TOPIC": "T", "KEY": "k"}
        done = run(*(places.get(word, word) for word in words))
        wrong += complaints(done, {0, 1, 2, 5} if words[0] == "explain" else {2, 4})
        if done.status > 1 and len(done.err.splitlines()) != 1:
            wrong.append(f"{name}: {len(done.err.splitlines())} lines of error")
        if (tmp_path / "into").exists():
            wrong.append(f"{name} made a directory for nothing")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", ["a file", "a FIFO", "a link to itself"])
def test_folders_that_are_none(store: Path, kind: str) -> None:
    """The directories of derived files and of the configuration are no directories."""
    for name in ("consumequeue", "consumequeue_ext", "batchconsumequeue", "index", "config", "timerlog", "compaction"):
        NO_STORES[kind](store / name)
    everything(store)


@pytest.mark.parametrize("kind", ["a file", "a FIFO", "a link to itself"])
def test_small_files_that_are_none(store: Path, kind: str) -> None:
    for name in ("abort", "checkpoint", "lock", "flintmq.mark", "timerwheel"):
        NO_STORES[kind](store / name)
    everything(store)


def test_in_processes_of_their_own(tmp_path: Path) -> None:
    """What a terminal gets, Python's own handlers included: a few commands as the script runs them."""
    store = tmp_path / f"store{EVIL}"
    evil_log(store)
    index_file(store, [_item(HASH, 1)], [1] * 1000)
    for words in (["inspect"], ["scan"], ["verify"], ["query", "-", "T", "k"], ["get", "-", EVIL, "0", "0"]):
        argv = [sys.executable, "-m", "flintmq", words[0], str(store), *words[2:]]
        done = subprocess.run(argv, capture_output=True, timeout=60, check=False)
        outcome = Outcome(argv[3:], done.returncode, done.stdout, done.stderr.decode(), 0)
        assert complaints(outcome, ALLOWED) == []
