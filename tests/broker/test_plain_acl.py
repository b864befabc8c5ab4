"""plain_acl.yml of RocketMQ 4.x, read as an ACL."""

from pathlib import Path

import pytest

from flintmq.broker import acl
from flintmq.broker.acl import Guard
from flintmq.broker.requests import Refused, Request
from flintmq.errors import UsageError
from flintmq.remoting.frames import RemotingFrame
from tests.broker.guarding import PLAIN, asked_by_bob, signed
from tests.broker.test_clients import FakePeer

DEFAULT = "what the default says"


def plain(path: Path, text: str = PLAIN, default: str = "DENY") -> Guard:
    path.write_text(text.replace("{DEFAULT}", default), encoding="utf-8")
    return Guard(str(path), "C")


@pytest.mark.parametrize("default", ["DENY", "PUB|SUB"])
@pytest.mark.parametrize(
    ("code", "fields", "may"),
    [
        (310, {"b": "topicA"}, False), (310, {"b": "topicB"}, True), (310, {"b": "topicC"}, False),
        (310, {"b": "topicD"}, DEFAULT), (310, {"b": "topicE"}, True), (310, {"b": "topicF"}, False),
        (11, {"topic": "topicD", "consumerGroup": "groupB"}, DEFAULT),
        (11, {"topic": "topicE", "consumerGroup": "groupB"}, False), (105, {"topic": "topicE"}, True),
        (11, {"topic": "topicF", "consumerGroup": "groupB"}, False),
        (11, {"topic": "topicB", "consumerGroup": "groupB"}, True),
        (11, {"topic": "topicC", "consumerGroup": "groupD"}, True),
        (11, {"topic": "topicC", "consumerGroup": "groupA"}, False),
        (11, {"topic": "topicA", "consumerGroup": "groupB"}, False),
        (11, {"topic": "%RETRY%groupD", "consumerGroup": "groupD"}, True),
        (105, {"topic": "topicC"}, True), (105, {"topic": "topicD"}, DEFAULT),
        (17, {"topic": "topicB"}, False), (206, {}, False),
    ],
)  # fmt: skip
def test_the_acl_of_4_x(tmp_path: Path, code: int, fields: dict[str, str], may: bool | str, default: str):
    """Default permissions are only for what is not named; what admins ask needs an admin."""
    guard = plain(tmp_path / "plain_acl.yml", default=default)
    of_user = default != "DENY" if may == DEFAULT else may
    for user, password, allowed in (("RocketMQ", "12345678", of_user), ("rocketmq2", "1234 5678", True)):
        told = RemotingFrame(code, 1, fields=signed(fields, b"", user, password))
        if allowed:
            assert guard.remoting(Request(told, FakePeer(), 479)).frame is told
        else:
            with pytest.raises(Refused, match="User:RocketMQ has no permission"):
                guard.remoting(Request(told, FakePeer(), 479))


@pytest.mark.parametrize(
    ("address", "user", "may"),
    [
        ("10.10.103.7:1", "", True), ("192.168.0.9:1", "", True), ("192.168.1.9:1", "", False),
        ("192.168.1.9:1", "rocketmq2", True), ("192.168.2.1:1", "rocketmq2", True),
        ("192.168.2.2:1", "rocketmq2", False), ("192.168.1.9:1", "RocketMQ", False),
        ("192.168.7.7:1", "white", True), ("192.168.7.8:1", "white", False),
    ],
)  # fmt: skip
def test_white_addresses_of_4_x(tmp_path: Path, address: str, user: str, may: bool):
    guard, peer = plain(tmp_path / "plain_acl.yml"), FakePeer()
    peer.address = address
    request = Request(RemotingFrame(17, 1, fields={"topic": "T", "AccessKey": user}), peer, 479)
    if may:
        assert guard.remoting(request).frame is request.frame
    else:
        with pytest.raises(Refused):
            guard.remoting(request)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("accounts: [a]", "line 1 has a value of a form that is not read here"),
        ("accounts:\n  - secret12", "an account has no names with values"),
        ("accounts:\n  - accessKey: a\n   secretKey: b", "line 3 belongs to nothing"),
        ("accounts:\n  - accessKey: a\n      secretKey: b", "line 3"),
        ("accounts:\n  - accessKey: &a secret12", "line 2 has a value"),
        ("accounts:\n  - accessKey: 'a", "line 2 has a value"),
        ("accounts:\n  - accessKey: a\n    admin: true", "a password is missing"),
        ("accounts:\n  - accessKey: a\n    secretKey: b\n    topicPerms:\n    - t", "'t': there is none of PUB"),
        ("accounts:\n  - accessKey: a\n    secretKey: b\n    topicPerms:\n    - top*=PUB", "a name of 4.x has no *"),
        ("accounts:\n  - accessKey: a\n    secretKey: b\n    groupPerms:\n    - '*=DENY'", "a name of 4.x has no *"),
        ("accounts:\n  - accessKey: a\n    secretKey: b\n    whiteRemoteAddress: 10.0.{1,2}.*", "is no address"),
        ("- a\n- b", "belongs to nothing"),
        ("accounts", "line 1 is neither NAME: VALUE nor - VALUE"),
        ("\n".join(" " * depth + "a:" for depth in range(20)), "line 10 is nested too deep"),
        ("\x00", "line 1 is neither"),
    ],
)  # fmt: skip
def test_files_of_4_x_that_are_none(tmp_path: Path, text: str, words: str):
    with pytest.raises(UsageError) as refused:
        plain(tmp_path / "plain_acl.yaml", text)
    assert words in str(refused.value) and "secret12" not in str(refused.value)


