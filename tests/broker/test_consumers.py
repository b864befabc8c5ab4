"""What operators ask of consumers: it is passed on to them, and so is what they answer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker import Broker
from flintmq.message import StoredMessage
from flintmq.remoting.frames import RemotingFrame
from tests.broker.talk import Line, heartbeat, request, send
from tests.broker.test_send import stored
from tests.support.threads import within

Connected = Callable[[Broker], Line]
WHO = {"consumerGroup": "G", "clientId": "c1"}


def member_of(broker: Broker, line: Connected) -> Line:
    """A member of the group G."""
    member = line(broker)
    assert member.ask(34, body=heartbeat("c1", "G", topics={"T": "*"})).code == 0
    return member


def asked(member: Line, code: int) -> RemotingFrame:
    """The next request of a code that a member gets."""
    while True:
        frame = member.told.pop(0) if member.told else member.frame()
        assert frame is not None
        if frame.code == code:
            return frame


def test_what_a_consumer_does(served: Callable[..., Broker], resting: Path, line: Connected):
    """As `mqadmin consumerStatus` asks, also of a broker that only reads."""
    broker = served(resting)
    operator, member = line(broker), member_of(broker, line)
    number = operator.start(307, {**WHO, "jstackEnable": "true", "AccessKey": "a", "Signature": "s"})
    found = asked(member, 307)
    assert (found.flag, dict(found.fields)) == (0, {**WHO, "jstackEnable": "true"}), "a signature is for the broker"
    assert operator.is_quiet(0.05)
    member.send(request(0, {"x": "y"}, b'{"properties":{}}', opaque=found.opaque, flag=1))
    answer = operator.answer(number)
    assert (answer.code, answer.fields, answer.body) == (0, {"x": "y"}, b'{"properties":{}}')


def test_a_message_is_consumed_at_once(writing: Callable[..., Broker], line: Connected):
    broker = writing()
    operator, member = line(broker), member_of(broker, line)
    operator.ask(310, send("T", 0, "UNIQ_KEY\x01U0\x02"), b"first")
    named = operator.ask(310, send("T", 0, "UNIQ_KEY\x01U1\x02"), b"second").fields["msgId"]
    fields = {**WHO, "topic": "T", "msgId": named.lower()}
    number = operator.start(309, fields)
    found = asked(member, 309)
    assert dict(found.fields) == {**fields, "brokerName": "broker-a", "topicSysFlag": "0", "groupSysFlag": "0"}
    assert StoredMessage(found.body).body == b"second"
    member.send(request(1, None, b"", opaque=found.opaque, flag=1))
    assert operator.answer(number).code == 1
    for wrong in ("x", "7F00000100002A9F0000000000000000", f"{named[:-1]}1"):
        refused = operator.ask(309, {**fields, "msgId": wrong})
        assert refused.code == 1 and "no message by the id" in str(refused.remark)
    assert member.is_quiet(0.05)


@pytest.mark.parametrize("code", [307, 309])
def test_a_consumer_that_does_not_answer(
    writing: Callable[..., Broker], line: Connected, monkeypatch: pytest.MonkeyPatch, code: int
):
    broker = writing()
    operator, member = line(broker), member_of(broker, line)
    fields: dict[str, Any] = {**WHO, "msgId": operator.ask(310, send("T"), b"x").fields["msgId"]}
    nobody = operator.ask(code, {**fields, "clientId": "c2"})
    assert (nobody.code, nobody.remark) == (1, "The Consumer <G> <c2> not online")
    assert operator.ask(code, {**fields, "consumerGroup": "H"}).remark == "The Consumer <H> <c1> not online"
    number = operator.start(code, fields)
    asked(member, code)
    member.close()
    gone = operator.answer(number, 5)
    assert gone.code == 207 and str(gone.remark).startswith("consumer <G> <c1> Timeout: ")
    assert within(lambda: operator.ask(code, fields).code == 1)
    monkeypatch.setattr("flintmq.broker.calls.ANSWER_S", 0.1)
    member = member_of(broker, line)
    assert operator.ask(code, fields).code == 207 and stored(broker).bounds("T", 0) == (0, 1)
