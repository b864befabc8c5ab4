"""What users of a broker with an ACL may do, and what they get of others."""

import time

import pytest

from flintmq.broker.clients import Clients
from flintmq.message import StoredMessage
from tests.broker import talk
from tests.broker.guarding import BOB, Connected, Guarded, lose, rule
from tests.broker.talk import Line, heartbeat, pull, records, send
from tests.broker.test_clients import FakePeer
from tests.broker.test_consumers import WHO, asked
from tests.broker.test_replies import ask, of_reply, pushed, take
from tests.broker.test_send import stored
from tests.broker.test_transactions import COMMIT, OFTEN, begun, end, prepared
from tests.broker.test_transactions import heartbeat as of_producers
from tests.support.threads import within


def test_a_user_does_what_the_rules_say(guarded: Guarded, by: Connected):
    broker = guarded(rule("Topic:acl-*", "Sub"), rule("Group:*", "Sub"))
    owner, reader = by(broker), by(broker, *BOB)
    assert owner.ask(310, send("acl-t"), b"x").code == 0 and stored(broker).wait_dispatched(60)
    assert reader.ask(34, body=heartbeat("c", "G", topics={"acl-t": "*", "%RETRY%G": "*"})).code == 0
    assert [StoredMessage(one).body for one in records(reader.ask(11, pull("acl-t")).body)] == [b"x"]
    assert reader.ask(15, {**pull("acl-t"), "commitOffset": 1}).code == 0
    assert reader.ask(106).code == 0 and reader.ask(105, {"topic": "TBW102"}).code == 0
    refused = reader.ask(310, send("acl-t"), b"y")
    words = "User:bob has no permission to access Topic:acl-t from 127.0.0.1, no matched policies."
    assert (refused.code, refused.remark) == (16, words)
    assert reader.ask(34, body=heartbeat("c", "G", topics={"other": "*"})).code == 16
    assert reader.ask(21).code == 16 == reader.ask(207, {"groupName": "G"}).code
    number = reader.start(11, pull("acl-t", 0, 1, sysFlag=6, suspendTimeoutMillis=9000))
    assert reader.is_quiet(0.05)
    assert owner.ask(310, send("acl-t"), b"y").code == 0
    assert [StoredMessage(one).body for one in records(reader.answer(number).body)] == [b"y"], "a held pull"


def test_messages_of_other_topics_are_not_given(guarded: Guarded, by: Connected):
    """By a place in the log anybody could name any message: its own topic counts."""
    broker = guarded(rule("Topic:mine", "Sub"), rule("Group:*", "Sub"))
    owner, user, member = by(broker), by(broker, *BOB), by(broker)
    ids = {topic: owner.ask(310, send(topic), topic.encode()).fields["msgId"] for topic in ("mine", "other")}
    assert owner.ask(200, body=b'{"groupName":"G"}').code == 0
    assert member.ask(34, body=heartbeat("c1", "G", topics={"mine": "*"})).code == 0
    for topic, code in (("mine", 0), ("other", 16)):
        offset = int(ids[topic][16:], 16)
        seen = user.ask(33, {"offset": offset, "topic": "mine"})
        assert (seen.code, bool(seen.body)) == (code, not code)
        back = {"offset": offset, "group": "G", "delayLevel": 0, "originTopic": "mine"}
        assert user.ask(36, back).code == code
        number = user.start(309, {**WHO, "topic": "mine", "msgId": ids[topic]})
        if code:
            assert user.answer(number).code == code
    found = asked(member, 309)
    assert StoredMessage(found.body).body == b"mine" and member.is_quiet(0.05)
    assert stored(broker).bounds("SCHEDULE_TOPIC_XXXX", 2) == (0, 1), "one of the two waits for its retry"


def test_transactions_of_other_topics_are_not_ended(guarded: Guarded, by: Connected):
    broker = guarded(rule("Topic:mine", "Pub"))
    owner, user = by(broker), by(broker, *BOB)
    fields = begun(owner)
    refused = end(user, fields, COMMIT, topic="mine")
    assert refused.code == 16 and "Topic:T" in str(refused.remark)
    assert stored(broker).bounds("T", 2) == (0, 0)
    assert end(owner, fields, COMMIT).code == 0


def test_who_may_not_send_is_not_asked_for_transactions(guarded: Guarded, by: Connected):
    """What is asked has the message in it, and everybody may say to be of a group of producers."""
    broker = guarded(rule("Topic:mine", "Pub"), config=OFTEN)
    owner, user = by(broker), by(broker, *BOB)
    assert user.ask(34, body=of_producers("c2", "Shop")).code == 0
    for topic, client in (("T", owner), ("mine", user), ("mine", user)):  # three: two members take turns
        half = send(topic, 2, prepared(), sys_flag=4, born=int(time.time() * 1000))
        assert client.ask(310, half, topic.encode()).code == 0
    assert {StoredMessage(asked(owner, 39).body).topic for _ in range(6)} >= {"T"}
    assert {StoredMessage(asked(user, 39).body).topic for _ in range(4)} == {"mine"}