ODD = """\
accounts:
  - accessKey: bob
    secretKey: onlybilling
    defaultTopicPerm: PUB|SUB
    defaultGroupPerm: {GROUPS}
    topicPerms:
      - "%RETRY%allowed=SUB"
      - "%RETRY%denied=DENY"
      - SCHEDULE_TOPIC_XXXX=DENY
      - OFFSET_MOVED_EVENT=SUB
      - rmq_sys_TRACE_DATA_a=PUB
      - rmq_sys_TRACE_DATA_b=SUB
      - lower=pub
    groupPerms:
      - "%RETRY%other=SUB"
  - accessKey: alice
    secretKey: secret12
    admin: True
"""
"""What 4.x takes, too."""


@pytest.mark.parametrize("groups", ["DENY", "SUB", "sub"])
@pytest.mark.parametrize(
    ("code", "fields", "may"),
    [
        (38, {"consumerGroup": "allowed"}, True), (38, {"consumerGroup": "denied"}, False),
        (38, {"consumerGroup": "other"}, DEFAULT), (310, {"b": "%RETRY%allowed"}, True),
        (105, {"topic": "SCHEDULE_TOPIC_XXXX"}, False), (105, {"topic": "OFFSET_MOVED_EVENT"}, False),
        (310, {"b": "rmq_sys_TRACE_DATA_a"}, True), (310, {"b": "rmq_sys_TRACE_DATA_b"}, False),
        (310, {"b": "lower"}, False), (310, {"b": "any"}, True),
    ],
)  # fmt: skip
def test_odd_rules_of_4_x(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, code: int, fields: dict[str, str], may: bool | str, groups: str
):
    """A permission that is none is DENY, as there; what would do nothing here is left out, and allows nothing."""
    guard = plain(tmp_path / "plain_acl.yml", ODD.replace("{GROUPS}", groups))
    if may is True or (may == DEFAULT and groups == "SUB"):
        assert guard.remoting(asked_by_bob(code, fields)).frame.code == code
    else:
        with pytest.raises(Refused, match="User:bob has no permission"):
            guard.remoting(asked_by_bob(code, fields))
    of_alice = RemotingFrame(206, 1, fields=signed({}))
    assert guard.remoting(Request(of_alice, FakePeer(), 479)).frame is of_alice, "an admin"
    left_out = "left out: '{}' has no rights of its own, but those of a group, or of the cluster"
    assert [record.getMessage() for record in caplog.records] == [
        "Topic 'lower': the permission 'pub' is read as DENY",
        *(["Group '*': the permission 'sub' is read as DENY"] if groups == "sub" else []),
        left_out.format("Topic:OFFSET_MOVED_EVENT"),
        left_out.format("Group:%RETRY%other"),
    ]


def test_an_empty_file_of_4_x_knows_nobody(tmp_path: Path):
    path = tmp_path / "plain_acl.yml"
    for text in ("", "accounts:\n", "---\n# nothing\n"):
        path.write_text(text, encoding="utf-8")
        assert acl.read(str(path)).users == {}
