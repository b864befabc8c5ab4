"""Lives of a store that is put to and consumed, and what must hold of its groups' offsets after each of them.

    python -m labs.crash.consuming --stores 100

A second ledger says which messages were handed out (written before they are committed) and what `commit` returned for.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flintmq.format import config_json
from flintmq.store.message_store import MessageStore
from tests.robustness.crash import lives
from tests.robustness.crash.lives import KEYS, Life, PutLedger, live

TOPICS = ("T0", "T1", "T2")  # of lives.made
GROUP = "G"
Place = tuple[str, int, int]


def consume(root: Path, ledger: PutLedger, life: Life) -> None:
    """Put from one thread, consume and commit in another, two consumers a topic, until somebody kills the process."""
    store = lives._open(root, life)
    threading.Thread(target=lives.puts, args=(store, ledger, life, 0, itertools.count()), daemon=True).start()
    told, chance = PutLedger(root.parent / "consumed"), random.Random(life.seed)
    consumers = [store.consumer(GROUP, topic) for topic in TOPICS for _ in range(2)]
    while True:
        at = chance.randrange(len(consumers))
        consumer = consumers[at]
        for message in consumer.poll(chance.randrange(1, 9), wait_ms=1):
            told.line(done=[message.topic, message.queue_id, message.queue_offset])
        if chance.random() < 0.7:
            told.line(committed=consumer.commit(), topic=consumer.topic)
        elif chance.random() < 0.2:  # its queues go to the other one, and some of them to the next
            consumer.close()
            consumers[at] = store.consumer(GROUP, consumer.topic)


@dataclass
class Consumed:
    """What the second ledger says.

    Attributes:
        done: messages that were handed out.
        committed: (topic, queue id) -> the largest offset that `commit` returned for.
        fell: places whose commits went backwards, as they were returned.
    """

    done: set[Place] = field(default_factory=set)
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    fell: list[tuple[str, int]] = field(default_factory=list)


def read(path: Path) -> Consumed:
    """The ledger; a line that a kill cut says nothing."""
    found = Consumed()
    for line in path.read_text().splitlines() if path.exists() else ():
        if not line.endswith("}"):
            continue
        fields = json.loads(line)
        if "done" in fields:
            found.done.add(tuple(fields["done"]))
            continue
        for queue_id, offset in fields["committed"].items():
            place = fields["topic"], int(queue_id)
            if offset < found.committed.get(place, 0):
                found.fell.append(place)
            found.committed[place] = offset
    return found


def offsets_on_disk(root: Path) -> dict[tuple[str, int], int]:
    """(topic, queue id) -> offset of the group, as the file has it; the file must be whole and of Java's dialect."""
    path = root / "config" / "consumerOffset.json"
    found = {}
    for name in (path, Path(f"{path}.bak")):
        if name.exists():
            raw = name.read_bytes()
            value = config_json.parse(raw)
            assert config_json.write(value, "5.3.3") == raw, name
    table: Any = config_json.parse(path.read_bytes())["offsetTable"] if path.exists() else {}
    for key, queues in table.items():
        topic, _, group = key.partition("@")
        assert group == GROUP
        found |= {(topic, int(queue_id)): offset for queue_id, offset in queues.items()}
    return found


def check_offsets(root: Path) -> dict[tuple[str, int], int]:
    """What must hold after a kill; gives the offsets."""
    told, there = read(root.parent / "consumed"), offsets_on_disk(root)
    assert told.fell == [], "no commit goes backwards"
    for place, offset in told.committed.items():
        assert there.get(place, -1) >= offset, (place, offset, there.get(place))
    for (topic, queue_id), offset in there.items():
        lacking = [n for n in range(offset) if (topic, queue_id, n) not in told.done]
        assert not lacking, f"{topic}/{queue_id}: committed up to {offset}, and never handed out: {lacking[:5]}"
    return there


def check_all(root: Path, ledger: Path, contract: Callable[[Path, Path], Any]) -> tuple[int, int]:
    """After the last life: the whole contract, and every acknowledged message was handed out or comes now.

    Returns:
        How many messages were acknowledged, and how many came again.
    """
    offsets = check_offsets(root)
    found = contract(root, ledger)
    assert found.wrong == {}, found
    told = read(root.parent / "consumed")
    rest: dict[tuple[str, int], list[int]] = {}
    with MessageStore(root, config=KEYS, unique_keys=False) as store:
        for topic in TOPICS:
            with store.consumer(GROUP, topic, idle_ms=0) as consumer:
                for m in consumer:
                    rest.setdefault((m.topic, m.queue_id), []).append(m.queue_offset)
                ends = {(topic, queue): store.get(topic, queue, 0).max_offset for queue in consumer.queues}
            for place, end in ends.items():
                assert rest.get(place, []) == list(range(offsets.get(place, 0), end)), place
    again = {(topic, queue_id, n) for (topic, queue_id), numbers in rest.items() for n in numbers} & told.done
    return found.acknowledged, len(again)


def lives_of(number: int, count: int = 8) -> list[Life]:
    """Ended at random moments, and at chosen calls; the last one lives long enough to consume something."""
    chance, disk = random.Random(number), ("ASYNC_FLUSH", "SYNC_FLUSH")[number % 2]
    found = []
    for n in range(count):
        seed = number * 100 + n
        if chance.random() < 0.5:
            found.append(Life(n, seed, disk, at_call=int(chance.expovariate(1 / 80))))
        else:
            found.append(Life(n, seed, disk, after_s=chance.uniform(0.02, 0.2)))
    return [*found, Life(count, number * 100 + count, disk, after_s=0.4)]


def one_store(folder: Path, found: list[Life], contract: Callable[[Path, Path], Any]) -> tuple[int, int, int]:
    """Live them all; (acknowledged, came again, largest sum of committed offsets)."""
    root, ledger = folder / "store", folder / "ledger"
    committed = 0
    for life in found:
        end = live(root, ledger, life, consume)
        assert end == "killed", (life, end)
        committed = sum(check_offsets(root).values())
    return *check_all(root, ledger, contract), committed


def main() -> int:
    """The long form."""
    from flintmq.testing.contract import check_contract

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stores", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    words = parser.parse_args()
    sums = [0, 0, 0, 0]
    for number in range(words.first, words.first + words.stores):
        folder = Path(tempfile.mkdtemp())
        found = lives_of(number)
        try:
            told = one_store(folder, found, check_contract)
        except AssertionError as error:
            print(f"store {number}, kept in {folder}: {error}")
            return 1
        sums = [a + b for a, b in zip(sums, (len(found), *told), strict=True)]
        shutil.rmtree(folder)
    print("{:,} kills, {:,} messages acknowledged, {:,} came again, {:,} committed; none skipped".format(*sums))
    return 0


if __name__ == "__main__":
    sys.exit(main())
