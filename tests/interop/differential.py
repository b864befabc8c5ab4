"""The same seeded random operations for FlintMQ and for the real Java store, then every byte of both compared.

    python -m tests.interop.differential --operations 100000 --peer 5.3.3

Both write stores of their own on one host. Java goes first; FlintMQ's clock then replays the store times that Java
took. The operations come in rounds; between two rounds both stores are closed and opened again.
"""

from __future__ import annotations

import argparse
import itertools
import random
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flintmq.message import Message, PutResult
from flintmq.store.message_store import MessageStore
from tests.interop.java import VERSIONS, Java, home
from tests.storage.faults import Faulty
from tests.store.engine import log_bytes, tree

KEYS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 1 << 18,
    "mappedFileSizeConsumeQueue": 2000,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2000,
}
LEVELS = 18
TOPICS = ("T0", "T1", "T2", "主题", "t" * 127, "%RETRY%" + "g" * 150, "SCHEDULE_TOPIC_XXXX")
HOST = "127.0.0.1:10911"


def operation(chance: random.Random, number: int) -> dict[str, Any]:
    """One put as the oracle takes it, with its own property string; mostly plain ones, some at every limit."""
    topic = chance.choice(TOPICS)
    delayed = topic == TOPICS[-1]
    level = chance.randrange(1, LEVELS + 3)
    parts = [
        chance.choice(("", "TAGS\x01报警\x02", "TAGS\x01a\x02", "TAGS\x01Aa\x02", "TAGS\x01BB\x02")),
        chance.choice(
            ("", f"KEYS\x01k{number} k{number % 7}\x02", f"KEYS\x01k{number % 97}\x02", "KEYS\x01 a  b \x02")
        ),
        chance.choice(("", f"UNIQ_KEY\x01{number:032X}\x02")),
        chance.choice(("", "p\x01v\x02", "WAIT\x01false\x02", "p\x01v")),  # the last separator may be missing
    ]
    if delayed:
        parts.insert(0, f"DELAY\x01{level}\x02REAL_TOPIC\x01T0\x02REAL_QID\x010\x02")
    odd = chance.random()
    if odd < 0.002:  # around the longest property string
        parts = ["long\x01" + "x" * chance.choice((32_761, 32_762)) + "\x02"]
    size = chance.choice((0, 1, 50, 100, 100, 300)) if odd < 0.99 else chance.choice((3000, 70_000))
    return {
        "op": "put", "topic": topic, "queue": min(level, LEVELS) - 1 if delayed else chance.randrange(3),
        "flag": chance.choice((0, 0, -5, 1 << 30)), "sys_flag": chance.choice((0, 0, 0, 1, 2, 4, 8, 12)),
        "reconsume": chance.choice((0, 3)), "prepared_offset": chance.choice((0, 12345)),
        "born_ts": 1_700_000_000_000 + number, "born_host": HOST, "store_host": HOST,
        "properties_string": "".join(parts), "body": {"hex": chance.randbytes(size).hex()},
    }  # fmt: skip


def message_of(op: dict[str, Any]) -> Message:
    """The same put for FlintMQ."""
    return Message(
        op["topic"], bytes.fromhex(op["body"]["hex"]), queue_id=op["queue"], flag=op["flag"], sys_flag=op["sys_flag"],
        born_timestamp=op["born_ts"], reconsume_times=op["reconsume"],
        prepared_transaction_offset=op["prepared_offset"], properties_bytes=op["properties_string"].encode(),
    )  # fmt: skip


@dataclass
class Comparison:
    """What two stores have in common, and where they differ.

    Attributes:
        operations, refused: puts given to both, and how many of them Java refused.
        answers: answers that differ, as (operation, FlintMQ's, Java's).
        differing: files that differ.
        compared: bytes compared, for log, queues and index.
    """

    operations: int = 0
    refused: int = 0
    answers: list[Any] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    compared: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {count:,} bytes" for name, count in self.compared.items())
        return (
            f"{self.operations:,} operations ({self.refused:,} refused): {parts}; "
            f"{len(self.answers)} answers and {len(self.differing)} files differ"
        )


