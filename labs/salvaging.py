"""Salvage both ways, on golden stores damaged at random: `python -m labs.salvaging --stores 1000`.

Each store is a golden one with one to three pieces of damage, all decided by its number. A record is untouched if its
bytes stand where they stood; each of these must be in both results, in the second one at its own place, and verify must
find nothing. With `--java N` RocketMQ opens every N-th result of the salvage in place, and must serve them by pulls.

With `--state FILE` a line is added for each store that was tried, and a later run goes on behind it.
"""

import argparse
import hashlib
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from flintmq.config.keys import StoreConfig
from flintmq.errors import FlintError
from flintmq.forensics.salvage.in_place import plan_in_place, undo_in_place
from flintmq.forensics.salvage.into import salvage_into
from flintmq.forensics.verify.run import verify
from flintmq.format.record import RECORD, split
from flintmq.store.commitlog.records import record_at
from flintmq.store.commitlog.snapshot import list_log
from flintmq.store.commitlog.walk import LogWalk
from flintmq.testing import damage
from tests.compat.stores import GOLDEN_NAMES, Golden
from tests.interop.java import Java, home

FOLDERS = ("commitlog", "commitlog", "consumequeue", "index", "")
OUTCOMES = b"RMQ_SYS_TRANS_OP_HALF_TOPIC"  # bodies hold queue offsets, which a new store changes
CHANGED = (b"INNER_BASE", b"INNER_MULTI_QUEUE_OFFSET", b"__CRC32#", b"TRAN_PREPARED")  # as properties do


def sound(into: Path) -> list[Golden]:
    """The golden stores in which verify finds nothing and a scan gives all."""
    stores = [Golden(name, into) for name in GOLDEN_NAMES]
    return [store for store in stores if store.expect.get("verify") != "any" and "scan" not in store.expect]


def hurt(root: Path, seed: int) -> list[damage.InjectedDamage]:
    """Damage a store, as its number decides."""
    chance = random.Random(seed)
    done = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        folder = chance.choice(FOLDERS)
        folder = folder if (root / folder).is_dir() and any((root / folder).rglob("*")) else ""
        if chance.random() < 0.15:
            done.append(tear(root, chance))
        else:
            done.append(damage.random_damage(root, chance.randrange(1 << 30), folder=folder))
    return done


def tear(root: Path, chance: random.Random) -> damage.InjectedDamage:
    """The last write to a file came only in part: zeros from some place in its last sectors on."""
    file = chance.choice([path for path in sorted(root.rglob("*")) if path.is_file() and path.stat().st_size])
    data = file.read_bytes()
    used = len(data.rstrip(b"\0")) or 1
    at = max(used - chance.randrange(1, 2000), 0)
    torn = damage.zero(file, at, used - at)
    return damage.InjectedDamage("torn", torn.file, torn.position, torn.length)


def config_of(store: Golden) -> StoreConfig:
    """Its keys; among them the sizes of its files, as a broker knows them."""
    return StoreConfig.from_keys(store.config)


def records(root: Path, config: StoreConfig) -> dict[int, bytes]:
    """Log offset -> bytes of every record that counts."""
    found = {}
    for piece in LogWalk(list_log(str(root), config), strict=False):
        for at in piece.positions[: piece.count]:
            size = int.from_bytes(piece.data[at : at + 4], "big")
            found[piece.base + at] = bytes(piece.data[at : at + size])
    return found


def untouched(root: Path, before: dict[int, bytes]) -> dict[int, bytes]:
    """Those whose bytes are still there."""
    files = {int(path.name): path.read_bytes() for path in (root / "commitlog").iterdir() if path.name.isdigit()}
    kept = {}
    for offset, raw in before.items():
        start = max((start for start in files if start <= offset), default=None)
        if start is not None and files[start][offset - start : offset - start + len(raw)] == raw:
            kept[offset] = raw
    return kept


def likeness(raw: bytes) -> bytes:
    """What of a record stays the same wherever it stands."""
    record = split(raw)._replace(queue_offset=0, physical_offset=0, prepared_transaction_offset=0)
    parts = [part for part in record.properties.split(b"\2") if part and not part.startswith(CHANGED)]
    if record.topic == OUTCOMES:
        record = record._replace(body=b"", body_crc=0)
    return RECORD.pack(record._replace(properties=b"\2".join(parts)))


def try_into(root: Path, into: Path, config: StoreConfig, kept: dict[int, bytes]) -> str:
    """Salvage into a new store; what is wrong with it, or nothing."""
    salvage_into(str(root), str(into), config)
    there = Counter(likeness(raw) for raw in records(into, config).values())
    missing = Counter(likeness(raw) for raw in kept.values()) - there
    if missing:
        return f"into: {missing.total()} untouched records are missing"
    found = verify(into, config)
    return f"into: verify finds {found.defect_counts} {found.defects[:2]}" if found.defect_count else ""


def try_in_place(root: Path, config: StoreConfig, kept: dict[int, bytes]) -> str:
    """Salvage in place; what is wrong with it, or nothing."""
    with plan_in_place(str(root), config) as mending:
        if mending.needed:
            mending.carry_out()
    log = list_log(str(root), config)
    for offset, raw in kept.items():
        message = record_at(log, offset)
        if message is None or message.raw != raw:
            return f"in place: the untouched record at {offset} is gone"
    found = verify(root, config)
    return f"in place: verify finds {found.defect_counts} {found.defects[:2]}" if found.defect_count else ""


