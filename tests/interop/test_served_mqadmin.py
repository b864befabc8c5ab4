"""mqadmin, RocketMQ's own command line, of a store that is served read-only: what an operator asks is answered."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compat.stores import Golden
from tests.interop.served import Served, files, served
from tests.interop.stock_clients import Client, clients

pytestmark = pytest.mark.slow

TOPIC, GROUP = "Trade", "TradeGroup"  # of the store, which a broker wrote
ONLINE = "Online"  # a group that consumes meanwhile
MESSAGE_ID = "FD000000000000000000000000000002520230946E096BA244E90016"  # of the first message of queue 0
WRITES = "serves .* read-only: nothing can be sent or changed here"


@pytest.fixture(scope="module", params=["java-5.3.3", "java-5.5.0"])
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with clients(request.param, tmp_path_factory.mktemp("java")) as running:
        yield running


@pytest.fixture(scope="module")
def broker(java: Client, golden: Callable[[str], Golden], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A broker's directory of 5.5.0 is served, and one group consumes; nothing is written."""
    folder = tmp_path_factory.mktemp("broker")
    root = golden("config550").copy(folder)
    before = files(root)
    with served(root, folder) as running:
        java.consume(ONLINE, running.address, [TOPIC])
        assert len(java.await_messages(ONLINE, 36)) == 36
        yield running
        java.stop(ONLINE)
    assert files(root) == before


ANSWERED = {
    "clusterList": [r"DefaultCluster +broker-a +0 +127\.0\.0\.1:\d+ +FlintMQ"],
    "topicList": [rf"^{TOPIC}$", rf"^%RETRY%{ONLINE}$"],
    "topicList -c": [rf"DefaultCluster +{TOPIC} +.*Group"],
    f"topicClusterList -t {TOPIC}": ["^DefaultCluster$"],
    f"topicRoute -t {TOPIC}": [r'"brokerName":"broker-a"', r'"perm":6', r'"readQueueNums":4'],
    f"topicStatus -t {TOPIC}": [r"broker-a +0 +0 +9 +2026-11-21", r"broker-a +3 +0 +9 "],
    "consumerProgress": [rf"^{GROUP} +0 +OFFLINE +0 +10", rf"^{ONLINE} +1 +V5_\d_\d +PUSH"],
    f"consumerProgress -g {GROUP}": [rf"{TOPIC} +broker-a +1 +11 +8 +3 ", "Consume Diff Total: 10"],
    f"consumerProgress -g {ONLINE}": [rf"{TOPIC} +broker-a +1 +11 "],
    f"consumerConnection -g {ONLINE}": [r"JAVA +V5_\d_\d", rf"^{TOPIC} +\*"],
    "brokerStatus -b {address}": [r"commitLogMaxOffset +: 36640", r"brokerVersionDesc +: FlintMQ .*read-only"],
    "brokerStatus -c DefaultCluster": [r"commitLogMinOffset +: 0"],
    f"statsAll -t {TOPIC}": [rf"{TOPIC} +{GROUP} +10 ", rf"{TOPIC} +{ONLINE} +\d+ +0\.00 +[\d.]+ +0 +36\b"],
    f"queryMsgByKey -t {TOPIC} -k o59": [MESSAGE_ID],
    f"queryMsgById -t {TOPIC} -i {MESSAGE_ID}": [r"Keys: +\[o59\]", r"Queue Offset: +0$"],
    f"queryMsgByUniqueKey -t {TOPIC} -i {MESSAGE_ID}": [r"Keys: +\[o59\]", r"CommitLog Offset: +5257"],
    f"queryMsgByOffset -b broker-a -t {TOPIC} -i 0 -o 0": [rf"UNIQ_KEY={MESSAGE_ID}"],
    f"printMsgByQueue -t {TOPIC} -a broker-a -i 0 -p true": [rf"MSGID: {MESSAGE_ID} "],
    f"consumeMessage -t {TOPIC} -b broker-a -i 0 -o 0 -c 2": ["Consume ok", rf"MSGID: {MESSAGE_ID} "],
    "getBrokerConfig -b {address}": [r"mappedFileSizeCommitLog +=  65536", r"brokerName +=  broker-a"],
    f"getConsumerConfig -g {GROUP}": [r"retryMaxTimes +=  16"],
    f"allocateMQ -t {TOPIC} -i 127.0.0.1": [r'"queueId":3,"topic":"Trade"'],
    f"cloneGroupOffset -s {GROUP} -d AuditGroup -t {TOPIC} -o true": ["clone group offset success"],
}
REFUSED = {
    "updateTopic -c DefaultCluster -t New": WRITES,
    f"deleteTopic -c DefaultCluster -t {TOPIC}": WRITES,
    f"updateSubGroup -c DefaultCluster -g {GROUP}": WRITES,
    f"deleteSubGroup -c DefaultCluster -g {GROUP}": WRITES,
    "updateBrokerConfig -b {address} -k x -v y": WRITES,
    f"resetOffsetByTime -g {GROUP} -t {TOPIC} -s 0": WRITES,
    f"cloneGroupOffset -s {GROUP} -d Other -t {TOPIC} -o true": "Group Other not exist!",
    f"sendMessage -t {TOPIC} -p x": WRITES,
    "cleanExpiredCQ -b {address}": "request type 306 not supported",
    "haStatus -b {address}": "request type 907 not supported",
}


def asked(java: Client, broker: Served, line: str) -> str:
    name, *words = line.format(address=broker.address).split()
    return str(java.ask("admin", broker.address, words=[name, "-n", broker.address, *words])["text"])


@pytest.mark.parametrize("line", ANSWERED)
def test_what_an_operator_asks(java: Client, broker: Served, line: str) -> None:
    text = asked(java, broker, line)
    assert "Exception" not in text
    for pattern in ANSWERED[line]:
        assert re.search(pattern, text, re.MULTILINE), text


@pytest.mark.parametrize("line", REFUSED)
def test_what_it_cannot_do_it_says(java: Client, broker: Served, line: str) -> None:
    assert re.search(REFUSED[line], asked(java, broker, line))


def test_a_cloned_group_goes_on(java: Client, broker: Served, tmp_path: Path) -> None:
    """What mqadmin commits for a group counts, as long as the broker lives."""
    asked(java, broker, f"cloneGroupOffset -s {GROUP} -d AuditGroup -t {TOPIC} -o true")
    where = {"group": "AuditGroup", "topic": TOPIC, "queue": 1}
    assert java.ask("committed", broker.address, **where) == {"offset": 8}
