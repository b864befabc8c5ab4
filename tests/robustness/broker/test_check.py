"""What the labs of the broker compare with: planted faults are named, and hostile bytes are judged."""

import random
from pathlib import Path
from typing import NamedTuple

import pytest

from flintmq.broker import Broker
from flintmq.message import Message
from flintmq.remoting.names import SEND, SEND_BATCH, SEND_SHORT
from flintmq.store.message_store import MessageStore
from labs.broker.check import WRONG, check_messages, check_store
from labs.broker.hostile_frames import MAKERS, REQUESTS, names_of, valid_sends
from labs.broker.ledger import TOPIC, SendLedger, Told, text_of
from labs.three_brokers.check import Found
from labs.three_brokers.ledger import name_of
from tests.broker.talk import batch, request, send
from tests.support.makers import patch


class Sent(NamedTuple):
    """The fields of a message that are looked at."""

    queue_id: int
    queue_offset: int
    physical_offset: int
    body: bytes


STORED = [Sent(n % 2, n // 2, 900 * n, text_of(f"b/{n}").encode()) for n in range(8)]
LEDGER = SendLedger(
    {f"b/{n}" for n in range(9)},
    {f"b/{n}": Told(*STORED[n][:3], at=float(n)) for n in range(7)},
)


def compared(stored: list[Sent]) -> Found:
    found = Found()
    check_messages(stored, LEDGER, found)
    return found


def test_what_was_sent_is_not_wrong():
    """Also where a client has sent a message again, and where an answer did not come."""
    found = compared([*STORED, STORED[3]._replace(queue_offset=4)])
    assert not found.wrong
    names = ("acknowledged", "sent", "stored", "sent again")
    assert [found.counted[name] for name in names] == [7, 9, 9, 1]


@pytest.mark.parametrize(
    ("kinds", "stored"),
    [
        (["missing"], [*STORED[:6], STORED[7]._replace(queue_id=0, queue_offset=3), STORED[7]]),
        (["missing", "holes"], STORED[:3] + STORED[4:]),
        (["foreign"], [*STORED, Sent(0, 4, 9000, b"b/9 x")]),
        (["altered"], [*STORED[:3], STORED[3]._replace(body=STORED[3].body + b"!"), *STORED[4:]]),
        (["elsewhere"], [*STORED[:3], STORED[3]._replace(physical_offset=1), *STORED[4:]]),
        (["elsewhere", "holes"], [*STORED[:6], STORED[6]._replace(queue_offset=9), STORED[7]]),
        (["offsets twice"], [*STORED, STORED[7]._replace(physical_offset=9000)]),
    ],
)
def test_what_is_planted_is_named(kinds: list[str], stored: list[Sent]):
    found = compared(stored)
    assert [name for name in WRONG if found.counted[name]] == kinds


def test_answers_after_a_moment_are_no_promise():
    ledger = SendLedger(set(LEDGER.sent), dict(LEDGER.acknowledged))
    assert ledger.discount(5.0) == 2 and len(ledger.acknowledged) == 5
    found = Found()
    check_messages(STORED[:5], ledger, found)
    assert not found.wrong


def test_a_store_at_rest(tmp_path: Path):
    ledger = SendLedger()
    with MessageStore(tmp_path / "store", config={"mappedFileSizeCommitLog": 1 << 20}) as store:
        for number in range(20):
            put = store.put(Message(TOPIC, text_of(f"b/{number}").encode()))
            ledger.acknowledged[f"b/{number}"] = Told(0, put.queue_offset, put.physical_offset, 0.0)
        store.put(Message("Other", b"of somebody else"))
    ledger.sent |= ledger.acknowledged.keys()
    keys, found = {"mappedFileSizeCommitLog": 1 << 20}, Found()
    check_store(tmp_path / "store", keys, ledger, found)
    assert not found.wrong and found.counted["stored"] == 20
    patch(tmp_path / "store" / "consumequeue" / TOPIC / "0" / f"{0:020}", 7, b"\x7f")
    check_store(tmp_path / "store", keys, ledger, found)
    assert found.counted["defects"] and found.wrong[0].startswith("defects: ")


def test_a_name_decides_its_body():
    assert text_of("a/1") == text_of("a/1") != text_of("a/2")
    assert name_of(text_of("java-5.5.0-1/77").encode()) == "java-5.5.0-1/77"


# -- hostile bytes -----------------------------------------------------------------------------------------------------


def test_only_valid_sends_ask_for_messages():
    good = request(SEND_SHORT, send("F0"), b"one")
    long = request(SEND, {"topic": "F1"}, b"two")
    many = batch((b"x", "a\x01b\x02"), (b"y", ""))
    several = request(SEND_BATCH, send("F2"), many)
    asked = [("F0", b"one"), ("F1", b"two"), ("F2", many), ("F2", b"x"), ("F2", b"y")]
    assert list(valid_sends(good + long + several)) == asked
    assert list(valid_sends(good + b"\xff\xff\xff\xff" + long)) == asked[:1], "nothing after what is no frame"
    assert list(valid_sends(good[:-1])) == []
    answer = request(SEND_SHORT, send("F0"), b"one", flag=1)
    assert list(valid_sends(answer + request(11, {"topic": "F0"}))) == []


def test_names_that_bytes_bring():
    heartbeat = request(34, {}, b'{"clientID":"c","consumerDataSet":[{"groupName":"Mine"}]}')
    assert names_of(request(SEND_SHORT, send("Other", group="P"))) == {"Other", "P"}
    assert names_of(heartbeat) == {"Mine"}
    assert names_of(b"\0\0\0\1x") == set()


def test_hostile_bytes_are_made_again_by_their_seed():
    for make in MAKERS:
        first, second = ([make(random.Random(f"{make.__name__} {n}")) for n in range(40)] for _ in range(2))
        assert first == second and len(set(first)) > 20


def test_each_request_that_is_answered_is_made(tmp_path: Path):
    with Broker(tmp_path / "store", dev=True) as broker:
        assert broker._now._requests._handlers.keys() <= {code for code, _, _ in REQUESTS}
