"""The file of an ACL: changes, and files that are none."""

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.broker import Broker, acl
from flintmq.broker.acl import Guard
from flintmq.errors import UsageError
from tests.broker.guarding import BOB, PLAIN, Connected, Guarded, rule, users
from tests.broker.talk import send
from tests.support.threads import within


def test_a_file_that_changes(
    guarded: Guarded, by: Connected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """It counts from the next request on; one that is broken, or gone, changes nothing, and the log says so."""
    monkeypatch.setattr("flintmq.broker.acl.LOOK_S", 0.01)
    caplog.set_level(logging.INFO, "flintmq.broker")
    broker = guarded()
    user, path = by(broker, *BOB), tmp_path / "acl.json"

    def put(text: str) -> None:
        path.with_suffix(".new").write_text(text, encoding="utf-8")
        path.with_suffix(".new").replace(path)

    def code() -> int:
        return user.ask(310, send("T"), b"x").code

    def count(words: str) -> int:
        return sum(words in record.getMessage() for record in caplog.records)

    assert code() == 16
    put(users(rule("Topic:T", "Pub")))
    assert within(lambda: code() == 0) and count("acl.json: the ACL is read again: 2 users") == 1
    put('{"users": [')
    assert within(lambda: count("the ACL of before counts on") == 1) and code() == 0
    path.unlink()
    assert within(lambda: count("the ACL of before counts on") == 2) and code() == 0
    assert count("acl.json: is not there") == 1
    put(users())
    assert within(lambda: code() == 16)
    monkeypatch.setattr("flintmq.broker.acl.LOOK_S", 0.5)
    told = users(rule("Topic:T", "Pub"), rule("Topic:U", "Pub", decision="Deny"))
    before = count("the ACL is read again") + count("the ACL of before counts on")
    for upto in range(0, len(told), 8):  # an editor that writes it slowly
        path.write_text(told[:upto], encoding="utf-8")
        time.sleep(0.01)
        assert code() == 16 and count("the ACL is read again") + count("the ACL of before counts on") == before
    path.write_text(told, encoding="utf-8")
    assert within(lambda: code() == 0)
    assert not any(word in record.getMessage() for record in caplog.records for word in ("onlybilling", "secret12"))


def test_a_file_of_4_x_that_is_emptied(
    writing: Callable[..., Broker], by: Connected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):  # fmt: skip
    """It is read as one without accounts, and that is no ACL to go on with; neither is one with an old time."""
    monkeypatch.setattr("flintmq.broker.acl.LOOK_S", 0.01)
    path = tmp_path / "plain_acl.yml"
    path.write_text(PLAIN.replace("{DEFAULT}", "DENY"), encoding="utf-8")
    user = by(writing(acl=path), "RocketMQ", "12345678")
    assert user.ask(310, send("topicB"), b"x").code == 0
    path.write_text("", encoding="utf-8")
    assert within(lambda: "plain_acl.yml: it has no accounts" in caplog.text)
    assert user.ask(310, send("topicB"), b"x").code == 0
    before = path.stat()
    path.write_text(PLAIN.replace("{DEFAULT}", "PUB"), encoding="utf-8")
    assert within(lambda: user.ask(310, send("topicD"), b"x").code == 0)
    found = path.stat()
    path.write_text(PLAIN.replace("{DEFAULT}", "SUB"), encoding="utf-8")
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_ino) == (found.st_size, found.st_ino) and before.st_size == 0
    assert within(lambda: user.ask(310, send("topicD"), b"x").code == 16), "by the time of its change alone"


