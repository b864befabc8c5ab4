"""The engine and the real Java store on one directory, and the same operations given to both.

Skipped where Java or the oracle is missing; tests/interop/java.py says which, and how to have it.
"""

import hashlib
import random
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreLockedError
from flintmq.forensics.verify.run import verify
from flintmq.format.index import key_hash
from flintmq.message import Message, PutMessageStatus
from flintmq.store.commitlog.end_of_log import read_facts
from flintmq.store.message_store import MessageStore
from flintmq.testing.contract import check_contract, read_ledger
from tests.interop.java import VERSIONS, Java
from tests.robustness.crash.lives import FILE_SIZE, KEYS, Life, live
from tests.support.crashed import Clock
from tests.support.engine import index_items, log_bytes, records, tree, units
from tests.support.faults import Faulty

pytestmark = pytest.mark.slow
TOPICS = ("T0", "T1", "T2")


def rows_of(root: Path) -> list[tuple[Any, ...]]:
    """What the log holds, by the reference codec."""
    return [
        (r.physical_offset, r.topic.decode(), r.queue_id, r.queue_offset, hashlib.sha1(r.body).hexdigest())
        for r in records(root, FILE_SIZE)
    ]


def dumped(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The same from what Java reads through its queues."""
    found = [row for row in rows if row["kind"] == "message"]
    assert all(row["message"] is not None and row["cq_offset"] == row["message"]["queue_offset"] for row in found)
    return sorted(
        (row["position"], row["topic"], row["queue_id"], row["cq_offset"], row["message"]["body_sha1"]) for row in found
    )


def java_puts(turn: int, count: int) -> list[dict[str, Any]]:
    return [
        {"op": "put", "topic": TOPICS[n % 3], "queue": n % 2, "keys": f"j{turn}-{n}", "tags": f"t{n % 4}",
         "body": {"random": 1000 * turn + n, "size": 30 + 7 * n}}
        for n in range(count)
    ]  # fmt: skip


def test_one_directory_to_and_fro(tmp_path: Path, java: Java):
    """FlintMQ killed, Java halted, FlintMQ killed, Java closed, FlintMQ closed: nobody loses or changes anything."""
    root, ledger = tmp_path / "store", tmp_path / "ledger"
    for turn, last in enumerate(({"op": "halt"}, {"op": "flush"})):
        assert live(root, ledger, Life(turn, turn, after_s=0.15, peer=java.version)) == "killed"
        before = rows_after_recovery(root, java.version)
        answers = java("run", root, KEYS, [*java_puts(turn, 40), {"op": "dispatch"}, last], TOPICS)
        assert sum(row["status"] == "PUT_OK" for row in answers if row["op"] == "put") == 40
        told = [
            (row["physical_offset"], row["topic"], row["queue_id"], row["queue_offset"])
            for row in answers if row["op"] == "put"
        ]  # fmt: skip
        after = rows_after_recovery(root, java.version)
        assert after[: len(before)] == before, "Java kept what FlintMQ wrote"
        assert [row[:4] for row in after[len(before) :]] == told, "FlintMQ kept what Java wrote"
    with MessageStore(root, config=KEYS, peer=java.version, unique_keys=False) as store:
        last_put = store.put(Message("T1", b"the last", keys="last"))
        assert last_put.status is PutMessageStatus.PUT_OK
    found = java("dump", root, KEYS, topics=TOPICS, ask=["T1:last", "T0:j0-3", "T2:j1-5", "T0:nobody"])
    assert dumped(found) == rows_of(root)
    answers = {row["key"]: row["physical_offsets"] for row in found if row["kind"] == "key"}
    log = records(root, FILE_SIZE)
    ours = {
        name: [r.physical_offset for r in log if f"KEYS\x01{name}\x02".encode() in r.properties]
        for name in ("last", "j0-3", "j1-5")
    }
    assert answers == ours | {"nobody": []} and all(len(places) == 1 for places in ours.values())
    sent, told_by_ledger = read_ledger(ledger)
    places = {row[0] for row in rows_of(root)}
    assert sent and all(t["place"] in places for t in told_by_ledger.values() if t["outcome"] == "ok")


def rows_after_recovery(root: Path, peer: str) -> list[tuple[Any, ...]]:
    """What the log holds once FlintMQ has recovered it."""
    with MessageStore(root, config=KEYS, peer=peer, unique_keys=False) as store:
        assert store.wait_dispatched(30)
    return rows_of(root)


def test_java_recovers_what_a_killed_flintmq_left(tmp_path: Path, java: Java):
    """Without FlintMQ's own recovery between: Java loses nothing that was acknowledged."""
    root, ledger = tmp_path / "store", tmp_path / "ledger"
    for number in range(50):
        assert live(root, ledger, Life(number, number, after_s=0.08, peer=java.version)) == "killed"
        if number >= 2 and read_ledger(ledger)[1]:  # a busy machine kills some before they have put anything
            break
    # 5.4.0 looks back over 10 files at most: 10 GiB by default, but with these small files less than what a busy
    # machine may leave undispatched. Its queues would miss units then, and take the next ones in their places (D5).
    keys = KEYS | {"commitLogRecoverMaxNum": 10_000}
    entries = dumped(java("dump", root, keys, topics=TOPICS))
    _, told = read_ledger(ledger)
    places = {(row[0], row[3]) for row in entries}
    missing = [t for t in told.values() if t["outcome"] == "ok" and (t["place"], t["queue_offset"]) not in places]
    assert told and missing == []
    assert check_contract(root, ledger, peer=java.version).wrong == {}
    ours = rows_of(root)
    assert entries == ours or entries == ours[: len(entries)], "a prefix at least, all of it but for a put under way"
    assert len(ours) - len(entries) <= 1


def test_d6_java_goes_on_after_a_store_that_was_closed_with_queues_lag(tmp_path: Path, java: Java):
    """`abort` stays, so Java completes the queues, begins with the right queue offset, and finds each key.

    The index file that the first life left holds keys of more log files than Java reads again (D2)."""
    root, clock, count = tmp_path / "store", Clock(), 360
    keys = KEYS | {"maxHashSlotNum": 100, "maxIndexNum": 1000}
    lives = (("thread", 300), ("external", count))
    numbers = iter(range(count))
    for dispatch, until in lives:
        with MessageStore(root, config=keys, effects=clock, unique_keys=False, dispatch=dispatch) as store:
            for n in numbers:
                assert store.put(Message("T1", bytes(500), keys=f"a{n}")).queue_offset == n
                clock.clock += 1000
                if n + 1 == until:
                    break
    assert len(list((root / "commitlog").iterdir())) > 10 and read_facts(str(root)).lagging
    put = {"op": "put", "topic": "T1", "queue": 0, "keys": f"a{count}", "body": {"hex": "00"}}
    answers = java("run", root, keys, [put, {"op": "dispatch"}, {"op": "flush"}], TOPICS)
    assert answers[0]["queue_offset"] == count
    found = java("dump", root, keys, topics=TOPICS, ask=[f"T1:a{n}" for n in range(count + 1)])
    assert dumped(found) == rows_of(root) and [row[3] for row in rows_of(root)] == list(range(count + 1))
    places = [row[0] for row in rows_of(root)]
    assert [set(row["physical_offsets"]) for row in found if row["kind"] == "key"] == [{place} for place in places]
    with MessageStore(root, config=keys, unique_keys=False) as store:
        assert store.put(Message("T1", b"next")).queue_offset == count + 1
        assert not any("have a queue offset" in line for line in store.recovered.decisions)


@pytest.mark.parametrize(("files", "most"), [(8, None), (20, None), (20, 10_000)])
def test_d35_java_leaves_out_what_lies_more_than_ten_files_back(
    tmp_path: Path, java: Java, files: int, most: int | None
):
    """A store closed with so many files without units: FlintMQ completes them, 5.4.0 and newer the last ten only, or
    as many as commitLogRecoverMaxNum says. A start of ours, and verify, tell of a queue offset that was given twice."""
    left = tmp_path / "left"
    with MessageStore(left, config=KEYS, unique_keys=False) as store:
        for n in range(12):
            store.put(Message("T1", b"%d" % n))
    with MessageStore(left, config=KEYS, unique_keys=False, dispatch="external") as store:
        begin = store.put(Message("T1", b"first without a unit")).physical_offset
        while store.put(Message("T1", bytes(700))).physical_offset < begin + files * FILE_SIZE:
            pass
    assert read_facts(str(left)).lagging
    held = len(records(left, FILE_SIZE))
    shutil.copytree(left, tmp_path / "ours")
    with MessageStore(tmp_path / "ours", config=KEYS, unique_keys=False) as store:
        assert store.wait_dispatched(30)
        assert store.put(Message("T1", b"next")).queue_offset == held
    keys = KEYS if most is None else KEYS | {"commitLogRecoverMaxNum": most}
    java(
        "run", left, keys, [{"op": "put", "topic": "T1", "queue": 0, "body": {"hex": "00"}}, {"op": "dispatch"}], TOPICS
    )
    offsets = [r.queue_offset for r in records(left, FILE_SIZE)]
    assert len(offsets) == held + 1 and offsets[:held] == list(range(held))
    wrong = java.version != "5.3.3" and files > 10 and most is None
    assert (offsets[-1] != held) == wrong
    with MessageStore(left, config=KEYS, unique_keys=False) as store:
        assert store.wait_dispatched(30)
        assert any("records have a queue offset" in line for line in store.recovered.decisions) == wrong
        assert store.put(Message("T1", b"next")).queue_offset == held + (not wrong)
    last = records(left, FILE_SIZE)[held]
    expected = f"unit {last.queue_offset} of queue T1/0, for records from log offset {last.physical_offset} on"
    assert [defect.expected for defect in verify(left, StoreConfig.from_keys(KEYS)).defects] == [expected] * wrong


def test_d2_a_mark_that_java_left_standing_hides_no_key(tmp_path: Path, java: Java):
    """FlintMQ is killed; Java starts, throws the index away (D2) and is killed before it writes a checkpoint, so that
    FlintMQ's mark still holds beside it. Java itself reads the last log files only, where no record has a key."""
    root, clock = tmp_path / "left", Clock()
    with MessageStore(tmp_path / "store", config=KEYS, effects=clock, unique_keys=False) as store:
        for n in range(200):
            store.put(Message("T1", bytes(300), keys=f"a{n}" if n < 5 else None))
            clock.clock += 1000
        assert store.wait_dispatched(30)
        store.flush()
        store._parts.checkpointer.write()
        shutil.copytree(store.root, root)
    before = read_facts(str(root))
    assert before.mark.indexed is not None and before.mark.dispatched == before.mark.flushed
    checkpoint = (root / "checkpoint").read_bytes()
    java("run", root, KEYS, [{"op": "dispatch"}, {"op": "halt"}], TOPICS)
    assert not any(path.name == f"{before.mark.indexed.name:017d}" for path in (root / "index").iterdir())
    (root / "checkpoint").write_bytes(checkpoint)
    after = read_facts(str(root))
    assert (after.mark.flushed, after.mark.dispatched, after.mark.indexed) == (before.mark.flushed, -1, None)
    with MessageStore(root, config=KEYS, unique_keys=False) as store:
        assert [len(store.query("T1", f"a{n}")) for n in range(5)] == [1] * 5
    wanted = [(key_hash("T1", f"a{n}"), r.physical_offset) for n, r in enumerate(records(root, FILE_SIZE)[:5])]
    assert index_items(root, KEYS["maxHashSlotNum"], KEYS["maxIndexNum"]) == wanted


def operations(count: int) -> list[dict[str, Any]]:
    """Puts of every kind that this step knows, as the oracle takes them; each with its own property string."""
    chance = random.Random(77)
    found = []
    for n in range(count):
        tags = chance.choice(("", "TAGS\x01报警\x02", "TAGS\x01a\x02", "TAGS\x01Aa\x02"))
        keys = chance.choice(("", f"KEYS\x01k{n} k{n % 7}\x02", f"KEYS\x01k{n % 7}\x02"))
        unique = chance.choice(("", f"UNIQ_KEY\x01{n:032X}\x02"))
        found.append({
            "op": "put", "topic": chance.choice((*TOPICS, "主题", "t" * 127, "%RETRY%" + "g" * 150)),
            "queue": chance.randrange(2), "flag": chance.choice((0, -5, 1 << 30)),
            "sys_flag": chance.choice((0, 0, 0, 1, 2, 4, 8, 12)), "reconsume": chance.choice((0, 3)),
            "prepared_offset": chance.choice((0, 12345)), "born_ts": 1_700_000_000_000 + n,
            "born_host": "127.0.0.1:10911", "store_host": "127.0.0.1:10911",
            "properties_string": keys + tags + unique + chance.choice(("", "p\x01v\x02")),
            "body": {"hex": chance.randbytes(chance.choice((0, 1, 50, 700, 3000))).hex()},
        })  # fmt: skip
    # Records that end right before, at and behind the place where the blank record must fit. (What no file can hold is
    # left out: Java answers PUT_OK, stores nothing and wastes a file, D8.)
    for size in (FILE_SIZE - 120, FILE_SIZE - 101, FILE_SIZE // 2 - 97, FILE_SIZE // 2 - 96, 3000, FILE_SIZE - 102):
        found.append(
            found[0] | {"topic": "T0", "body": {"hex": bytes(size).hex()}, "properties_string": "", "sys_flag": 0}
        )
    return found


def message_of(op: dict[str, Any]) -> Message:
    return Message(
        op["topic"], bytes.fromhex(op["body"]["hex"]), queue_id=op["queue"], flag=op["flag"], sys_flag=op["sys_flag"],
        born_timestamp=op["born_ts"], reconsume_times=op["reconsume"],
        prepared_transaction_offset=op["prepared_offset"], properties_bytes=op["properties_string"].encode(),
    )  # fmt: skip


def test_the_same_operations_give_the_same_bytes(tmp_path: Path, java: Java):
    """All bytes of the log and the queues, all items of the index. FlintMQ's clock replays the times that Java took."""
    ops = operations(300)
    topics = sorted({op["topic"] for op in ops})
    theirs, ours = tmp_path / "java", tmp_path / "flintmq"
    answers = [row for row in java("run", theirs, KEYS, [*ops, {"op": "dispatch"}], topics) if row["op"] == "put"]
    assert len(answers) == len(ops)
    clock = Faulty()
    clock.clock = answers[0]["store_timestamp"]
    differing = []
    with MessageStore(ours, config=KEYS, effects=clock, peer=java.version, unique_keys=False) as store:
        for op, answer in zip(ops, answers, strict=True):
            clock.clock = answer.get("store_timestamp") or clock.clock
            (result,) = store.put_many([message_of(op)], delivered=True)  # a bare Java store asks less of them
            told = (result.status.name, result.queue_offset, result.physical_offset, result.offset_msg_id)
            if told != (answer["status"], answer["queue_offset"], answer["physical_offset"], answer["msg_id"]):
                differing.append((told, answer))
    assert differing == []
    log, _ = log_bytes(ours)
    wanted, _ = log_bytes(theirs)
    assert log == wanted[: len(log)] and not any(wanted[len(log) :])
    assert tree(ours, "consumequeue") == tree(theirs, "consumequeue")
    assert index_items(ours, 8, 64) == index_items(theirs, 8, 64)
    assert [*tree(ours, "index").values()] == [*tree(theirs, "index").values()], "headers and all"


@pytest.mark.parametrize("java", VERSIONS[:1], indirect=True)
def test_each_excludes_the_other(tmp_path: Path, java: Java):
    """T19: while one has the store open the other is refused, and leaves it alone."""
    root = tmp_path / "store"
    with MessageStore(root, config=KEYS, unique_keys=False) as store:
        store.put(Message("T0", b"x"))
        with pytest.raises((AssertionError, subprocess.TimeoutExpired), match="lock|Lock|Overlapping|already"):
            java("run", root, KEYS, [{"op": "flush"}], TOPICS)
        assert (root / "abort").exists() and store.put(Message("T0", b"y")).queue_offset == 1
    before = rows_of(root)
    command = [{"op": "sleep", "ms": 3000}]
    words = java.words("run", root, KEYS, command, TOPICS, tmp_path)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        limit = time.monotonic() + 60
        while not (root / "abort").exists() and time.monotonic() < limit and running.poll() is None:
            time.sleep(0.05)
        with pytest.raises(StoreLockedError):
            MessageStore(root, config=KEYS, unique_keys=False)
        running.communicate(timeout=60)
    assert rows_after_recovery(root, java.version) == before
    assert units(root, "T0", 0)
