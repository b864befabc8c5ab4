"""Unique keys: what RocketMQ's client gives, by every door of a put, never twice, and nowhere but where one is put."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import flintmq
from flintmq.format import inner_batch
from flintmq.format import properties as names
from flintmq.message import Message
from flintmq.store.append.unique_keys import UniqueKeys
from flintmq.store.message_store import MessageStore
from tests.compat.stores import Golden
from tests.support.engine import KEYS, check_derived, expected_units, records, units
from tests.support.faults import Faulty
from tests.support.threads import at_once

MAP = pa.map_(pa.string(), pa.string())


def month_begin(ms: int, zone: Any) -> int:
    day = datetime.fromtimestamp(ms / 1000, zone).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return round(day.timestamp() * 1000)


def test_javas_ids_have_the_parts_that_ours_have(golden: Callable[[str], Golden]):
    """What stands in an id is read off those that RocketMQ's client made: time since the month began, and a counter."""
    found = []
    with flintmq.open_store(golden("timer").path) as store:
        for stored in store.messages():
            if stored.topic == "Timed" and stored.msg_id:
                made = month_begin(stored.born_timestamp, UTC) + int(stored.msg_id[-12:-4], 16)
                assert abs(stored.born_timestamp - made) < 60_000, "Java made it when it sent the message"
                found.append(stored.msg_id)
    assert len(set(found)) == len(found) > 20 and {len(one) for one in found} <= {32, 56}  # IPv4, IPv6
    assert all(one == one.upper() and int(one, 16) for one in found)


def test_an_id_says_who_made_it_and_when():
    effects = Faulty()
    effects.clock = 1_700_000_000_123
    keys = UniqueKeys(effects)
    first, second, third = keys.take(3)
    assert len(first) == 32 and first == first.upper() and first[:20] == second[:20] == third[:20]
    assert bytes.fromhex(first[:8]) == effects.own_address()
    assert int(first[8:12], 16) == effects.process_id() & 0xFFFF
    assert month_begin(effects.clock, None) + int(first[20:28], 16) == effects.clock
    assert [int(one[28:], 16) for one in (first, second, third)] == [0, 1, 2]
    effects.clock += 5
    assert int(keys.take(1)[0][20:], 16) == int(first[20:], 16) + (5 << 16) + 3, "the counter runs on"


def test_no_id_comes_twice():
    effects = Faulty()
    effects.clock = 1_700_000_000_000
    keys, other = UniqueKeys(effects), UniqueKeys(effects)
    given = [*keys.take(200_000), *other.take(10)]  # the counter comes round three times within a millisecond
    for step in (0, 1, -10_000, 3, -1, 32 * 86_400_000, -32 * 86_400_000, 366 * 86_400_000):
        effects.clock += step
        given += keys.take(3)
    got: list[list[str]] = [[] for _ in range(4)]
    at_once(*[lambda mine=mine: mine.extend(k for _ in range(300) for k in keys.take(2)) for mine in got])
    given += [key for mine in got for key in mine]
    assert len(set(given)) == len(given) == 200_010 + 24 + 2_400


def test_every_door_gives_ids_and_keeps_those_that_are_there(tmp_path: Path):
    with MessageStore(tmp_path, KEYS, unique_keys=True) as store:
        plain, given = Message("T", b"1", keys="k"), Message("T", b"2", properties={"UNIQ_KEY": "MINE", "a": "b"})
        told: list[Any] = []
        for _ in range(2):
            told += [*store.put_many([plain, given]), store.put(plain), store.put(given)]
        told += store.put_batch([plain, given])
        told += [store.put(Message("T", b"3", properties_bytes=b"a\1b\2"))]
        assert all(told)
        bodies = pa.array([b"4", b"5"], pa.binary())
        tags = pa.array(["t", None])
        maps = pa.array([[("UNIQ_KEY", "MINE")], None], MAP)
        assert store.put_columns("T", pa.record_batch({"body": bodies, "tags": tags}))
        assert store.put_columns("T", pa.record_batch({"body": bodies, "properties": maps}))
        assert plain == Message("T", b"1", keys="k") and given.properties == {"UNIQ_KEY": "MINE", "a": "b"}
        assert store.wait_dispatched(60)
        found = records(tmp_path)
        ids = [names.parse_bytes(one.properties).get("UNIQ_KEY") for one in found]
        assert [one.msg_id for one in told] == ids[: len(told)]
        assert [one.properties for one in found if one.body == b"3"] == [b"a\1b\2"]
        made = [key for key in ids if key not in (None, "MINE")]
        assert ids.count("MINE") == 6 and ids.count(None) == 1 and len(made) == len(found) - 7 == len(set(made))
        assert all(len(key or "") == 32 for key in made)
        assert [m.body for m in store.query("T", ids[0] or "")] == [found[0].body], "found by it"
    check_derived(tmp_path)