ALICE = '"username":"alice","password":"secret12"'
ALL, DENY = '"actions":["All"]', '"decision":"Deny"'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no ACL"),
        ("[]", "no ACL"),
        ('{"users":{}}', "users is no list"),
        ('{"users":["secret12"]}', "a user is no object"),
        ('{"user":[]}', "'user' is none of trusted, users"),
        ('{"users":[{"username":"alice"}]}', "a password is missing"),
        ('{"users":[{"password":"secret12"}]}', "a username is missing"),
        ('{"users":[{"username":"","password":"secret12"}]}', "a username is missing"),
        ('{"users":[{"username":"alice","password":12345678}]}', "a password is missing"),
        ('{"users":[{ALICE,"admin":true}]}', "'admin' is none of password, rules, trusted, type, username"),
        ('{"users":[{ALICE,"type":"root"}]}', "the type of 'alice' is super or normal, not 'root'"),
        ('{"users":[{ALICE},{ALICE}]}', "two users have one name"),
        ('{"users":[{ALICE,"rules":[{"resource":"T"}]}]}', "the resource 'T' is none such as"),
        ('{"users":[{ALICE,"rules":[{"resource":"Topic:"}]}]}', "the resource 'Topic:' is none such as"),
        ('{"users":[{ALICE,"rules":[{"resource":"Queue:T"}]}]}', "the resource 'Queue:T' is none such as"),
        ('{"users":[{ALICE,"rules":[{"actions":["Pub"]}]}]}', "a resource is missing"),
        ('{"users":[{ALICE,"rules":[{"resource":"*","actions":["Push"]}]}]}', "the action 'Push' is none of Pub, "),
        ('{"users":[{ALICE,"rules":[{"resource":"*","actions":"Pub"}]}]}', "actions is no list"),
        ('{"users":[{ALICE,"rules":[{"resource":"*","decision":"Maybe"}]}]}', "neither Allow nor Deny"),
        ('{"users":[{ALICE,"rules":[{"resource":"*","actions":["All"],"sources":["a.b"]}]}]}', "'a.b' is no address"),
        ('{"users":[{ALICE,"rules":[{"resource":"*","actions":["All"],"sources":["10.0.0.1-9"]}]}]}', "is no address"),
        ('{"users":[{ALICE,"rules":[{"resource":"*","source":[]}]}]}', "'source' is none of"),
        ('{"users":[{ALICE,"rules":[{"resource":"Topic:T","decision":"Deny"}]}]}', "'Topic:T' has no actions"),
        ('{"users":[{ALICE,"rules":[{"resource":"Topic:T","actions":[]}]}]}', "'Topic:T' has no actions"),
        ('{"users":[{ALICE,"rules":[{"resource":"Topic:sal*ries",ALL}]}]}', "topic contains illegal characters"),
        ('{"users":[{ALICE,"rules":[{"resource":"Topic: salaries",ALL}]}]}', "topic contains illegal characters"),
        ('{"users":[{ALICE,"rules":[{"resource":"Group:g.*",ALL}]}]}', "group contains illegal characters"),
        ('{"users":[{ALICE,"rules":[{"resource":"Topic:%RETRY%g",ALL}]}]}', "'Topic:%RETRY%g' has no rights of its"),
        ('{"users":[{ALICE,"rules":[{"resource":"Group:%RETRY%*",ALL}]}]}', "'Group:%RETRY%*' has no rights of its"),
        ('{"users":[{ALICE,"rules":[{"resource":"Topic:%R*",ALL,DENY}]}]}', "'Topic:%R*' has no rights of its own"),
        ('{"users":[{ALICE,"rules":[{"resource":"Topic:SCHEDULE_TOPIC_XXXX",ALL}]}]}', "or of the cluster"),
        ('{"trusted":[null]}', "'None' is no address"),
    ],
)  # fmt: skip
def test_files_that_are_none(tmp_path: Path, text: str, words: str):
    path = tmp_path / "acl.json"
    path.write_text(text.replace("ALICE", ALICE).replace("ALL", ALL).replace("DENY", DENY), encoding="utf-8")
    with pytest.raises(UsageError) as refused:
        acl.read(str(path))
    assert str(refused.value).startswith(f"{path}: no ACL: ") and words in str(refused.value)
    assert "secret12" not in str(refused.value)


def test_a_broker_does_not_start_without_its_acl(tmp_path: Path, writing: Callable[..., Broker]):
    with pytest.raises(UsageError, match=r"acl\.json: is not there"):
        writing(acl=tmp_path / "acl.json")
    (tmp_path / "acl.json").write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(UsageError, match="has more than 1048576 bytes"):
        writing(acl=tmp_path / "acl.json")
    assert not (tmp_path / "store").exists()


def test_a_file_that_lets_nobody_in_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path, words = tmp_path / "acl.json", "all requests are refused"
    path.write_text('{"trusted": ["10.0.0.1"]}', encoding="utf-8")
    Guard(str(path), "C")
    assert words not in caplog.text
    path.write_text("{}", encoding="utf-8")
    Guard(str(path), "C")
    assert caplog.text.count(words) == 1
