import os

from flintmq.config.keys import StoreConfig
from flintmq.format.record import INNER_BATCH, Record, encode
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.dispatch.dispatcher import DispatchRules
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read import log_map
from flintmq.store.read.log_map import LogMap, find_between

RULES = DispatchRules.of(StoreConfig())


def log_of(store):
    return LogFiles.discover([os.fspath(store.path / "commitlog")])


def expected(rows):
    """(topic, queue id) -> queue offsets that rows of plain records fill."""
    queues = {}
    for row in rows:
        if row["sys_flag"] & 12 in (0, 8):
            count = int(row["properties"].get("INNER_NUM", 1))
            offsets = queues.setdefault((row["topic"], row["queue_id"]), set())
            offsets.update(range(row["queue_offset"], row["queue_offset"] + count))
    return queues


def test_bounds_of_every_queue(golden_store, monkeypatch):
    monkeypatch.setattr(log_map, "SEGMENT_BYTES", 4096)
    rows = golden_store.live if "beyond" not in golden_store.expect else golden_store.rows
    last = rows[-1]["physical_offset"] + rows[-1]["size"]
    found = LogMap(rows[0]["physical_offset"], RULES)
    found.extend(log_of(golden_store), last)
    for name, offsets in expected(rows).items():
        assert found.bounds(QueueName(*name)) == (min(offsets), max(offsets) + 1)
    light = {name for name in found.names() if name.topic.startswith("%LMQ%")}
    assert set(found.names()) - light == expected(rows).keys()
    assert bool(light) == golden_store.name.startswith("lmq")
    assert found.is_batch("BatchTopic") == (golden_store.name == "batch")


def test_of_one_topic_it_is_the_same(golden_store, monkeypatch):
    monkeypatch.setattr(log_map, "SEGMENT_BYTES", 4096)
    log, whole = log_of(golden_store), LogMap(0, RULES)
    whole.extend(log, log.limit)
    topics = {name.topic for name in whole.names() if not name.topic.startswith("%LMQ%")}
    for topic in {*sorted(topics)[:20], "none", ""}:
        found = LogMap(0, RULES)
        found.extend(log, log.limit, topic)
        mine = [name for name in whole.names() if name.topic == topic]
        assert [name for name in found.names() if not name.topic.startswith("%LMQ%")] == mine
        assert found.end == whole.end and [found.bounds(name) for name in mine] == [whole.bounds(name) for name in mine]


def test_grown_in_steps_it_is_the_same(golden, monkeypatch):
    monkeypatch.setattr(log_map, "SEGMENT_BYTES", 4096)
    store = golden("basic")
    log = log_of(store)
    whole, grown = LogMap(0, RULES), LogMap(0, RULES)
    ends = [row["physical_offset"] for row in store.rows[200::700]] + [737416]
    for end in ends:
        before = grown.copy()
        grown = grown.copy()
        grown.extend(log, end)
        assert before.end < grown.end == end
    whole.extend(log, 737416)
    assert {name: grown.bounds(name) for name in grown.names()} == {name: whole.bounds(name) for name in whole.names()}
    for row in store.rows[::100]:
        message = grown.find(log, QueueName(row["topic"], row["queue_id"]), row["queue_offset"])
        assert message.physical_offset == row["physical_offset"]


def test_messages_of_light_queues(golden):
    store = golden("lmq")
    log = log_of(store)
    found = LogMap(0, RULES)
    found.extend(log, 33477)
    count = 0
    for row in store.rows:
        names = row["properties"].get("INNER_MULTI_DISPATCH", "").split(",")
        offsets = row["properties"].get("INNER_MULTI_QUEUE_OFFSET", "").split(",")
        for name, offset in zip(names, offsets, strict=True):
            if name:
                message = found.find(log, QueueName(name, 0), int(offset))
                assert message.physical_offset == row["physical_offset"]
                count += 1
    assert count > 200


def test_queue_offsets_that_no_store_writes(tmp_path):
    """Hostile records: offsets below zero stand nowhere, and none goes beyond 64 bits."""
    inner = b"INNER_BASE\x019223372036854775807\x02INNER_NUM\x0132767\x02"
    records = [
        (b"A", -5, 0, b""),
        (b"A", 3, 0, b""),
        (b"B", -1, 0, b""),
        (b"C", 2**63 - 1, 0, b""),
        (b"D", 0, INNER_BATCH, inner),
        (b"E", 0, INNER_BATCH, inner.replace(b"\x01922", b"\x01-922")),
    ]
    data, found = b"", LogMap(0, RULES)
    for topic, offset, flag, text in records:
        data += encode(
            Record(queue_offset=offset, physical_offset=len(data), sys_flag=flag, topic=topic, properties=text)
        )
    (tmp_path / ("0" * 20)).write_bytes(data + bytes(4096))
    log = LogFiles.discover([os.fspath(tmp_path)])
    found.extend(log, len(data))
    bounds = {name.topic: found.bounds(name) for name in found.names()}
    assert bounds == {"A": (3, 4), "C": (2**63 - 1, 2**63 - 1), "D": (2**63 - 1, 2**63 - 1)}
    assert found.find(log, QueueName("A", 0), -5) is None
    assert found.find(log, QueueName("A", 0), 3).physical_offset == 92


def test_the_newest_of_two_at_one_place_is_found_and_nothing_outside(golden):
    store = golden("basic")
    log = log_of(store)
    row = store.rows[7]
    name = QueueName(row["topic"], row["queue_id"])
    begin, end = row["physical_offset"], row["physical_offset"] + row["size"]
    assert find_between(log, name, row["queue_offset"], begin, end).physical_offset == begin
    assert find_between(log, name, row["queue_offset"] + 1, begin, end) is None
    assert find_between(log, name, row["queue_offset"], end, 737416) is None
    assert find_between(log, QueueName(name.topic, 99), row["queue_offset"], 0, 737416) is None
    assert find_between(log, QueueName("no\ufffdtopic", 0), 0, 0, 737416) is None
    assert LogMap(0, RULES).find(log, name, 0) is None and LogMap(0, RULES).bounds(name) is None


def test_what_one_walk_finds_is_what_a_walk_for_each_finds(golden_store, monkeypatch):
    """Queue by queue as a reader goes, with and without what the last walk has found; and it walks less."""
    monkeypatch.setattr(log_map, "SEGMENT_BYTES", 4096)
    log, real, walks = log_of(golden_store), log_map._of_queue, []
    monkeypatch.setattr(log_map, "_of_queue", lambda *asked: walks.append(asked[1]) or real(*asked))
    found = LogMap(0, RULES)
    found.extend(log, log.limit)
    numbers = [0, 0]
    for name in list(found.names())[:20]:
        low, high = found.bounds(name)
        for offset in range(max(low - 1, 0), min(high + 1, low + 40)):
            before = len(walks)
            message = found.find(log, name, offset)
            between = len(walks)
            found._walked = None
            again = found.find(log, name, offset)
            assert (message and message.raw) == (again and again.raw), (name, offset)
            numbers = [numbers[0] + between - before, numbers[1] + len(walks) - between]
            found.find(log, name, offset - 1)  # a reader of another offset, amid
            found.find(log, name, offset)
    assert 0 < 3 * numbers[0] <= numbers[1]
