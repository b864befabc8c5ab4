"""Dead letters that are sent again: each once, wherever a kill came."""

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flintmq import Message, MessageStore, open_store
from flintmq.errors import UsageError
from flintmq.forensics.answers.send_dead import send_dead
from flintmq.store.commitlog.report import Report
from flintmq.store.consumer.retry import sent_back
from tests.support.engine import open_small

LETTERS = 420
MARK = "FLINTMQ_DEAD_LETTER"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with dead letters of group G, of messages of T in three queues."""
    with open_small(tmp_path / "from") as store:
        store.create_topic("T", 3)
        for n in range(LETTERS):
            message = Message(
                "T", b"body %d" % n, queue_id=n % 3, keys=f"k{n}", tags="red", properties={"own": f"v{n}"}
            )
            first = store.get_at(store.put(message).physical_offset)
            dead = sent_back(first, "G", level=-1)
            assert store.put(dead).physical_offset >= 0
        assert store.wait_dispatched(60)
    return tmp_path / "from"


def sent_in(path: Path) -> list[Any]:
    with open_store(path) as view:
        return [message for message in view.messages() if MARK in message.properties]


def send(root: Path, into: Path, ledger: Path, limit: int | None = None) -> tuple[int, int, int]:
    with open_store(root) as view, MessageStore(into) as store:
        found = send_dead(view, ["G"], store, str(ledger), limit)
    return found.sent, found.before, found.left_out


def test_each_comes_once_as_it_was_first_sent(root: Path, tmp_path: Path):
    into, ledger = tmp_path / "into", tmp_path / "ledger"
    assert send(root, into, ledger, 250) == (250, 0, 0)
    assert send(root, into, ledger) == (LETTERS - 250, 250, 0)
    assert send(root, into, ledger) == (0, LETTERS, 0)
    found = sent_in(into)
    assert [message.body for message in found] == [b"body %d" % n for n in range(LETTERS)]
    for n, message in enumerate(found):
        assert (message.topic, message.queue_id, message.keys, message.tags) == ("T", n % 3, f"k{n}", "red")
        assert message.reconsume_times == 0 and message.properties["own"] == f"v{n}"
        assert message.properties.keys().isdisjoint({"RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "DELAY"})


def test_a_lost_ledger_and_a_cut_line_send_none_twice(root: Path, tmp_path: Path):
    into, ledger = tmp_path / "into", tmp_path / "ledger"
    assert send(root, into, ledger, 200) == (200, 0, 0)
    text = ledger.read_bytes()
    ledger.write_bytes(text[:-30])  # a kill amid the last line
    assert send(root, into, ledger, 1) == (1, 200, 0)
    ledger.unlink()
    assert send(root, into, ledger) == (LETTERS - 201, 201, 0)
    assert set(Counter(message.body for message in sent_in(into)).values()) == {1} and len(sent_in(into)) == LETTERS


def test_kills_send_none_twice_and_none_never(root: Path, tmp_path: Path):
    into, ledger = tmp_path / "into", tmp_path / "ledger"
    MessageStore(into).close()
    program = (
        "import sys, flintmq.forensics.answers.send_dead as s; from flintmq import MessageStore, open_store\n"
        "s.AT_ONCE = 7\n"
        "s.send_dead(open_store(sys.argv[1]), ['G'], MessageStore(sys.argv[2]), sys.argv[3])\n"
    )
    killed = 0
    for n in range(40):
        child = subprocess.Popen([sys.executable, "-c", program, root, into, ledger])
        before = ledger.stat().st_size if ledger.exists() else 0
        limit = time.monotonic() + 30
        while child.poll() is None and time.monotonic() < limit:
            if ledger.exists() and ledger.stat().st_size > before + 300 * (n % 5):
                time.sleep(0.002 * (n % 4))
                break
        child.kill()
        killed += child.wait() == -9
        if killed >= 4:
            break
    assert killed >= 3, "it was through before"
    sent, before, left_out = send(root, into, ledger)
    assert (sent + before, left_out) == (LETTERS, 0)
    assert Counter(message.body for message in sent_in(into)) == Counter(b"body %d" % n for n in range(LETTERS))


ROW = '{"sent": [], "end": 0, "anchor": null}\n'
ANCHOR = {"physical_offset": 0, "size": 200, "store_timestamp": 5, "body_crc": 7}


@pytest.mark.parametrize(
    "text",
    [
        *("", "x\n", "[1]\n", "no line end", "\0" * 4096, "deleteWhen = 04\nfileReservedTime = 480", "{}\n"),
        *(ROW.replace("0", '"0"'), ROW.replace("null", "{}"), ROW.replace("null", "5"), ROW.replace("[]", "[1]")),
        *(ROW + "x", ROW + "x\n", ROW.removesuffix("\n")),
        json.dumps({"sent": ["a"], "end": 10, "anchor": ANCHOR}) + "\n",
    ],
)
def test_another_file_is_refused_and_left_as_it_is(root: Path, tmp_path: Path, text: str):
    ledger = tmp_path / "ledger"
    ledger.write_text(text)
    with pytest.raises(UsageError, match="ledger"):
        send(root, tmp_path / "into", ledger)
    assert ledger.read_text() == text and sent_in(tmp_path / "into") == []


def test_a_store_that_was_put_back_or_made_anew_is_not_taken_for_the_one_that_has_them(root: Path, tmp_path: Path):
    into, ledger, copy = tmp_path / "into", tmp_path / "ledger", tmp_path / "copy"
    with open_small(into) as store:
        store.put(Message("Other", b"before"))
    shutil.copytree(into, copy)
    assert send(root, into, ledger, 5) == (5, 0, 0)
    moved = into.rename(tmp_path / "moved")
    shutil.copytree(copy, into)
    kept = ledger.read_bytes()
    for longer in (False, True):
        with open_small(into) as store:
            for n in range(LETTERS * longer):
                store.put(Message("Other", b"%d" % n * 20))
        with pytest.raises(UsageError, match=r"what it says was sent is not in .*: .*; bring that log back"):
            send(root, into, ledger)
    assert ledger.read_bytes() == kept
    assert send(root, moved, ledger, 5) == (5, 5, 0)  # the log is known, not its path
    assert send(root, into, tmp_path / "new") == (LETTERS, 0, 0)


@pytest.mark.parametrize("field", ["topic", "queue id", "queue offset"])
@pytest.mark.parametrize("which", ["one amid others", "the last"])
def test_a_damaged_dead_letter_is_not_passed_over_in_silence(root: Path, tmp_path: Path, field: str, which: str):
    """No checksum covers these fields."""
    with open_store(root) as view:
        letters = list(view.read("%DLQ%G", 0, 0, LETTERS))
        letter = letters[7 if which == "one amid others" else -1]
        file, begin = view._now.snapshot.log.path_at(letter.physical_offset)
    log = Path(file)
    data = bytearray(log.read_bytes())
    at = {"topic": data.index(b"%DLQ%G", begin), "queue id": begin + 15, "queue offset": begin + 22}[field]
    data[at] ^= 0x20
    log.write_bytes(data)
    report = Report()
    with open_store(root) as view, MessageStore(tmp_path / "into") as store:
        found = send_dead(view, ["G"], store, str(tmp_path / "ledger"), None, report)
    assert (found.sent, report.damage_count) == (LETTERS - 1, 1)


def test_a_group_that_is_named_twice_is_one(root: Path, tmp_path: Path):
    with open_store(root) as view, MessageStore(tmp_path / "into") as store:
        found = send_dead(view, ["G", "G"], store, str(tmp_path / "ledger"))
    assert (found.sent, len(sent_in(tmp_path / "into"))) == (LETTERS, LETTERS)


def test_letters_that_name_topics_of_rocketmq_itself_are_left_out(tmp_path: Path):
    """No consumer of theirs would get them; a scheduler or a broker would take them for its own."""
    own = ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_wheel_timer", "TBW102", "%DLQ%G", ""]
    with open_small(tmp_path / "from") as store:
        for topic in (*own, "T", "%DLQ%other"):
            store.put(Message("%DLQ%G", b"dead", properties={"RETRY_TOPIC": topic} if topic else {}))
        assert store.wait_dispatched(60)
    assert send(tmp_path / "from", tmp_path / "into", tmp_path / "ledger") == (2, 0, len(own))
    assert [message.topic for message in sent_in(tmp_path / "into")] == ["T", "%DLQ%other"]
