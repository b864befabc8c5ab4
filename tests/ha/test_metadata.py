"""A broker's tables: from its answers into the files that it has itself, whole or not at all."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import ReplicationError, StoreLockedError
from flintmq.format import config_json
from flintmq.ha import metadata
from flintmq.storage.files.filesystem import REAL
from tests.compat.replication import VERSIONS
from tests.compat.stores import Golden
from tests.remoting.remoting_peer import CONFIG, RUNTIME, Answer, Asked, RemotingPeer, broker, recorded, reply, strict
from tests.support.faults import Faulty

FILES = {
    "topics.json": (21, "topicConfigTable"),
    "subscriptionGroup.json": (201, "subscriptionGroupTable"),
    "consumerOffset.json": (43, "offsetTable"),
    "delayOffset.json": (45, "offsetTable"),
    "messageRequestMode.json": (402, "messageRequestModeMap"),
}


def fetch(answer: Answer, **rest: Any) -> metadata.BrokerFacts:
    with RemotingPeer(answer) as peer:
        return metadata.fetch(peer.address, timeout=5.0, **rest)


def saved(root: Path, name: str) -> dict[str, Any]:
    """A file of config/, by the standard library."""
    return strict((root / "config" / name).read_bytes())


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_real_broker_said_is_in_the_files(version: str, tmp_path: Path):
    bodies = recorded(version)
    facts = fetch(broker({**bodies, 26: CONFIG, 28: RUNTIME}, version=493 if version == "540" else 479))
    assert (facts.begin, facts.end, facts.peer) == (131072, 200000, "5.4.0" if version == "540" else "5.3.3")
    assert facts.store_keys == {"mappedFileSizeCommitLog": "65536"}
    assert metadata.save(str(tmp_path), facts.tables, REAL, facts.peer) == list(FILES)
    for name, (code, table) in FILES.items():
        told = strict(bodies[code])
        found = saved(tmp_path, name)
        assert found[table] == told[table] and found.get("dataVersion") == told.get("dataVersion")
    assert set(saved(tmp_path, "topics.json")) == {"dataVersion", "topicConfigTable"}, "as RocketMQ's own"
    assert saved(tmp_path, "consumerOffset.json")["offsetTable"] == {"Attr@G": {"0": 7}}
    assert saved(tmp_path, "topics.json")["topicConfigTable"]["Bulk"]["attributes"] == {"queue.type": "BatchCQ"}
    assert metadata.save(str(tmp_path), facts.tables, REAL, facts.peer) == [], "nothing changed"
    assert not list((tmp_path / "config").glob("*.bak"))


@pytest.mark.parametrize(("name", "peer"), [("config", "5.3.3"), ("config540", "5.4.0"), ("config550", "5.5.0")])
def test_the_files_are_rocketmqs_byte_for_byte(golden: Any, name: str, peer: str, tmp_path: Path):
    """A real broker's files are sent over the line in one line each, and come back as they were."""
    store: Golden = golden(name)
    bodies, files = {26: CONFIG, 28: RUNTIME}, {}
    for file, (code, _) in FILES.items():
        path = store.path / "config" / file
        if path.exists():
            files[file] = path.read_bytes()
            bodies[code] = json.dumps(json.loads(json.dumps(strict(files[file])))).encode()
            bodies[code] = config_json.write(config_json.parse(files[file]), "5.4.0", compact=True)
    assert len(files) >= 4
    metadata.save(str(tmp_path), fetch(broker(bodies)).tables, REAL, peer)
    assert {file: (tmp_path / "config" / file).read_bytes() for file in files} == files


def test_what_a_broker_may_lack():
    bodies = {code: body for code, body in recorded("533").items() if code != 402}
    facts = fetch(broker(bodies))
    assert (facts.config, facts.begin, facts.end) == ({}, None, None)
    assert "messageRequestMode.json" not in facts.tables and len(facts.tables) == 4


def test_a_broker_without_a_log():
    bodies = {**recorded("533"), 28: b'{"table":{"commitLogMinOffset":"-1","commitLogMaxOffset":"0"}}'}
    assert (fetch(broker(bodies)).begin, fetch(broker(bodies)).end) == (0, 0)


def test_light_queues_have_a_file_of_their_own(tmp_path: Path):
    body = b'{"dataVersion":{},"lmqOffsetTable":{"%LMQ%a@%LMQ%a":3},"offsetTable":{}}'
    tables = fetch(broker({**recorded("533"), 43: body})).tables
    metadata.save(str(tmp_path), tables)
    assert saved(tmp_path, "lmqConsumerOffset.json")["lmqOffsetTable"] == {"%LMQ%a@%LMQ%a": 3}
    assert not (tmp_path / "config" / "consumerOffset.json").exists()