def run(folder: Path, java: Java, seed: int, rounds: int, per_round: int) -> Comparison:
    """Give both the same operations and compare."""
    theirs, ours = folder / "java", folder / "flintmq"
    found = Comparison()
    for turn in range(rounds):
        chance = random.Random(f"{seed}-{turn}")
        ops = [operation(chance, turn * per_round + n) for n in range(per_round)]
        script = [*ops, {"op": "dispatch"}]
        answers = [row for row in java("run", theirs, KEYS, script, TOPICS, timeout=600) if row["op"] == "put"]
        assert len(answers) == len(ops), "an answer for each operation"
        _replay(ours, java.version, ops, answers, chance, found)
    _compare(ours, theirs, found)
    return found


def _replay(
    root: Path, peer: str, ops: list[dict[str, Any]], answers: list[dict[str, Any]], chance: random.Random,
    found: Comparison,
) -> None:  # fmt: skip
    """Give FlintMQ what Java got, at the times that Java took; what came in one millisecond is at times put at once."""
    clock = Faulty()
    clock.clock = answers[0].get("store_timestamp") or 1
    with MessageStore(root, config=KEYS, effects=clock, peer=peer) as store:
        store._keeping.stop()  # nothing is to be delivered: the bare Java store does not
        pairs = zip(ops, answers, strict=True)
        for taken, group in itertools.groupby(pairs, key=lambda pair: pair[1].get("store_timestamp")):
            clock.clock = taken or clock.clock
            both = list(group)
            messages = [message_of(op) for op, _ in both]
            results = store.put_many(messages) if chance.random() < 0.3 else [store.put(m) for m in messages]
            for (op, answer), result in zip(both, results, strict=True):
                _judge(op, answer, result, found)


def _judge(op: dict[str, Any], answer: dict[str, Any], result: PutResult, found: Comparison) -> None:
    found.operations += 1
    stored = answer["status"] == "PUT_OK"
    found.refused += not stored
    told = (result.status.name, result.queue_offset, result.physical_offset, result.offset_msg_id)
    wanted = (answer["status"], answer.get("queue_offset"), answer.get("physical_offset"), answer.get("msg_id"))
    if told[:1] != wanted[:1] or (stored and told != wanted):
        found.answers.append(({k: v for k, v in op.items() if k != "body"}, told, wanted))


def _compare(ours: Path, theirs: Path, found: Comparison) -> None:
    log, _ = log_bytes(ours)
    wanted, _ = log_bytes(theirs)
    both = max(len(log), len(wanted))  # either may have made its next file already, which is zeros
    found.compared["log"] = both
    if log.ljust(both, b"\0") != wanted.ljust(both, b"\0"):
        found.differing.append("commitlog")
    left, right = tree(ours, "consumequeue"), tree(theirs, "consumequeue")
    found.compared["queues"] = sum(map(len, right.values()))
    found.differing += sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))
    left_index, right_index = [*tree(ours, "index").values()], [*tree(theirs, "index").values()]  # names are times
    found.compared["index"] = sum(map(len, right_index))
    pairs = itertools.zip_longest(left_index, right_index)
    found.differing += [f"index file {n}" for n, (one, other) in enumerate(pairs) if one != other]


def main() -> None:
    """The long form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--per-round", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peer", choices=VERSIONS, default=VERSIONS[0])
    args = parser.parse_args()
    built, why = home(args.peer)
    assert built is not None, why
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        rounds = -(-args.operations // args.per_round)
        found = run(Path(folder), Java(args.peer, built), args.seed, rounds, args.per_round)
    print(f"{args.peer}, seed {args.seed}, {time.monotonic() - began:.0f} s: {found}")
    for answer in found.answers[:5]:
        print("answer:", answer)
    for name in found.differing[:20]:
        print("differs:", name)
    raise SystemExit(1 if found.answers or found.differing else 0)


if __name__ == "__main__":
    main()
