"""What slaves, followers and mqadmin ask a broker for, beside what recorded brokers of Java answered."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker import Broker
from flintmq.format import config_json
from flintmq.ha import metadata
from flintmq.store.view import open_store
from flintmq.testing import slow_read, write_store
from flintmq.testing.write_store import Written
from tests.broker.talk import Line, heartbeat
from tests.compat.replication import VERSIONS, GoldenMaster
from tests.compat.stores import Golden
from tests.remoting.remoting_peer import recorded, strict
from tests.support.threads import within

Serve = Callable[..., Broker]
Connected = Callable[[Broker], Line]
TOPICS, CONFIG, RUNTIME, OFFSETS, DELAYS, GROUPS, MODES = 21, 26, 28, 43, 45, 201, 402
STATS, PROGRESS, COMMIT, HEARTBEAT = 202, 208, 15, 34
TOPIC, GROUPS_OF = 351, 300
FILE_SIZE = 1 << 20


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write_store(
        tmp_path_factory.mktemp("tables") / "shop", 60, topics=["Orders"], queues=2, commit_log_file_size=FILE_SIZE
    )


@pytest.fixture(scope="module", params=VERSIONS)
def master(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GoldenMaster:
    """A store as a recorded broker of Java left it."""
    return GoldenMaster(request.param, tmp_path_factory.mktemp("tables"))


def lines_of(body: bytes) -> dict[str, str]:
    return dict(line.split("=", 1) for line in body.decode().splitlines())


def by_queue(body: bytes) -> tuple[dict[tuple[str, int], dict[str, int]], dict[str, Any]]:
    """(topic, queue) -> entry of a table whose keys are objects, and the rest of the answer."""
    place = r'\{"brokerName":"([^"]*)","queueId":(\d+),"topic":"([^"]*)"\}:'
    told = json.loads(re.sub(place, r'"\3 \2 \1":', body.decode()))
    entries = {(key.split()[0], int(key.split()[1])): entry for key, entry in told.pop("offsetTable").items()}
    return entries, told


def test_how_far_the_timer_is(served: Serve, golden: Callable[[str], Golden], resting: Path, line: Connected):
    """The numbers of `timercheck`, as TimerCheckpoint.encode writes them; zeros where there is none."""
    store = golden("timer").path
    wanted = (store / "config/timercheck").read_bytes()[:56]
    answer = line(served(store)).ask(60)
    assert (answer.code, answer.body) == (0, wanted) and any(wanted)
    assert line(served(resting)).ask(60).body == bytes(56)


# -- tables of config/, as Java answers them ---------------------------------------------------------------------------


@pytest.mark.parametrize("code", [TOPICS, GROUPS, OFFSETS, DELAYS, MODES])
def test_a_javas_store_is_answered_as_java_answers(served: Serve, master: GoldenMaster, line: Connected, code: int):
    """Every key that the recorded broker gave, but for those that Java makes of its memory and no reader takes."""
    told, java = strict(line(served(master.path)).ask(code).body), strict(recorded(master.version)[code])
    mapping = {"mappingDataVersion", "topicQueueMappingDetailMap", "topicQueueMappingInfoMap"}
    made = {TOPICS: mapping, GROUPS: {"forbiddenTable"}, OFFSETS: {"groupTopicMap", "pullOffsetTable"}}
    assert java.keys() - told.keys() <= made.get(code, set())
    assert told.keys() <= java.keys()
    if "dataVersion" in java:
        assert told["dataVersion"].keys() == java["dataVersion"].keys(), "a slave reads it"


@pytest.mark.parametrize(("name", "version"), [("config", "533"), ("config540", "540"), ("config550", "550")])
def test_files_of_a_real_broker_come_whole(
    served: Serve, golden: Callable[[str], Golden], line: Connected, name: str, version: str
):
    store = golden(name)
    talk = line(served(store.path))
    for file, code in (("topics", TOPICS), ("subscriptionGroup", GROUPS), ("delayOffset", DELAYS)):
        path = store.path / "config" / f"{file}.json"
        if path.exists():
            assert strict(talk.ask(code).body) == strict(path.read_bytes()), file
    offsets = store.path / "config" / "consumerOffset.json"
    assert strict(talk.ask(OFFSETS).body)["offsetTable"] == strict(offsets.read_bytes())["offsetTable"]


def test_a_follower_gets_its_tables(served: Serve, shop: Written):
    """`flintmq follow --config-from` asks all of them, in its pages."""
    broker = served(shop.path, name="b-1")
    facts = metadata.fetch(broker.address)
    with open_store(shop.path) as view:
        assert (facts.begin, facts.end) == (view.min_physical_offset, view.max_physical_offset)
        topics, groups = facts.tables["topics.json"], facts.tables["subscriptionGroup.json"]
        assert topics["topicConfigTable"].keys() == view.broker.topics.keys()
        assert groups["subscriptionGroupTable"].keys() == view.broker.groups.keys()
    own = config_json.parse((shop.path / "config" / "consumerOffset.json").read_bytes())
    assert facts.tables["consumerOffset.json"]["offsetTable"] == own["offsetTable"]
    assert facts.config["brokerName"] == "b-1"
    assert facts.file_size == FILE_SIZE, "as the files are, whatever the default is"


def test_sizes_are_those_of_the_files(served: Serve, resting: Path, line: Connected):
    told = lines_of(line(served(resting)).ask(CONFIG).body)
    sizes = {"mappedFileSizeCommitLog": "4096", "mappedFileSizeConsumeQueue": "2000"}
    sizes |= {"maxHashSlotNum": "8", "maxIndexNum": "32"}
    assert {key: told[key] for key in sizes} == sizes
    assert (told["brokerName"], told["brokerClusterName"], told["brokerId"]) == ("broker-a", "DefaultCluster", "0")


def test_a_store_without_config(served: Serve, tmp_path: Path, line: Connected):
    """A bare store: its tables are empty, and say so."""
    write_store(tmp_path / "shop", 10, topics=["Orders"], queues=1, commit_log_file_size=FILE_SIZE, config_files=False)
    talk = line(served(tmp_path / "shop"))
    for code, table in (
        (TOPICS, "topicConfigTable"),
        (GROUPS, "subscriptionGroupTable"),
        (DELAYS, "offsetTable"),
        (OFFSETS, "offsetTable"),
    ):
        told = strict(talk.ask(code).body)
        assert (told.keys(), told[table]) == ({"dataVersion", table}, {})
    assert strict(talk.ask(MODES).body) == {"messageRequestModeMap": {}}


def test_a_file_that_cannot_be_used_is_no_empty_table(served: Serve, tmp_path: Path, line: Connected):
    """A follower would take the empty one, and forget all topics."""
    shop = write_store(tmp_path / "shop", 10, topics=["Orders"], queues=1, commit_log_file_size=FILE_SIZE).path
    broker = served(shop)
    talk = line(broker)
    (shop / "config" / "topics.json").write_bytes(b'{"topicConfigTable":{"Orders":{"perm"')
    answer = talk.ask(TOPICS)
    assert answer.code == 1 and "topics.json" in str(answer.remark) and answer.body == b""


def test_a_rewritten_file_is_answered_at_once(served: Serve, tmp_path: Path, line: Connected):
    shop = write_store(tmp_path / "shop", 10, topics=["Orders"], queues=1, commit_log_file_size=FILE_SIZE).path
    talk = line(served(shop))
    path = shop / "config" / "topics.json"
    told = strict(path.read_bytes())
    told["topicConfigTable"]["Fresh"] = {**told["topicConfigTable"]["Orders"], "topicName": "Fresh", "perm": 4}
    path.write_text(json.dumps(told), encoding="utf-8")
    assert set(strict(talk.ask(TOPICS).body)["topicConfigTable"]) >= {"Fresh", "Orders"}
    assert within(lambda: talk.ask(105, {"topic": "Fresh"}).code == 0)


# -- figures -----------------------------------------------------------------------------------------------------------


def test_where_the_log_begins_and_ends(served: Serve, shop: Written, line: Connected):
    table = json.loads(line(served(shop.path)).ask(RUNTIME).body)["table"]
    assert (table["commitLogMinOffset"], table["commitLogMaxOffset"]) == ("0", str(shop.max_offset))
    assert all(isinstance(value, str) for value in table.values())
    assert table["brokerActive"] == "true" and "read-only" in table["brokerVersionDesc"]


def test_figures_of_a_topic(served: Serve, shop: Written, line: Connected):
    """What `mqadmin topicStatus` prints."""
    entries, rest = by_queue(line(served(shop.path)).ask(STATS, {"topic": "Orders"}).body)
    expected = {}
    for queue_id in (0, 1):
        own = [one for one in slow_read.records(shop.path, FILE_SIZE) if one.queue_id == queue_id]
        last = {"lastUpdateTimestamp": own[-1].store_timestamp}
        expected["Orders", queue_id] = {"minOffset": 0, "maxOffset": len(own), **last}
    assert entries == expected and rest == {"topicPutTps": 0.0}


def test_where_a_group_is(served: Serve, shop: Written, line: Connected):
    """What `mqadmin consumerProgress` prints: of the store's offsets and those committed here."""
    talk = line(served(shop.path))
    talk.ask(HEARTBEAT, body=heartbeat("a", "billing"))
    talk.ask(COMMIT, {"consumerGroup": "billing", "topic": "Orders", "queueId": 1, "commitOffset": 5})
    entries, rest = by_queue(talk.ask(PROGRESS, {"consumerGroup": "billing"}).body)
    own = [one for one in slow_read.records(shop.path, FILE_SIZE) if one.queue_id == 1]
    with open_store(shop.path) as view:
        first = view.broker.consumer_offsets["Orders", "billing"][0]
    assert entries.keys() == {("Orders", 0), ("Orders", 1)} and rest == {"consumeTps": 0.0}
    assert entries["Orders", 0]["consumerOffset"] == first
    assert entries["Orders", 1] == {
        "brokerOffset": len(own), "consumerOffset": 5, "pullOffset": 5, "lastTimestamp": own[4].store_timestamp,
    }  # fmt: skip
    assert by_queue(talk.ask(PROGRESS, {"consumerGroup": "billing", "topic": "Orders"}).body)[0] == entries
    assert by_queue(talk.ask(PROGRESS, {"consumerGroup": "nobody"}).body)[0] == {}


