import shutil
import struct

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.format.index import key_hash
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.index.reader import discover
from flintmq.store.read import key_query
from flintmq.store.read.key_query import KeyQuery
from tests.support.makers import patch

KEYS = ("maxHashSlotNum", "maxIndexNum")


def config_of(store):
    return StoreConfig.from_keys({key: store.config[key] for key in KEYS})


def ask(path, config, topic, key, begin=None, end=None, limit=64):
    found = KeyQuery(Snapshot(str(path), config), topic, key, begin, end, limit).run()
    return [message.physical_offset for message in found]


def holders(rows):
    """(topic, key) -> physical offsets of the rows that have the key, as the log tells it."""
    found = {}
    for row in rows:
        if row["sys_flag"] & 12 != 12:
            keys = {key for key in (row["keys"] or "").split(" ") if key} | ({row["msg_id"]} - {None})
            for key in keys:
                found.setdefault((row["topic"], key), []).append(row["physical_offset"])
    return found


def check(path, config, store, most=60):
    wanted = holders(store.live)
    for topic, key in sorted(wanted)[:: max(1, len(wanted) // most)]:
        assert ask(path, config, topic, key) == wanted[topic, key][-64:], (topic, key)


def test_every_key_of_every_store_is_found(golden_store):
    """Also those that RocketMQ has lost: crash-keys, crash, stale-aligned (golden/README.md)."""
    check(golden_store.path, config_of(golden_store), golden_store)


def test_without_an_index_the_log_is_searched(golden_store, tmp_path):
    shutil.copytree(golden_store.path / "commitlog", tmp_path / "commitlog")
    check(tmp_path, StoreConfig(), golden_store, 20)


def test_only_real_keys_are_answers(golden):
    store = golden("flags")
    config = config_of(store)
    assert key_hash("Odd", "AaAa") == key_hash("Odd", "BBBB")
    assert ask(store.path, config, "Odd", "AaAa") != ask(store.path, config, "Odd", "BBBB")
    assert ask(store.path, config, "Odd", "tx-rollback") == []
    assert ask(store.path, config, "Odd", "") == ask(store.path, config, "", "AaAa") == []
    assert ask(store.path, config, "主题", "键一") == [23025]
    assert ask(store.path, config, "Odd", "\ud800") == ask(store.path, config, "Odd", "\ufffd") == []


def test_tags_are_keys_where_540_indexed_them(golden):
    store = golden("v540")
    topic, tag = next((row["topic"], row["tags"]) for row in store.rows if row["tags"])
    wanted = [row["physical_offset"] for row in store.rows if (row["topic"], row["tags"]) == (topic, tag)]
    assert ask(store.path, config_of(store), topic, f"T#{tag}") == wanted[-64:]
    assert ask(store.path, config_of(store), topic, tag) == []


def test_limit_and_time_range(golden):
    store = golden("v540")
    config = config_of(store)
    topic, tag = next((row["topic"], row["tags"]) for row in store.rows if row["tags"])
    rows = [row for row in store.rows if (row["topic"], row["tags"]) == (topic, tag)]
    offsets = [row["physical_offset"] for row in rows]
    assert len(offsets) > 8
    for limit in (0, 1, 5, len(offsets), 1000):
        assert (
            ask(store.path, config, topic, f"T#{tag}", limit=limit)
            == offsets[len(offsets) - min(limit, len(offsets)) :]
        )
    begin, end = rows[2]["store_timestamp"], rows[6]["store_timestamp"]
    within = [row["physical_offset"] for row in rows if begin <= row["store_timestamp"] <= end]
    assert ask(store.path, config, topic, f"T#{tag}", begin, end) == within
    assert ask(store.path, config, topic, f"T#{tag}", end=begin - 1) == [
        row["physical_offset"] for row in rows if row["store_timestamp"] < begin
    ]
    assert ask(store.path, config, topic, f"T#{tag}", 1 << 62) == []


def damage(file, kind):
    data = bytearray(file.read_bytes())
    slots = 500
    if kind == "zeros":
        data[:] = bytes(len(data))
    elif kind == "header":
        data[:40] = b"\xff" * 40
    elif kind == "half":
        del data[len(data) // 2 :]
    elif kind == "empty":
        data.clear()
    elif kind == "slots":
        data[40 : 40 + 4 * slots] = b"\x7f" * (4 * slots)
    elif kind == "loops":
        for number in range(1, 2000):
            struct.pack_into(">i", data, 40 + 4 * slots + 20 * number + 16, number)
    elif kind == "places":
        for number in range(1, 2000):
            struct.pack_into(">q", data, 40 + 4 * slots + 20 * number + 4, (1 << 62) + number)
    file.write_bytes(data)


@pytest.mark.parametrize("kind", ["zeros", "header", "half", "empty", "slots", "loops"])
@pytest.mark.parametrize("which", [0, -1], ids=["first", "last"])
def test_a_damaged_index_file_hides_nothing(golden, tmp_path, kind, which):
    store = golden("basic")
    copy = store.copy(tmp_path)
    damage(sorted((copy / "index").iterdir())[which], kind)
    check(copy, config_of(store), store, 25)


def test_items_that_lead_nowhere_hide_nothing_if_they_are_the_last(golden, tmp_path):
    store = golden("basic")
    copy = store.copy(tmp_path)
    damage(sorted((copy / "index").iterdir())[-1], "places")
    check(copy, config_of(store), store, 25)


def test_an_index_whose_division_is_unknown_is_not_used(golden, caplog):
    store = golden("crash-keys")
    check(store.path, StoreConfig(), store, 10)
    assert "does not determine its slots and items" in caplog.text and "the log is searched instead" in caplog.text


def test_an_index_that_ends_in_items_of_a_cut_log(golden, tmp_path):
    """The log was cut behind the index's back: the items of the lost records lead nowhere, the rest is covered."""
    store = golden("basic")
    copy = store.copy(tmp_path)
    cut = store.rows[2950]["physical_offset"]
    patch(copy / "commitlog" / f"{655360:020d}", cut - 655360, bytes(131072 - (cut - 655360)))
    wanted = holders(store.rows[:2950])
    config = config_of(store)
    newest = sorted(wanted, key=lambda name: wanted[name][-1])[-10:]
    for topic, key in newest:
        assert ask(copy, config, topic, key) == wanted[topic, key][-64:]
    for topic, key in sorted(holders(store.rows[2950:]).keys() - wanted.keys())[:5]:
        assert ask(copy, config, topic, key) == []


def test_records_that_are_not_indexed_yet(golden, tmp_path):
    store = golden("basic")
    copy = store.copy(tmp_path)
    for file in discover(str(copy), config_of(store))[1:]:
        (tmp_path / "x").mkdir(exist_ok=True)
        shutil.move(file.path, tmp_path / "x")
    check(copy, config_of(store), store, 25)


def test_expired_records_are_no_answers(golden):
    store = golden("rolled")
    found = discover(str(store.path), config_of(store))
    with found[0].open() as index:
        first = next(iter(index.items()))[1].physical_offset
    assert first < store.rows[0]["physical_offset"]  # the index still knows what the log has lost
    check(store.path, config_of(store), store)


def test_an_index_full_of_strangers_is_left_for_the_log(golden, tmp_path, monkeypatch):
    """Items of the right hash that lead to other messages: after some of them the log is walked."""
    monkeypatch.setattr(key_query, "STRANGERS_MAX", 5)
    store, config = golden("basic").copy(tmp_path), config_of(golden("basic"))
    (topic, key), offsets = next(item for item in holders(golden("basic").live).items() if len(item[1]) == 1)
    hash_ = key_hash(topic, key)
    for file in sorted((store / "index").iterdir()):
        data = bytearray(file.read_bytes())
        slots = config.max_hash_slot_num
        count = struct.unpack_from(">i", data, 36)[0]
        for number in range(1, count):  # one chain of all items, all with the hash asked for
            at = 40 + 4 * slots + 20 * number
            struct.pack_into(">i", data, at, hash_)
            struct.pack_into(">i", data, at + 16, number - 1)
        struct.pack_into(">i", data, 40 + 4 * (hash_ % slots), count - 1)
        file.write_bytes(data)
    assert ask(store, config, topic, key) == offsets


def test_of_many_messages_over_several_index_files_the_newest_are_given(golden):
    """The newest index file holds fewer than are asked for, the one before more than are missing."""
    store = golden("basic")
    config = config_of(store)
    wanted = {key: offsets for key, offsets in holders(store.live).items() if len(offsets) > 8}
    assert wanted and len(discover(str(store.path), config)) > 2
    for (topic, key), offsets in wanted.items():
        for limit in range(1, len(offsets)):
            assert ask(store.path, config, topic, key, limit=limit) == offsets[-limit:]