def test_columns_without_an_index_have_ids_and_units(tmp_path: Path):
    """Then dispatch makes the units of the columns, without reading records."""
    with MessageStore(tmp_path, KEYS | {"messageIndexEnable": False}, unique_keys=True) as store:
        bodies = pa.array([b"%d" % n for n in range(9)], pa.binary())
        assert store.put_columns("T", pa.record_batch({"body": bodies, "tags": pa.array(["t"] * 9)}))
        assert store.wait_dispatched(60)
        got = store.get("T", 0, 0, 32).messages
        assert [m.body for m in got] == [b"%d" % n for n in range(9)] and len({m.msg_id for m in got}) == 9
    assert units(tmp_path, "T", 0) == expected_units(tmp_path, "T", 0)


def test_who_puts_without_waiting_is_told_the_id_and_who_is_refused_none(tmp_path: Path):
    with MessageStore(tmp_path, KEYS, unique_keys=True) as store:
        assert store.put(Message("T/", b"1")).msg_id is None
        assert store.put(Message("T", b"1")).msg_id

        async def put() -> list[Any]:
            return [await store.put_async(Message("T", b"2", queue_id=q)) for q in (0, 0, 1)]

        told = [result.msg_id for result in asyncio.run(put())]
    assert [names.parse_bytes(one.properties)["UNIQ_KEY"] for one in records(tmp_path)][1:] == told


def test_an_inner_batch_has_an_id_and_each_message_in_it_too(tmp_path: Path):
    with MessageStore(tmp_path, KEYS, unique_keys=True) as store:
        store.create_topic("B", 1, "BatchCQ")
        told = store.put_batch([Message("B", b"x"), Message("B", b"y", properties={"UNIQ_KEY": "MINE"})])
        assert all(told)
        assert store.put(Message("T", b"6", delay_level=18))
    whole, waiting = records(tmp_path)
    assert len(names.parse_bytes(waiting.properties)["UNIQ_KEY"]) == 32, "the one that it is delivered with"
    within = [names.parse_bytes(one.properties)["UNIQ_KEY"] for one in inner_batch.iterate(whole.body)]
    assert [one.msg_id for one in told] == within
    assert len({*within, names.parse_bytes(whole.properties)["UNIQ_KEY"]}) == 3 and within[1] == "MINE"


@pytest.mark.parametrize(
    ("switched", "ids"), [({}, 6), ({"unique_keys": True}, 6), ({"unique_keys": False}, 0)], ids=str
)
def test_the_switch_is_on_unless_it_is_off(tmp_path: Path, switched: dict[str, Any], ids: int):
    with MessageStore(tmp_path, KEYS, **switched) as store:
        told = [
            store.put(Message("T", b"1")),
            *store.put_many([Message("T", b"2")] * 2),
            *store.put_batch([Message("T")]),
        ]
        told.append(store.put(Message("T", delay_level=18)))
        assert all(told) and store.put_columns("T", pa.record_batch({"body": pa.array([b"2"], pa.binary())}))
    found = [names.parse_bytes(one.properties).get("UNIQ_KEY") for one in records(tmp_path)]
    assert [one.msg_id for one in told] == found[:5] and len({one for one in found if one}) == ids
    assert ids or [one.properties for one in records(tmp_path)[:4]] == [b""] * 4