def test_a_table_that_fits_no_frame(served: Serve, shop: Written, line: Connected, monkeypatch: pytest.MonkeyPatch):
    """A hundred thousand topics: the answer is refused in words, and the connection lives."""
    monkeypatch.setattr("flintmq.remoting.frames.FRAME_MAX", 2000)
    talk = line(served(shop.path))
    answer = talk.ask(CONFIG)
    assert answer.code == 1 and "more than the 2000 of a frame" in str(answer.remark)
    assert talk.ask(DELAYS).code == 0


# -- what mqadmin of 5.5.0 asks before its figures ---------------------------------------------------------------------


def test_settings_of_one_topic(served: Serve, golden: Callable[[str], Golden], line: Connected):
    """Those of topics.json; of a topic that has queues alone what there is."""
    talk = line(served(golden("config550").path))
    entry = strict(talk.ask(TOPICS).body)["topicConfigTable"]["Trade"]
    assert strict(talk.ask(TOPIC, {"topic": "Trade"}).body) == entry
    assert talk.ask(TOPIC, {"topic": "Nope"}).code == 17
    bare = strict(line(served(golden("basic").path)).ask(TOPIC, {"topic": "Orders"}).body)
    assert (bare["topicName"], bare["readQueueNums"], bare["perm"], bare["order"]) == ("Orders", 4, 4, False)


def test_groups_of_a_topic_and_their_topics_of_retries(served: Serve, golden: Callable[[str], Golden], line: Connected):
    """Groups by their offsets, and those that subscribe now; each has a route for its retries."""
    talk = line(served(golden("config550").path))
    assert strict(talk.ask(GROUPS_OF, {"topic": "Trade"}).body) == {"groupList": ["TagGroup", "TradeGroup"]}
    assert talk.ask(105, {"topic": "%RETRY%New"}).code == 17
    talk.ask(HEARTBEAT, body=heartbeat("a", "New", topics={"Trade": "*"}))
    assert strict(talk.ask(GROUPS_OF, {"topic": "Trade"}).body) == {"groupList": ["New", "TagGroup", "TradeGroup"]}
    [queues] = strict(talk.ask(105, {"topic": "%RETRY%New"}).body)["queueDatas"]
    assert (queues["readQueueNums"], queues["perm"]) == (1, 4)
    assert "%RETRY%New" in strict(talk.ask(206).body)["topicList"]