def test_topics_in_which_those_of_others_wait(guarded: Guarded, by: Connected):
    """A user with each topic but one reads its messages in none of RocketMQ's own, and puts none there."""
    broker = guarded(
        rule("Topic:*", "All"), rule("Group:*", "Sub"), rule("Topic:secret", "All", decision="Deny"),
        rule("Cluster:*", "Get", "List"),
    )  # fmt: skip
    owner, user = by(broker), by(broker, *BOB)
    later = f"TIMER_DELIVER_MS\x01{int(time.time() * 1000) + 60_000}\x02"
    places = []
    for text, sys_flag in ((later, 0), ("DELAY\x015\x02", 0), (prepared(), 4)):
        sent = owner.ask(310, send("secret", 0, text, sys_flag=sys_flag), b"hidden")
        assert sent.code == 0
        places.append(int(sent.fields["msgId"][16:], 16))
    for topic, queue_id in (("rmq_sys_wheel_timer", 0), ("SCHEDULE_TOPIC_XXXX", 4), ("RMQ_SYS_TRANS_HALF_TOPIC", 0)):
        assert records(owner.ask(11, pull(topic, queue_id)).body), "it waits there"
        for code, fields in ((11, pull(topic, queue_id)), (200050, talk.pop(topic)), (12, {"topic": topic})):
            refused = user.ask(code, fields)
            assert refused.code == 16 and "Cluster:DefaultCluster" in str(refused.remark) and not refused.body
    assert [user.ask(33, {"offset": place}).code for place in places] == [16, 16, 16]
    for topic in ("RMQ_SYS_TRACE_TOPIC", "BenchmarkTest", "DefaultCluster_REPLY_TOPIC"):
        assert user.ask(310, send(topic), b"x").code == 0


def test_replies_need_the_topic_of_replies(guarded: Guarded, by: Connected):
    """Whatever topic they name: they go to a client."""
    broker = guarded(rule("Topic:mine", "Pub"), rule("Topic:DefaultCluster_REPLY_TOPIC", "Pub"))
    asker, user = by(broker), by(broker, *BOB)
    assert asker.ask(34, body=of_producers("asker", "P")).code == 0
    reply = send("mine", 0, "REPLY_TO_CLIENT\x01asker\x02")
    long = {"topic": "mine", "queueId": 0, "bornTimestamp": 1, "producerGroup": "P", "properties": reply["i"]}
    number = user.start(325, reply, b"right")
    talk_frame = asker.told.pop(0) if asker.told else asker.frame()
    assert talk_frame is not None and (talk_frame.code, talk_frame.body) == (326, b"right")
    asker.send(talk.request(0, opaque=talk_frame.opaque, flag=1))
    assert user.answer(number).code == 0
    lose(broker, rule("Topic:mine", "Pub"))
    for code, fields in ((325, reply), (324, long)):
        refused = user.ask(code, fields, b"forged")
        assert refused.code == 16 and "Topic:DefaultCluster_REPLY_TOPIC" in str(refused.remark)
    assert asker.is_quiet(0.05) and stored(broker).bounds("mine", 0) == (0, 1)


@pytest.mark.parametrize("how", ["heartbeat", "request"])
@pytest.mark.parametrize("first", ["alice", "bob"])
def test_a_client_id_of_two_users_gets_no_reply(guarded: Guarded, by: Connected, first: str, how: str):
    """Ids are no secret, and who is there first may be the wrong one. Once one has gone the other gets it."""
    broker = guarded(rule("Topic:T", "Pub"))
    one, two, replier = by(broker), by(broker, *BOB), by(broker)
    if first == "bob":
        one, two = two, one
    assert one.ask(34, body=of_producers("asker", "P")).code == 0
    replied(replier, one)
    if how == "heartbeat":
        assert two.ask(34, body=of_producers("asker", "P")).code == 0
    else:
        ask(two)
    assert one.ask(34, body=of_producers("asker", "P")).code == 0
    refused = replier.ask(325, of_reply(), b"secret")
    assert (refused.code, refused.remark) == (1, "push reply message fail, <asker> is the client id of 2 users.")
    assert one.is_quiet(0.05) and two.is_quiet(0.05)
    one.close()
    assert within(lambda: broker.stats().connections == 2)
    replied(replier, two)


def test_another_connection_of_a_user_takes_the_place_of_a_client(guarded: Guarded, by: Connected):
    """Another user's that forwards the client's request does not, and is no second user of it."""
    broker = guarded(rule("Topic:T", "Pub"))
    old, new, forwarder, replier = by(broker), by(broker), by(broker, *BOB), by(broker)
    for client, name in ((old, "asker"), (forwarder, "own"), (new, "asker")):
        assert client.ask(34, body=of_producers(name, "P")).code == 0
    ask(forwarder)
    replied(replier, new)
    assert old.is_quiet(0.05) and forwarder.is_quiet(0.05)
    replied(replier, forwarder, "own")


def test_a_connection_that_has_ended_is_no_client():
    """A send may wait for its topic, and its client be gone by then."""
    clients, peer = Clients(), FakePeer()
    clients.note_asker("asker", peer)
    assert clients.find("asker") == [peer]
    clients.left(peer)
    peer.is_closed = True
    clients.note_asker("asker", peer)
    assert clients.find("asker") == []


def replied(replier: Line, client: Line, name: str = "asker") -> None:
    """A reply to this client id gets to this client."""
    number = replier.start(325, of_reply(name), b"answer")
    take(client, pushed(client))
    assert replier.answer(number).code == 0
