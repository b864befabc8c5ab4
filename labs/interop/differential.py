"""The same seeded random operations for FlintMQ and for the real Java store, then every byte of both compared.

    python -m labs.interop.differential --operations 100000 --peer 5.3.3 --kind plain

Left out: unclean stops, after which RocketMQ loses index keys; records without a unit as the last ones before a stop,
which RocketMQ indexes twice; for light queues prepared messages and doubled names. RocketMQ 5.4.0 recovers from the
last `commitLogRecoverMaxNum` (10) files only; tests with small files raise that key.

Both write stores of their own on one host. Java goes first; FlintMQ's clock then replays the store times that Java
took. The operations come in rounds; between two rounds both stores are closed and opened again. Kinds of operations:
labs/interop/operations.py.
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

from flintmq.message import PutResult
from flintmq.store.message_store import MessageStore
from labs.interop.operations import KEYS, KINDS, Kind, last, message_of, put
from tests.interop.java import VERSIONS, Java, home
from tests.support.engine import log_bytes, tree
from tests.support.faults import Faulty


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


def run(folder: Path, java: Java, seed: int, rounds: int, per_round: int, kind: str = "plain") -> Comparison:
    """Give both the same operations and compare."""
    theirs, ours, what = folder / "java", folder / "flintmq", KINDS[kind]
    keys, more = KEYS | what.keys, {"topics": what.java_topics()}
    found = Comparison()
    for turn in range(rounds):
        chance = random.Random(f"{seed}-{turn}")
        ops = [what.operation(chance, turn * per_round + n) for n in range(per_round)]
        ops[-1] = last(chance, turn * per_round)
        script = [*ops, {"op": "dispatch"}]
        rows = java("run", theirs, keys, script, timeout=600, more=more)
        answers = [row for row in rows if row["op"] != "dispatch"]
        assert len(answers) == len(ops), "an answer for each operation"
        _replay(ours, java.version, what, ops, answers, chance, found)
    _compare(ours, theirs, found)
    return found


def _replay(
    root: Path, peer: str, kind: Kind, ops: list[dict[str, Any]], answers: list[dict[str, Any]],
    chance: random.Random, found: Comparison,
) -> None:  # fmt: skip
    """Give FlintMQ what Java got, at the times that Java took; what came in one millisecond is at times put at once."""
    clock = Faulty()
    clock.clock = answers[0].get("store_timestamp") or 1
    with MessageStore(root, config=KEYS | kind.keys, effects=clock, peer=peer, unique_keys=False) as store:
        store._parts.housekeeping.stop()  # nothing is to be delivered: the bare Java store does not
        for topic in kind.batch_topics:
            store.create_topic(topic, 4, "BatchCQ")
        pairs = zip(ops, answers, strict=True)
        for taken, group in itertools.groupby(pairs, key=lambda pair: pair[1].get("store_timestamp")):
            clock.clock = taken or clock.clock
            both = list(group)
            if chance.random() < 0.3 and all(op["op"] == "put" for op, _ in both):
                results = [[result] for result in store.put_many([message_of(op) for op, _ in both], delivered=True)]
            else:
                results = [put(store, op) for op, _ in both]
            for (op, answer), result in zip(both, results, strict=True):
                _judge(op, answer, result, found)


def _judge(op: dict[str, Any], answer: dict[str, Any], results: list[PutResult], found: Comparison) -> None:
    found.operations += 1
    status = "MESSAGE_ILLEGAL" if answer["status"] == "EXCEPTION" else answer["status"]  # a batch that is too large
    stored = status == "PUT_OK"
    found.refused += not stored
    assert len({result.status for result in results}) == 1
    first, ids = results[0], dict.fromkeys(result.offset_msg_id for result in results)
    told = (first.status.name, first.queue_offset, first.physical_offset, ",".join(ids))
    wanted = (status, answer.get("queue_offset"), answer.get("physical_offset"), answer.get("msg_id"))
    if told[:1] != wanted[:1] or (stored and told != wanted):
        found.answers.append(({k: v for k, v in op.items() if k not in ("body", "messages")}, told, wanted))


def _compare(ours: Path, theirs: Path, found: Comparison) -> None:
    log, _ = log_bytes(ours)
    wanted, _ = log_bytes(theirs)
    both = max(len(log), len(wanted))  # either may have made its next file already, which is zeros
    found.compared["log"] = both
    if log.ljust(both, b"\0") != wanted.ljust(both, b"\0"):
        found.differing.append("commitlog")
    for name, part in (("queues", "consumequeue"), ("batch", "batchconsumequeue"), ("ext", "consumequeue_ext")):
        left, right = tree(ours, part), tree(theirs, part)
        found.compared[name] = sum(map(len, right.values()))
        found.differing += sorted(file for file in left.keys() | right.keys() if left.get(file) != right.get(file))
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
    parser.add_argument("--kind", choices=tuple(KINDS), default="plain")
    parser.add_argument("--peer", choices=VERSIONS, default=VERSIONS[0])
    args = parser.parse_args()
    built, why = home(args.peer)
    if built is None:
        print(f"RocketMQ {args.peer}: {why}")
        raise SystemExit(4)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        rounds = -(-args.operations // args.per_round)
        found = run(Path(folder), Java(args.peer, built), args.seed, rounds, args.per_round, args.kind)
    print(f"{args.kind}, {args.peer}, seed {args.seed}, {time.monotonic() - began:.0f} s: {found}")
    for answer in found.answers[:5]:
        print("answer:", answer)
    for name in found.differing[:20]:
        print("differs:", name)
    raise SystemExit(1 if found.answers or found.differing else 0)


if __name__ == "__main__":
    main()
