"""Rights of an ACL that are taken away while something is held."""

import pytest

from flintmq.broker.needs import of_topic
from tests.broker import talk
from tests.broker.guarding import BOB, Connected, Guarded, lose, rule
from tests.broker.talk import pull, send
from tests.broker.test_send import stored
from tests.broker.test_transactions import heartbeat as of_producers
from tests.support.threads import within


@pytest.mark.parametrize("code", [11, 200050])
@pytest.mark.parametrize("how", ["rule", "user", "password"])
def test_what_is_held_goes_on_by_the_acl_of_now(guarded: Guarded, by: Connected, code: int, how: str):
    given = rule("Topic:T", "Sub"), rule("Group:G", "Sub")
    broker = guarded(*given)
    owner, user = by(broker), by(broker, *BOB)
    assert owner.ask(310, send("T"), b"x").code == 0 and owner.ask(200, body=b'{"groupName":"G"}').code == 0
    assert stored(broker).wait_dispatched(60)
    waits = {**talk.pop(), "pollTime": 9000, "initMode": 1} if code == 200050 else pull("T", 0, 1, sysFlag=6)
    assert code == 11 or user.ask(code, {**waits, "pollTime": 0}).code == 0
    number = user.start(code, {**waits, "suspendTimeoutMillis": 9000})
    assert within(lambda: broker._now._rooms.held.count == 1)
    if how == "rule":
        lose(broker, rule("Group:G", "Sub"))
    elif how == "user":
        lose(broker, *given, username="robert")
    else:
        lose(broker, *given, password="another")
    assert owner.ask(310, send("T"), b"secret").code == 0
    refused = user.answer(number)
    assert (refused.code, refused.body) == (16, b"")


@pytest.mark.parametrize("kind", ["normal", "super"])
def test_who_may_not_send_any_more_is_not_asked(guarded: Guarded, by: Connected, kind: str):
    """Also one who may do anything when the group was named."""
    broker = guarded()
    lose(broker, rule("Topic:T", "Pub"), type=kind)
    user, need = by(broker, *BOB), of_topic("T", "Pub")
    assert user.ask(34, body=of_producers("c", "Shop")).code == 0
    assert broker._now._clients.producer("Shop", need) is not None
    lose(broker, rule("Topic:mine", "Pub"))
    assert broker._now._clients.producer("Shop", need) is None
