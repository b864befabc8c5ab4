"""The extension of a running store's queues (enableConsumeQueueExt): after restarts, cuts and losses, and Java's."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flintmq.format import consume_queue_ext
from flintmq.format.text import java_hash
from flintmq.message import GetMessageStatus, Message
from flintmq.store.consumequeue.known_ends import FILE_NAME as QUEUE_LIST
from flintmq.store.consumequeue.reader import ExtQueue
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.message_store import MessageStore
from tests.compat.stores import Golden
from tests.support.engine import open_small, put_dispatched, records, stored, tree, units

EXT: dict[str, Any] = {"enableConsumeQueueExt": "true", "mappedFileSizeConsumeQueueExt": "100"}  # four units a file


def ext_units(root: Path, topic: str = "T") -> list[tuple[int, int]]:
    """(tags code, store time) that each unit of a queue leads to."""
    ext = ExtQueue.of(str(root), QueueName(topic, 0))
    found = [ext.unit(unit.tags_code) for unit in units(root, topic)]
    return [(unit.tags_code, unit.store_timestamp) for unit in found if unit is not None]


def test_the_extension_goes_on_after_a_restart(tmp_path: Path):
    for turn in range(3):
        stored(tmp_path, 5, 5 * turn, **EXT)
    found = records(tmp_path)
    assert ext_units(tmp_path) == [(java_hash(f"t{n % 3}"), r.store_timestamp) for n, r in enumerate(found)]
    assert [consume_queue_ext.position(u.tags_code) for u in units(tmp_path)] == [
        100 * (n // 4) + 20 * (n % 4) for n in range(15)
    ]


def test_d25_the_extension_is_cut_with_its_queue(tmp_path: Path):
    stored(tmp_path, 3, **EXT)
    ext = tmp_path / "consumequeue_ext/T/0" / ("0" * 20)
    whole = ext.read_bytes()
    ext.write_bytes(whole[:60] + b"\x55" * 40)  # what a cut left behind the last unit
    (ext.parent / f"{100:020d}").write_bytes(bytes(100))
    open_small(tmp_path, **EXT).close()
    assert ext.read_bytes() == whole and [file.name for file in ext.parent.iterdir()] == [ext.name]


def test_bitmaps_of_a_broker_stay_where_units_are_written_again(tmp_path: Path):
    stored(tmp_path, 2, **EXT)
    ext = tmp_path / "consumequeue_ext/T/0" / ("0" * 20)
    second = consume_queue_ext.decode(ext.read_bytes(), 20)
    assert second is not None
    with_bitmap = consume_queue_ext.encode(second._replace(bitmap=b"\xff" * 8))
    ext.write_bytes(ext.read_bytes()[:20] + with_bitmap + bytes(52))
    for _ in range(2):
        with open_small(tmp_path, **EXT):  # reads the last log file again
            pass
    stored(tmp_path, 1, 2, **EXT)
    assert ext.read_bytes()[20:48] == with_bitmap
    assert [consume_queue_ext.position(u.tags_code) for u in units(tmp_path)] == [0, 20, 48]


def test_an_extension_that_is_lost_takes_no_unit_with_it(tmp_path: Path):
    stored(tmp_path, 3, **EXT)
    shutil.rmtree(tmp_path / "consumequeue_ext")
    with open_small(tmp_path, **EXT) as store:
        put_dispatched(store, 1, 3)
        assert len(store.get("T", 0, 0).messages) == 4
        found = [m.tags for m in store.get("T", 0, 0, tags="t0").messages]
        assert found == ["t0", "t1", "t2", "t0"]  # who filters gets what cannot be told


def test_addresses_rise_also_where_a_hole_was_filled(tmp_path: Path):
    """Retention deletes what stands before the address of the first unit that is left."""
    stored(tmp_path, 9, **EXT)
    queue = tmp_path / "consumequeue/T/0" / ("0" * 20)
    data = queue.read_bytes()
    queue.write_bytes(data[:80] + bytes(20) + data[100:])  # unit 4
    (tmp_path / QUEUE_LIST).unlink()  # with it a clean start believes that all units are there
    with open_small(tmp_path, **EXT) as store:
        assert [m.queue_offset for m in store.get("T", 0, 0, tags="t1").messages] == [1, 4, 7]
    found = [consume_queue_ext.position(u.tags_code) for u in units(tmp_path)]
    assert found == sorted(found) and len(set(found)) == 9 and found[:4] == [0, 20, 40, 60]
    assert ext_units(tmp_path) == [(java_hash(f"t{n % 3}"), r.store_timestamp) for n, r in enumerate(records(tmp_path))]


def test_tags_are_looked_up_in_the_extension(tmp_path: Path):
    with open_small(tmp_path, **EXT) as store:
        put_dispatched(store, 9)
        assert [m.queue_offset for m in store.get("T", 0, 0, tags="t1").messages] == [1, 4, 7]
        assert store.get("T", 0, 0, tags="other").status is GetMessageStatus.NO_MATCHED_MESSAGE


def test_light_queues_have_no_extension(tmp_path: Path):
    with open_small(tmp_path, enableLmq="true", enableMultiDispatch="true", **EXT) as store:
        store.put(Message("T", b"x", tags="t", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}))
    assert [u.tags_code for u in units(tmp_path, "%LMQ%a")] == [java_hash("t")]
    assert consume_queue_ext.is_address(units(tmp_path)[0].tags_code)


def test_javas_extension_is_taken_over_and_made_again(golden: Callable[[str], Golden], tmp_path: Path):
    """Opening changes no byte; units that are lost are written again with what stood there."""
    keys = golden("cqext").config
    root = golden("cqext").copy(tmp_path)
    before = tree(root, "consumequeue", "consumequeue_ext")
    with MessageStore(root, config=keys):
        pass
    assert tree(root, "consumequeue", "consumequeue_ext") == before
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "consumequeue_ext")
    with MessageStore(root, config=keys):
        pass
    assert tree(root, "consumequeue", "consumequeue_ext") == before and len(before) > 10
