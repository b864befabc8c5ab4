"""Salvage into a new store: all but the damaged records, in a store without a defect; salvage.jsonl tells."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq.errors import NotAStoreError, StoreLockedError, UsageError
from flintmq.forensics.salvage.into import REPORT, salvage_into
from flintmq.forensics.verify.run import verify
from flintmq.storage.files.lock import StoreLock
from tests.compat.stores import Golden
from tests.support.makers import config_of, flip

SAME = ("topic", "queue_id", "flag", "born_timestamp", "store_timestamp", "msg_id", "keys", "tags", "magic", "sys_flag")
OUTCOMES = "RMQ_SYS_TRANS_OP_HALF_TOPIC"


def lines(root: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / REPORT).read_text().splitlines()]


def messages(root: Path, golden: Golden) -> list[flintmq.StoredMessage]:
    with flintmq.open_store(root, config=config_of(golden)) as store:
        return list(store.messages())


def same(row: dict[str, Any], message: flintmq.StoredMessage) -> bool:
    """Whether a message is the one that Java decoded as `row`, wherever it stands now."""
    body = len(message.body) == row["body_length"] or message.topic == OUTCOMES
    return body and all(row[name] == getattr(message, name) for name in SAME)


def broken(golden: Golden, into: Path, seed: int) -> tuple[Path, dict[str, Any]]:
    """A copy with one flipped bit in the body of one record, and that record."""
    chance = random.Random(seed)
    row = chance.choice([row for row in golden.live if row["body_length"] > 8 and not row["sys_flag"] & 48])
    root = golden.copy(into)
    files = sorted((root / "commitlog").iterdir(), key=lambda path: int(path.name))
    file = next(path for path in reversed(files) if int(path.name) <= row["physical_offset"])
    flip(file, row["physical_offset"] - int(file.name) + 88 + chance.randrange(row["body_length"]))
    return root, row


def test_a_sound_store_is_kept_as_a_whole(golden_store: Golden, tmp_path: Path) -> None:
    into = tmp_path / "into"
    done = salvage_into(str(golden_store.path), str(into), config_of(golden_store))
    assert (done.lost_ranges, done.dropped) == (0, 0)
    assert verify(into, config_of(golden_store)).defects == []
    found = messages(into, golden_store)
    assert len(found) == len(golden_store.live) + golden_store.expect.get("beyond", 0)
    assert all(same(*pair) for pair in zip(golden_store.live, found, strict=False))


def test_one_damaged_record_is_all_that_is_missing(golden_store: Golden, tmp_path: Path) -> None:
    if golden_store.expect.get("verify") == "any" or golden_store.expect.get("scan"):
        pytest.skip("not sound to begin with")
    root, lost = broken(golden_store, tmp_path, 5)
    into = tmp_path / "into"
    done = salvage_into(str(root), str(into), config_of(golden_store))
    kept = [row for row in golden_store.live if row is not lost]
    found = messages(into, golden_store)
    assert len(found) == len(kept) + golden_store.expect.get("beyond", 0)
    assert all(same(*pair) for pair in zip(kept, found, strict=False))
    assert verify(into, config_of(golden_store)).defects == []
    told = [line for line in lines(into) if line["kind"] == "lost"]
    assert [(line["offset"], line["bytes"]) for line in told] == [(lost["physical_offset"], lost["size"])]
    assert (done.lost_ranges, done.lost_bytes) == (1, lost["size"])


def test_the_report_leads_from_old_places_to_new_ones(golden: Any, tmp_path: Path) -> None:
    store = golden("basic")
    root, lost = broken(store, tmp_path, 6)
    salvage_into(str(root), str(tmp_path / "into"))
    told = lines(tmp_path / "into")
    log = {}
    for line in (line for line in told if line["kind"] == "log"):
        log |= {line["old"] + at: line["new"] + at for at in range(line["bytes"])}
    queues = {}
    for line in (line for line in told if line["kind"] == "queue"):
        for at in range(line["count"]):
            queues[line["topic"], line["queue_id"], line["old"] + at] = line["new"] + at
    kept = [row for row in store.live if row is not lost]
    for row, message in zip(kept, messages(tmp_path / "into", store), strict=True):
        assert log[row["physical_offset"]] == message.physical_offset
        assert queues[row["topic"], row["queue_id"], row["queue_offset"]] == message.queue_offset
    missing = {"kind": "missing", "topic": lost["topic"], "queue_id": lost["queue_id"], "old": lost["queue_offset"],
               "count": 1}  # fmt: skip
    assert [line for line in told if line["kind"] == "missing"] == [missing]
    assert told[-1]["kind"] == "summary" and told[-1]["records"] == len(kept)


def test_committed_offsets_move_with_their_messages(golden: Any, tmp_path: Path) -> None:
    store = golden("basic")
    root, lost = broken(store, tmp_path, 7)
    at = lost["queue_offset"]
    key, queue_id = f"{lost['topic']}@readers", lost["queue_id"]
    (root / "config").mkdir(exist_ok=True)
    before = json.dumps({"offsetTable": {key: {str(queue_id): at + 1}, f"{lost['topic']}@late": {str(queue_id): at}}})
    (root / "config" / "consumerOffset.json").write_text(before)
    done = salvage_into(str(root), str(tmp_path / "into"))
    table = json.loads((tmp_path / "into" / "config" / "consumerOffset.json").read_text().replace(f"{{{queue_id}:",
                       f'{{"{queue_id}":'))["offsetTable"]  # fmt: skip
    assert table[key] == {str(queue_id): at} and table[f"{lost['topic']}@late"] == {str(queue_id): at}
    assert done.offsets == 1


def test_transactions_stay_together(tmp_path: Path) -> None:
    """A lost record before them moves every offset; commits and outcomes still name their half messages."""
    from flintmq.testing import write_store

    root, into = tmp_path / "store", tmp_path / "into"
    write_store(root, messages=1000, seed=3, kinds="transactions")
    with flintmq.open_store(root) as store:
        old = list(store.messages())
    commits = [m for m in old if m.prepared_transaction_offset and m.sys_flag & 12 == 8]
    halves = {m.physical_offset: m for m in old if m.topic == "RMQ_SYS_TRANS_HALF_TOPIC"}
    outcomes = [m for m in old if m.topic == OUTCOMES and m.tags == "d"]
    assert commits and outcomes and len(halves) > 3
    victim = sorted(halves)[1]
    [file] = [p for p in (root / "commitlog").iterdir() if int(p.name) <= victim < int(p.name) + p.stat().st_size]
    flip(file, victim - int(file.name) + 30)
    salvage_into(str(root), str(into))
    assert verify(into).defects == []
    with flintmq.open_store(into) as store:
        new = list(store.messages())
    kept = [m for m in old if m.physical_offset != victim]
    assert len(new) == len(kept)
    now = {before.physical_offset: after for before, after in zip(kept, new, strict=True)}
    for before in commits:
        half = now.get(before.prepared_transaction_offset)
        assert now[before.physical_offset].prepared_transaction_offset == (half.physical_offset if half else 0)
    by_queue = {m.queue_offset: m for m in halves.values()}
    for before in outcomes:
        named = [by_queue[int(text)].physical_offset for text in before.body.decode().split(",") if text]
        want = [now[offset].queue_offset for offset in named if offset in now]
        assert now[before.physical_offset].body.decode() == "".join(f"{offset}," for offset in want)


def test_what_cannot_be_is_refused_in_one_line(golden: Any, tmp_path: Path) -> None:
    root = golden("basic").copy(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").touch()
    with pytest.raises(UsageError, match="is there already"):
        salvage_into(str(root), str(tmp_path / "taken"))
    with pytest.raises(UsageError, match="peer"):
        salvage_into(str(root), str(tmp_path / "into"), peer="4")
    with pytest.raises(NotAStoreError):
        salvage_into(str(tmp_path / "taken"), str(tmp_path / "into"))
    lock = StoreLock(str(root))
    try:
        with pytest.raises(StoreLockedError, match="stop it first"):
            salvage_into(str(root), str(tmp_path / "into"))
    finally:
        lock.release()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["basic", "taken"]
