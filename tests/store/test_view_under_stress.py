"""Views of stores that are damaged at random, and beside a process that holds the store's lock."""

import os
import random
import subprocess
import sys
import time

import pytest

from flintmq.errors import CorruptStoreError, MessageNotFoundError
from flintmq.storage.lock import is_live
from flintmq.store.view import open_store
from flintmq.testing.damage import random_damage

STORES = ("basic", "batch", "lmq", "rolled", "crash", "config", "stale", "cqext")
SEEDS = 48
SECONDS_MAX = 30

HOLDER = """
import fcntl, struct, sys
file = open(sys.argv[1], "r+b")
fcntl.fcntl(file, fcntl.F_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 1, 0))
print("locked", flush=True)
sys.stdin.read()
"""


def ask_everything(path, store, seed):
    """Every kind of question; what is not there may be said, nothing else may be raised."""
    chance = random.Random(seed)
    view = open_store(path, set=store.config if seed % 2 else None)
    rows = chance.sample(store.rows, 4)
    for queue in view.queues():
        assert 0 <= queue.min_offset <= queue.max_offset
    for queue in chance.sample(view.queues(), min(4, len(view.queues()))):
        for offset in (queue.min_offset, queue.max_offset - 1, queue.max_offset):
            try:
                found = view.get(queue.topic, queue.queue_id, offset)
                assert view.get_at(found.physical_offset) == found
            except MessageNotFoundError:
                pass  # damaged, or behind the end
        for boundary in ("lower", "upper"):
            at = view.offset_at_time(queue.topic, queue.queue_id, rows[0]["store_timestamp"], boundary)
            assert queue.min_offset <= at <= queue.max_offset
    for row in rows:
        key = (row["keys"] or row["msg_id"] or "none").split(" ")[0]
        for message in view.query(row["topic"], key):
            assert (message.topic, key in (message.keys or "").split(" ") or key == message.msg_id) == (
                row["topic"],
                True,
            )
    count = sum(1 for _ in view.messages(strict=False))
    try:
        assert sum(1 for _ in view.messages()) <= count
    except CorruptStoreError as error:
        assert error.file.startswith(str(path)) and error.position >= 0
    assert view.broker is not None
    view.refresh()
    assert view.max_physical_offset >= 0


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_damage_gives_short_answers_and_nothing_worse(golden, tmp_path, seed):
    store = golden(STORES[seed % len(STORES)])
    copy = store.copy(tmp_path)
    for number in range(1 + seed % 4):
        random_damage(copy, 100 * seed + number)
    began = time.monotonic()
    ask_everything(copy, store, seed)
    assert time.monotonic() - began < SECONDS_MAX


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_to_queues_and_index_the_log_is_enough(golden, tmp_path, seed):
    store = golden("basic")
    copy = store.copy(tmp_path)
    for number in range(6):
        random_damage(copy, 100 * seed + number, folder="consumequeue")
    random_damage(copy, seed, kinds=("zero", "rubbish", "cut"), folder="index")
    view = open_store(copy, set=store.config)
    queues = {queue[:2]: queue for queue in view.queues()}
    for row in random.Random(seed).sample(store.rows, 100):
        queue = queues[row["topic"], row["queue_id"]]
        if queue.min_offset <= row["queue_offset"] < queue.max_offset:
            found = view.get(row["topic"], row["queue_id"], row["queue_offset"])
            assert found.physical_offset == row["physical_offset"]
        if row["keys"]:
            found = view.query(row["topic"], row["keys"].split(" ")[0], limit=10_000)
            assert row["physical_offset"] in [message.physical_offset for message in found]


@pytest.mark.skipif(sys.platform != "linux", reason="how a lock is asked for is known for Linux only")
def test_a_live_store_is_read_without_touching_its_lock(golden, tmp_path):
    store = golden("crash")
    copy = store.copy(tmp_path)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, os.fspath(copy / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline() == b"locked\n"
        view = open_store(copy, set=store.config)
        assert view.live
        assert len(list(view.messages())) == len(store.rows)
        assert [queue.max_offset for queue in view.queues("Ash")] == [20, 13, 21]
        view.refresh()
        assert view.live and is_live(str(copy))
    finally:
        holder.stdin.close()
        holder.wait()
        holder.stdout.close()
    view.refresh()
    assert not view.live
