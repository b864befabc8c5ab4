from pathlib import Path

from flintmq.config.keys import StoreConfig
from flintmq.forensics.explain.file_kinds import FilePlace
from flintmq.forensics.explain.store_context import Around, describe, key_of
from flintmq.format.index import key_hash
from flintmq.storage.files.filesystem import REAL
from tests.support.makers import flip


def around(root: Path | None, kind: str = "consumequeue") -> Around:
    return Around(FilePlace(kind, "", None if root is None else str(root), 0, "Orders", 0), StoreConfig(), REAL)


def test_what_stands_at_log_offsets(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic")
    row = store.live[5]
    here = around(store.path)
    found = here.record(row["physical_offset"])
    assert found.message is not None and found.message.size == row["size"] and not found.problem
    assert found.text == describe(found.message) and f"{row['topic']}/{row['queue_id']}/" in found.text
    assert here.record(row["physical_offset"] + 1).text.startswith("there is no intact record: magic 0x")
    assert here.record(-1).problem and here.record(1 << 60).text == "after the log's last file"
    copy = store.copy(tmp_path)
    flip(copy / "commitlog" / "00000000000000000000", row["physical_offset"] + 8)
    wrong = around(copy).record(row["physical_offset"])
    assert wrong.problem and "body CRC" in wrong.text
    (copy / "commitlog" / "00000000000000000000").unlink()
    assert around(copy).record(5).text == "before the log's first file (131072): expired"
    assert not around(copy).record(5).problem


def test_without_a_store(tmp_path: Path) -> None:
    for root in (None, tmp_path):
        found = around(root).record(5)
        assert (found.message, found.problem, found.text) == (None, False, "there is no log beside this file")
        assert isinstance(around(root).ext(0), str)


def test_keys_by_their_hash(golden) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic")
    row = next(row for row in store.live if row["keys"] and row["tags"])
    message = around(store.path).record(row["physical_offset"]).message
    assert message is not None
    for key in (row["msg_id"], row["keys"].split(" ")[0], f"T#{row['tags']}"):
        assert key_of(message, key_hash(row["topic"], key)) == key
    assert key_of(message, 12345) is None