def refusing(code: int, with_code: int) -> Answer:
    """A real broker that refuses one request."""
    right = broker({**recorded("540"), 26: CONFIG, 28: RUNTIME})

    def answer(asked: Asked) -> bytes | None:
        return reply(asked, code=with_code, remark="user u may not") if asked.code == code else right(asked)

    return answer


@pytest.mark.parametrize("code", [26, 28, 21, 201, 43, 45, 402])
def test_a_refusal_is_reported_with_code_and_remark(code: int):
    with pytest.raises(ReplicationError, match=f"request {code}: refused with code 16: 'user u may not'") as caught:
        fetch(refusing(code, 16))
    assert caught.value.reason == "config"


@pytest.mark.parametrize("code", [21, 201, 43, 45])
def test_a_table_that_the_broker_does_not_know_is_a_refusal(code: int):
    for with_code in (1, 3):
        with pytest.raises(ReplicationError, match=f"request {code}: refused with code {with_code}"):
            fetch(refusing(code, with_code))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"enableControllerMode=true", "controller mode"),
        (b"enableDLegerCommitLog=true", "DLedger"),
        (b"storeType=defaultRocksDB", "RocksDB"),
    ],
)
def test_brokers_that_cannot_be_followed(line: bytes, text: str):
    with pytest.raises(ReplicationError, match=text) as caught:
        fetch(broker({**recorded("540"), 26: CONFIG + line + b"\n"}))
    assert caught.value.reason == "config"


def test_a_configuration_that_no_broker_has():
    facts = fetch(broker({**recorded("540"), 26: b"mappedFileSizeCommitLog=many\n=\nodd"}))
    with pytest.raises(ReplicationError, match="mappedFileSizeCommitLog"):
        assert facts.store_keys


@pytest.mark.parametrize("code", [21, 201, 43, 45, 402, 28])
@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"a":1}', b'{"offsetTable":[]}', b"\xff\xfe", b"{" * 5000]
)
def test_rubbish_instead_of_a_table(code: int, body: bytes):
    with pytest.raises(ReplicationError, match=f"request {code}: ") as caught:
        fetch(broker({**recorded("540"), 26: CONFIG, 28: RUNTIME, code: body}))
    assert caught.value.reason == "config" and "\n" not in str(caught.value) and len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "table",
    [
        '{"commitLogMinOffset":"5","commitLogMaxOffset":"4"}',
        '{"commitLogMinOffset":"-7"}',
        '{"commitLogMaxOffset":"x"}',
    ],
)
def test_bounds_that_no_log_has(table: str):
    with pytest.raises(ReplicationError, match="request 28: .* a log from"):
        fetch(broker({**recorded("540"), 28: f'{{"table":{table}}}'.encode()}))


@pytest.mark.parametrize("code", [26, 21, 402, 28])
def test_lengths_that_lie(code: int):
    right = broker({**recorded("540"), 26: CONFIG, 28: RUNTIME})

    def answer(asked: Asked) -> bytes | None:
        return struct.pack(">i", 2**31 - 1) if asked.code == code else right(asked)

    with pytest.raises(ReplicationError, match=f"request {code}: no remoting answer"):
        fetch(answer)


class Paged:
    """A broker of 5.4.0, which sends topics and groups in pages (AdminBrokerProcessor, TopicConfigManager).

    It begins again at the first entry if the data version that it is given is not its own. `changes` times a table
    changes before a page other than the first.
    """

    def __init__(self, topics: int, changes: int = 0, total: int | None = None) -> None:
        self.topics, self.changes, self.total = topics, changes, total
        self.counter = 1
        self.pages: list[tuple[int, int, int]] = []  # code, first, most
        self.rest = broker({**recorded("540"), 26: CONFIG, 28: RUNTIME})

    def __call__(self, asked: Asked) -> bytes | None:
        kind = {21: ("topic", "Topic", "topicConfigTable"), 201: ("group", "Group", "subscriptionGroupTable")}
        if asked.code not in kind:
            return self.rest(asked)
        low, high, table = kind[asked.code]
        first, most = int(asked.fields[f"{low}Seq"]), int(asked.fields[f"max{high}Num"])
        if first and self.changes:
            self.changes, self.counter, self.topics = self.changes - 1, self.counter + 1, self.topics - 1
        version = {"counter": self.counter, "stateVersion": 0, "timestamp": 5}
        told = asked.fields["dataVersion"]
        at = first if told and json.loads(told) == version else 0
        self.pages.append((asked.code, first, most))
        names = [f"t{n:04}" for n in range(self.topics)][at : at + most]
        body = {"dataVersion": version, "forbiddenTable": {}, table: {name: {"perm": 6} for name in names}}
        fields = {f"total{high}Num": str(self.topics if self.total is None else self.total)}
        return reply(asked, json.dumps(body).encode(), fields=fields, version=493)


