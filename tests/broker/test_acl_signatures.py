"""Signatures of requests, as Java's clients make them and as nobody does.

Signatures that are written out here are Java's: AclClientRPCHook of rocketmq-client 5.5.0 and 4.9.8 signed the frames.
The one of a client of before 4.9.4 is openssl's: `printf alice09000000000000U164acl-t | openssl dgst -sha1 -hmac
secret12 -binary | base64`. All others are made by `signed`, which is RocketMQ's formula once more.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.broker import Broker
from flintmq.message import StoredMessage
from tests.broker import talk
from tests.broker.guarding import BOB, Connected, Guarded, rule, signed, users
from tests.broker.talk import heartbeat, pull, records, send
from tests.broker.test_bad_input import frame
from tests.broker.test_send import stored


def from_java(code: int, fields: str, version: int, body: bytes = b"") -> bytes:
    """The frame of a Java client, of these fields as it wrote them."""
    rest = '"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON"'
    return frame(f'{{"code":{code},"extFields":{{{fields}}},{rest},"version":{version}}}'.encode(), body=body)


_SEND = (
    '"a":"P","b":"acl-t","c":"TBW102","d":"4","e":"0","f":"0","g":"1700000000000","h":"0",'
    '"i":"UNIQ_KEY\\u0001U1\\u0002k\\u0001值😀\\u0002","j":"0","k":"false","m":"false"'
)
_ALICE = '"AccessKey":"alice"'
_SIGNED, _WITH_TOKEN = '"Signature":"FGUTOnnxwoH/Huqoyr0XfdwiXwA="', '"Signature":"8BZHRgZ8wpasNjF6HWKcqPBM9ms="'
SENDS = {
    "5.5.0": from_java(310, f"{_ALICE},{_SEND},{_SIGNED}", 513, b"body"),
    "5.5.0, a token": from_java(310, f'{_ALICE},{_SEND},"SecurityToken":"token",{_WITH_TOKEN}', 513, b"body"),
    "5.5.0, ROCKETMQ": bytes.fromhex(
        "000000ee010000e60136000201000000070000000000000000000000d100094163636573734b657900000005616c696365000161000000"
        "01500001620000000561636c2d74000163000000065442573130320001640000000134000165000000013000016600000001300001670000"
        "000d31373030303030303030303030000168000000013000016900000016554e49515f4b4559015531026b01e580bcf09f98800200016a00"
        "0000013000016b0000000566616c736500016d0000000566616c736500095369676e61747572650000001c464755544f6e6e78776f482f48"
        "75716f79723058666477695877413d626f6479"
    ),
    "4.9.8": from_java(310, f"{_SEND},{_SIGNED},{_ALICE}", 409, b"body"),
}
"""The same message as Java's clients sign it: of alice, whose password is secret12."""
OF_ALL, OF_OLD = "tW8x5jdgnHkxQTGBumel2w9+uTk=", "LZWk9e8bQNip8U+sgSL3mqYy9G8="


@pytest.mark.parametrize("name", SENDS)
def test_frames_that_java_signed(guarded: Guarded, line: Connected, name: str):
    broker = guarded()
    client = line(broker)
    client.send(SENDS[name])
    assert client.answer(7).code == 0
    for old, new in ((b"body", b"bodY"), (b"acl-t", b"acl-u"), (b"alice", b"alicf")):
        client.send(SENDS[name].replace(old, new))
        answer = client.answer(7)
        assert (answer.code, answer.remark) == (16, "check signature failed.")
    [found] = stored(broker).get("acl-t", 0, 0).messages
    assert (found.body, found.properties["k"]) == (b"body", "值😀") and set(stored(broker).topics()) == {"acl-t"}


@pytest.mark.parametrize(
    ("version", "signature", "code"),
    [(513, OF_ALL, 0), (409, OF_ALL, 0), (400, OF_OLD, 16), (399, OF_OLD, 0), (399, OF_ALL, 16)],
)
def test_a_query_by_id(guarded: Guarded, line: Connected, version: int, signature: str, code: int):
    """Clients until 4.9.3 sign it without the field that says so."""
    broker = guarded()
    client = line(broker)
    client.send(SENDS["5.5.0"])
    assert client.answer(7).code == 0 and stored(broker).wait_dispatched(60)
    named = '"maxNum":"64","beginTimestamp":"0","key":"U1","_UNIQUE_KEY_QUERY":"true","topic":"acl-t"'
    fields = f'{named},{_ALICE},"endTimestamp":"9000000000000","Signature":"{signature}"'
    client.send(from_java(12, fields, version))
    answer = client.answer(7)
    assert answer.code == code
    assert [StoredMessage(one).body for one in records(answer.body)] == ([] if code else [b"body"])


@pytest.mark.parametrize("separators", [talk.PLAIN, talk.LOOSE])
def test_requests_that_nobody_signed(
    guarded: Guarded, line: Connected, by: Connected, monkeypatch: pytest.MonkeyPatch, separators: tuple[str, str]
):
    """Also such as kernels read, of a topic and a group that are there: with an ACL no compiled way takes them."""
    monkeypatch.setattr(talk, "SEPARATORS", separators)
    broker = guarded()
    owner, stranger = by(broker), line(broker)
    text = "UNIQ_KEY\x01U\x02"
    for _ in range(2):
        assert owner.ask(310, send("T", 0, text), b"x").code == 0
    assert stored(broker).wait_dispatched(60)
    assert owner.ask(11, pull()).code == 0 and owner.ask(15, {**pull(), "commitOffset": 1}).code == 0
    body = heartbeat("c", "H", topics={"T": "*"})
    for code, fields in (
        (310, send("T", 0, text)), (11, pull()), (11, pull(sysFlag=7, commitOffset=2)), (34, {}), (105, {"topic": "T"}),
        (17, {"topic": "New", "readQueueNums": 1, "writeQueueNums": 1}), (15, {**pull(), "commitOffset": 2}),
        (106, {}), (38, {"consumerGroup": "G"}), (21, {}), (200050, talk.pop()),
    ):  # fmt: skip
        unsigned = stranger.ask(code, fields, body)
        assert (unsigned.code, unsigned.remark, unsigned.body) == (16, "username cannot be null.", b"")
        for who in (("bob", "secret12"), ("carol", "secret12"), ("alice", "secret13")):
            answer = stranger.ask(code, signed(fields, body, *who), body)
            assert (answer.code, answer.remark) == (16, "check signature failed.")
    for broken in ({"AccessKey": "alice"}, {"AccessKey": "alice", "Signature": "no base64!"}, {"Signature": OF_ALL}):
        assert stranger.ask(310, {**send("T", 0, text), **broken}).code == 16
    assert stored(broker).bounds("T", 0) == (0, 2) and stored(broker).consumer_offset("G", "T", 0) == 1
    assert broker.stats().groups == {"G": 0} and broker.stats().failed == 0
    assert set(stored(broker).topics()) == {"T", "%RETRY%G"}


def test_a_request_that_is_not_known(guarded: Guarded, line: Connected):
    assert line(guarded()).ask(99_999).code == 3, "whoever asks: there is nothing to guard"


def test_read_only(served: Callable[..., Broker], resting: Path, tmp_path: Path, line: Connected, by: Connected):
    path = tmp_path / "acl.json"
    path.write_text(users(rule("Topic:T", "Sub")), encoding="utf-8")
    broker = served(resting, acl=path)
    assert line(broker).ask(11, pull()).code == 16
    assert by(broker).ask(11, pull()).code == 0
    refused = by(broker, *BOB).ask(11, pull())
    assert refused.code == 16 and "no permission to access Group:G" in str(refused.remark)
