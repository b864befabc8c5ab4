"""Users, rules and signed requests for brokers with an ACL."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flintmq.broker import Broker, acl
from flintmq.broker.acl import Guard
from flintmq.broker.requests import Request
from flintmq.remoting.frames import RemotingFrame
from tests.broker.talk import Line
from tests.broker.test_clients import FakePeer

Guarded = Callable[..., Broker]
Connected = Callable[..., Line]
Rules = list[dict[str, Any]]


def signed(
    fields: Mapping[str, Any] | None, body: bytes = b"", user: str = "alice", password: str = "secret12"
) -> dict[str, str]:
    """Fields with a user's signature."""
    told = {**{name: str(value) for name, value in (fields or {}).items()}, "AccessKey": user}
    content = "".join(told[name] for name in sorted(told)).encode() + body
    made = hmac.new(password.encode(), content, hashlib.sha1).digest()
    return {**told, "Signature": base64.b64encode(made).decode()}


class SignedLine(Line):
    """A connection whose requests are signed."""

    def __init__(self, address: str, user: str = "alice", password: str = "secret12") -> None:
        super().__init__(address)
        self.user, self.password = user, password

    def start(self, code: int, fields: Mapping[str, Any] | None = None, body: bytes = b"", *, flag: int = 0) -> int:
        return super().start(code, signed(fields, body, self.user, self.password), body, flag=flag)


def rule(resource: str, *actions: str, **more: Any) -> dict[str, Any]:
    return {"resource": resource, "actions": [*actions], **more}


def users(*rules: dict[str, Any], **more: Any) -> str:
    """An ACL: alice may do anything, bob what these rules say."""
    bob = {"username": "bob", "password": "onlybilling", "rules": [*rules], **more}
    return json.dumps({"users": [{"username": "alice", "password": "secret12", "type": "Super"}, bob]})


BOB = ("bob", "onlybilling")
FIELDS = {"topic": "T", "b": "T", "consumerGroup": "G", "group": "G", "groupName": "G"}
BODY = json.dumps({
    "topic": "T", "consumerGroup": "G", "groupName": "G", "acks": [{"c": "G", "t": "T"}],
    "consumerDataSet": [{"groupName": "G", "subscriptionDataSet": [{"topic": "T"}, {"topic": "%RETRY%G"}]}],
}).encode()  # fmt: skip


def guard_of(path: Path, *rules: dict[str, Any], **more: Any) -> Guard:
    path.write_text(users(*rules, **more), encoding="utf-8")
    return Guard(str(path), "C")


def asked_by_bob(code: int, fields: Mapping[str, Any] = FIELDS, body: bytes = BODY) -> Request:
    return Request(RemotingFrame(code, 1, fields=signed(fields, body, *BOB), body=body), FakePeer(), 479)


def lose(broker: Broker, *rules: dict[str, Any], **more: Any) -> None:
    """Let another ACL count, as if it were read again."""
    path = Path(broker._now._guard._path)
    path.write_text(users(*rules, **more), encoding="utf-8")
    broker._now._guard._acl = acl.read(str(path))


PLAIN = """\
# As RocketMQ 4.x ships it.
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - '192.168.0.0/24'

accounts:
  - accessKey: RocketMQ   # its key
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: {DEFAULT}
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
      - topicE = PUB
      - topicF =DENY
    groupPerms:
    - groupA=DENY
    - groupB=PUB|SUB
  - accessKey: rocketmq2
    secretKey: "1234 5678"
    whiteRemoteAddress: 192.168.1.*,192.168.2.1
    admin: true
  - accessKey: white
    secretKey: 12345678
    whiteRemoteAddress: 192.168.7.7
dataVersion:
- counter: 1
  stateVersion: 0
"""