@pytest.mark.parametrize("topics", [0, 1, 9, 10, 11, 25])
def test_all_pages_come_together(topics: int):
    paged = Paged(topics)
    tables = fetch(paged, page=10).tables
    for name, table in (("topics.json", "topicConfigTable"), ("subscriptionGroup.json", "subscriptionGroupTable")):
        assert tables[name][table] == {f"t{n:04}": {"perm": 6} for n in range(topics)}
    assert [first for code, first, most in paged.pages if code == 21 and most == 10] == list(
        range(0, max(topics, 1), 10)
    )


def test_a_table_that_changes_between_pages_is_asked_anew():
    paged = Paged(25, changes=2)
    table = fetch(paged, page=10).tables["topics.json"]
    assert len(table["topicConfigTable"]) == 23 and table["dataVersion"]["counter"] == 3
    assert [first for code, first, _ in paged.pages if code == 21] == [0, 10, 0, 10, 0, 10, 20]


def test_a_table_that_never_rests_is_refused():
    with pytest.raises(ReplicationError, match="changed between two pages, 10 times"):
        fetch(Paged(500, changes=1000), page=10)


@pytest.mark.parametrize(("total", "text"), [(26, "25 entries of 26"), (2**40, "a total of"), (-1, "a total of")])
def test_totals_that_lie(total: int, text: str):
    with pytest.raises(ReplicationError, match=text):
        fetch(Paged(25, total=total), page=10)


def test_pages_as_the_recorded_slave_asked():
    """The real slave's own request, but for its number and language."""
    with RemotingPeer(broker({**recorded("540"), 26: CONFIG, 28: RUNTIME})) as peer:
        metadata.fetch(peer.address)
        asked = {one.code: one.fields for one in peer.asked}
        assert peer.codes() == [26, 21, 201, 43, 45, 402, 28] and len(peer.lines) == 1
    assert asked[21] == {"topicSeq": "0", "dataVersion": "", "maxTopicNum": "2000"}
    assert asked[201] == {"groupSeq": "0", "dataVersion": "", "maxGroupNum": "2000"}


def test_deletions_are_followed_and_unknown_fields_kept(tmp_path: Path):
    one = {
        "offsetTable": {"T@G": {0: 1, 1: 2}, "T@H": {0: 5}},
        "dataVersion": {"counter": 1},
        "pullOffsetTable": {"x": 1},
    }
    two = {"offsetTable": {"T@G": {0: 3}}, "dataVersion": {"counter": 2}}
    root = str(tmp_path / "new" / "store")
    assert metadata.save(root, {"consumerOffset.json": one}) == ["consumerOffset.json"]
    before = (tmp_path / "new/store/config/consumerOffset.json").read_bytes()
    assert metadata.save(root, {"consumerOffset.json": two}) == ["consumerOffset.json"]
    found = saved(Path(root), "consumerOffset.json")
    assert found == {"dataVersion": {"counter": 2}, "offsetTable": {"T@G": {"0": 3}}, "pullOffsetTable": {"x": 1}}
    assert (tmp_path / "new/store/config/consumerOffset.json.bak").read_bytes() == before


def test_a_torn_file_is_replaced_and_kept_aside(tmp_path: Path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/topics.json").write_bytes(b'{"topicConf')
    metadata.save(str(tmp_path), {"topics.json": {"topicConfigTable": {}}})
    assert saved(tmp_path, "topics.json") == {"topicConfigTable": {}}
    assert (tmp_path / "config/topics.json.unusable").read_bytes() == b'{"topicConf'


@pytest.mark.parametrize("call", ["create", "pwrite", "sync", "rename", "sync_dir"])
def test_a_disk_that_refuses_leaves_a_whole_file(tmp_path: Path, call: str):
    old, new = {"topicConfigTable": {"A": {}}}, {"topicConfigTable": {"B": {}}}
    metadata.save(str(tmp_path), {"topics.json": old})
    disk = Faulty()
    disk.refuse(call, "topics.json" if call != "sync_dir" else "config")
    with pytest.raises(OSError, match=r"."):
        metadata.save(str(tmp_path), {"topics.json": new}, disk)
    assert saved(tmp_path, "topics.json") in (old, new)
    assert metadata.save(str(tmp_path), {"topics.json": new}) in ([], ["topics.json"])
    assert saved(tmp_path, "topics.json") == new


def test_a_store_that_another_process_has_is_left_alone(tmp_path: Path):
    lock = REAL.lock_store(str(tmp_path))
    try:
        with pytest.raises(StoreLockedError):
            metadata.save(str(tmp_path), {"topics.json": {"topicConfigTable": {}}})
    finally:
        lock.release()
    assert not (tmp_path / "config").exists()
