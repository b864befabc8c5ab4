"""The run's own check names what is planted in a copy; `python -m labs.three_brokers` is the run."""

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from labs.interop.live import KEYS
from labs.three_brokers.check import WRONG, Found, check_broker, check_messages
from labs.three_brokers.ledger import QUEUES, TOPIC, Ledger, Place, body_of, read_ledger
from tests.support.makers import patch

SIZE = int(KEYS["mappedFileSizeCommitLog"])
COUNT = 200


class Sent(NamedTuple):
    """The fields of a message that are looked at."""

    queue_id: int
    queue_offset: int
    physical_offset: int
    body: bytes


SENT = [Sent(n % QUEUES, n // QUEUES, 900 * n, body_of(f"b/{n}")) for n in range(8)]
TOLD = Ledger({f"b/{n}": Place(*SENT[n][:3]) for n in range(7)}, {"b/7", "b/8"})


def compared(copy: list[Sent], master: list[Sent] = SENT, kills: int = 0) -> Found:
    found = Found()
    check_messages("b", copy, master, TOLD, found, kills=kills)
    return found


def test_what_was_sent_is_not_wrong():
    found = compared(SENT)
    assert not found.wrong
    assert found.counted["acknowledged"] == 7 and found.counted["in the copies"] == 8
    assert found.counted["unknown fate"] == 2 and found.counted["of them stored"] == 1
    assert not compared(SENT[:7], SENT[:7]).wrong, "nobody needs to store what is of unknown fate"


@pytest.mark.parametrize(
    ("kind", "copy"),
    [
        ("missing", SENT[:3] + SENT[4:]),
        ("doubled", [*SENT, SENT[3]]),
        ("doubled", [*SENT, SENT[3]._replace(queue_offset=9)]),
        ("doubled", [*SENT[:4], SENT[4]._replace(queue_id=SENT[0].queue_id, queue_offset=0), *SENT[5:]]),
        ("foreign", [*SENT, Sent(0, 9, 9000, body_of("b/9"))]),
        ("altered", [*SENT[:3], SENT[3]._replace(body=SENT[3].body + b"!"), *SENT[4:]]),
        ("altered", [*SENT[:7], SENT[7]._replace(body=SENT[7].body[:-1])]),
        ("elsewhere", [*SENT[:3], SENT[3]._replace(queue_offset=9), *SENT[4:]]),
        ("elsewhere", [*SENT[:3], SENT[3]._replace(physical_offset=1), *SENT[4:]]),
    ],
)
def test_what_is_planted_is_named(kind: str, copy: list[Sent]):
    found = compared(copy, kills=1)
    assert [name for name in WRONG if found.counted[name]] == [kind]
    assert len(found.wrong) == 1 and found.wrong[0].startswith(f"{kind}: b/")


def test_only_a_master_that_was_killed_may_have_lost_something():
    there = SENT[:5] + SENT[7:]
    found = compared(there, there, kills=1)
    assert not found.wrong and found.counted["lost by killed masters"] == 2
    assert compared(there, there).counted["lost without a kill"] == 2
    found = compared(there, SENT[:6], kills=1)
    assert (found.counted["missing"], found.counted["lost by killed masters"]) == (1, 1)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ledger]:
    """A master's store at rest, and the ledger of what was put."""
    folder = tmp_path_factory.mktemp("three")
    with MessageStore(folder / "master", config=KEYS) as store, (folder / "ledger").open("w") as ledger:
        for n in range(COUNT):
            put = store.put(Message(TOPIC, body_of(f"b/{n}"), keys=f"b/{n}", queue_id=n % QUEUES))
            row = {"name": f"b/{n}", "status": "SEND_OK", "msg_id": put.offset_msg_id, "queue_id": n % QUEUES}
            print(json.dumps(row | {"queue_offset": put.queue_offset}), file=ledger)
        print(json.dumps({"name": f"b/{COUNT}", "status": "TimeoutError"}), file=ledger)
        ledger.write('{"name": "b/2')  # a run that was killed
    return folder / "master", read_ledger(folder / "ledger")


def whole(copy: Path, master: Path, ledger: Ledger) -> Found:
    found = Found()
    check_broker("b", copy, master, ledger, found, size=SIZE, kills=0)
    return found


def test_equal_stores_are_not_wrong(written: tuple[Path, Ledger], tmp_path: Path):
    master, ledger = written
    found = whole(shutil.copytree(master, tmp_path / "copy"), master, ledger)
    assert not found.wrong
    assert found.counted["acknowledged"] == found.counted["in the copies"] == COUNT
    assert found.counted["log bytes compared"] > 40_000


def test_a_byte_and_a_unit_are_named(written: tuple[Path, Ledger], tmp_path: Path):
    master, ledger = written
    copy = shutil.copytree(master, tmp_path / "copy")
    place = ledger.acknowledged["b/50"].physical_offset
    patch(copy / "commitlog" / f"{0:020}", place + 100, b"\xff")
    patch(copy / "consumequeue" / TOPIC / "1" / f"{0:020}", 7, b"\x7f")
    found = whole(copy, master, ledger)
    assert [kind for kind in WRONG if found.counted[kind]] == ["other logs", "other queues", "unreadable", "defects"]
    assert f"other logs: b: another byte at log offset {place + 100}, of " in found.wrong[0]
    assert found.wrong[1] == f"other queues: {TOPIC}/1 of b has other units"


def test_a_copy_that_ends_early_is_named(written: tuple[Path, Ledger], tmp_path: Path):
    master, ledger = written
    copy = shutil.copytree(master, tmp_path / "copy")
    place = ledger.acknowledged[f"b/{COUNT - 1}"].physical_offset
    file = copy / "commitlog" / f"{place - place % SIZE:020}"
    patch(file, place % SIZE, bytes(SIZE - place % SIZE))
    found = whole(copy, master, ledger)
    assert found.counted["other logs"] == 1 and "not all bytes up to" in found.wrong[0]