def try_undo(root: Path, before: dict[str, bytes], config: StoreConfig) -> str:
    """Undo it: every byte must be as it was."""
    if not (root / "quarantine").exists():
        return ""
    undo_in_place(str(root), config)
    after = tree(root)
    wrong = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    return f"undo: other bytes in {wrong[:3]}" if wrong else ""


def tree(root: Path) -> dict[str, bytes]:
    """Relative path -> bytes, without quarantine and lock."""
    files = (path for path in root.rglob("*") if path.is_file())
    names = {str(path.relative_to(root)): path for path in files}
    return {n: p.read_bytes() for n, p in names.items() if not n.startswith("quarantine") and n != "lock"}


def try_java(root: Path, store: Golden, kept: dict[int, bytes], java: Java) -> str:
    """RocketMQ opens the store and serves, pull by pull, every untouched message that has a queue."""
    batch = {topic for topic, value in store.topics.items() if "queue.type" in value.get("attributes", {})}
    want: dict[tuple[str, int], dict[int, str]] = {}
    for offset, raw in kept.items():
        record = split(raw)
        topic = record.topic.decode("utf-8", "replace")
        if not record.sys_flag & 4 and topic not in batch and not topic.startswith(("SCHEDULE", "rmq_sys", "RMQ_SYS")):
            want.setdefault((topic, record.queue_id), {})[offset] = hashlib.sha1(record.body).hexdigest()
    ends = {place: [split(kept[offset]).queue_offset for offset in rows] for place, rows in want.items()}
    # The oracle's script is fixed beforehand: it pulls at every offset, and the consumer's way is followed here.
    ops = [
        {"op": "get", "topic": topic, "queue": queue, "offset": at, "max": 32}
        for (topic, queue), offsets in sorted(ends.items())
        for at in range(min(offsets), max(offsets) + 1)
    ]
    more = {"topics": store.topics} if store.topics else None
    answers = java("run", root, store.config, ops, sorted({topic for topic, _ in want}), more=more)
    pulls = {(op["topic"], op["queue"], op["offset"]): row for op, row in zip(ops, answers, strict=True)}
    got: dict[int, str] = {}
    for (topic, queue), offsets in ends.items():
        at = min(offsets)
        while (row := pulls.get((topic, queue, at))) is not None and row["next"] > at:
            got |= {message["physical_offset"]: message["body_sha1"] for message in row["messages"]}
            at = row["next"]
    missing = [offset for rows in want.values() for offset, sha1 in rows.items() if got.get(offset) != sha1]
    return f"java: {len(missing)} untouched messages are not served, the first at {min(missing)}" if missing else ""


def try_one(stores: list[Golden], seed: int, folder: Path, java: Java | None) -> dict[str, Any]:
    """One store, both ways; the row for it."""
    store = stores[seed % len(stores)]
    config = config_of(store)
    root, copy, into = folder / "store", folder / "copy", folder / "into"
    shutil.copytree(store.path, root)
    before = records(root, config)
    done = hurt(root, seed)
    shutil.copytree(root, copy)
    kept, hurt_tree = untouched(root, before), tree(root)
    row = {"seed": seed, "store": store.name, "kinds": [f"{d.kind} {d.file.relative_to(root)}" for d in done],
           "records": len(before), "untouched": len(kept), "java": False}  # fmt: skip
    wrong = []
    for name, attempt in (("into", lambda: try_into(root, into, config, kept)),
                          ("in place", lambda: try_in_place(copy, config, kept))):  # fmt: skip
        try:
            wrong.append(attempt())
        except FlintError as error:
            wrong.append(f"{name}: {type(error).__name__}: {error}")
    if java is not None and not any(wrong):
        row["java"] = True
        served = folder / "served"
        shutil.copytree(copy, served)
        wrong.append(try_java(served, store, kept, java))
    if not any(wrong):
        wrong.append(try_undo(copy, hurt_tree, config))
    row["wrong"] = [text.replace(str(folder), "") for text in wrong if text]
    return row


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--stores", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first store")
    parser.add_argument("--java", type=int, default=0, metavar="N", help="RocketMQ 5.3.3 opens every N-th")
    parser.add_argument("--state", type=Path, help="go on behind what this file tells")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    args = parser.parse_args()
    built = home("5.3.3")[0] if args.java else None
    done = {}
    if args.state and args.state.exists():
        done = {row["seed"]: row for row in map(json.loads, args.state.read_text().splitlines())}
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        stores = sound(Path(folder))
        for seed in range(args.first, args.first + args.stores):
            if seed in done or time.monotonic() - begin > args.seconds:
                continue
            java = Java("5.3.3", built) if built and seed % args.java == 0 else None
            with tempfile.TemporaryDirectory() as place:
                row = done[seed] = try_one(stores, seed, Path(place), java)
            if args.state:
                with args.state.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            if row["wrong"]:
                print(seed, row["store"], row["kinds"], *row["wrong"], sep="\n    ", flush=True)
    wrong = sum(bool(row["wrong"]) for row in done.values())
    touched = sum(row["records"] - row["untouched"] for row in done.values())
    print(f"{len(done)} stores, {sum(row['records'] for row in done.values())} records, {touched} of them damaged, "
          f"{sum(row['java'] for row in done.values())} opened by RocketMQ, {wrong} wrong")  # fmt: skip
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
