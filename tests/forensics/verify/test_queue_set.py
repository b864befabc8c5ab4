"""All queues together: which there are, missing ones, ends, and what a store without queues is told."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.forensics.rebuild import rebuild
from flintmq.forensics.salvage.in_place import plan_in_place
from flintmq.forensics.salvage.into import salvage_into
from flintmq.forensics.verify.context import Ground
from flintmq.forensics.verify.findings import Findings
from flintmq.forensics.verify.queue_files import Disk
from flintmq.forensics.verify.queue_set import QueueSet
from flintmq.forensics.verify.run import verify
from flintmq.storage.files.filesystem import REAL
from flintmq.store import assembly
from flintmq.store.layout import file_geometry
from flintmq.store.layout.config_reader import read_config
from flintmq.store.message_store import MessageStore
from tests.compat.stores import Golden
from tests.support.engine import KEYS, open_small, put_all
from tests.support.makers import check, codes, config_of, tiny


def topics(root: Path, *names: str) -> None:
    (root / "config").mkdir(exist_ok=True)
    table = {name: {"topicName": name} for name in names}
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))


def test_engine_rebuild_and_verify_have_one_rule_for_the_size_of_queue_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What most files of the first queues have, though most of all files have another size."""
    monkeypatch.setattr(file_geometry, "QUEUES", 3)
    monkeypatch.setattr(assembly, "refuse_other_sizes", lambda *_: None)  # 0.1.0 opened a store with any size
    for topic, queues, size in (("A", 3, 200), ("B", 5, 400)):
        with open_small(tmp_path / "s", mappedFileSizeConsumeQueue=size) as store:
            put_all(store, 1, topic=topic, queue_id=0)
            for queue in range(1, queues):
                put_all(store, 1, topic=topic, queue_id=queue)
            assert store.wait_dispatched(60)
    keys = {name: value for name, value in KEYS.items() if name != "mappedFileSizeConsumeQueue"}
    with MessageStore(tmp_path / "s", config=keys) as store:
        assert store.config.mapped_file_size_consume_queue == 200
    config = StoreConfig.from_keys(keys)
    rebuild(str(tmp_path / "s"), str(tmp_path / "made"), config)
    assert {file.stat().st_size for file in (tmp_path / "made/consumequeue").rglob("0" * 20)} == {200}
    found = [defect for defect in verify(str(tmp_path / "s"), config).defects if defect.code == "queue-file-size"]
    assert len(found) == 5 and {(defect.expected, defect.found) for defect in found} == {("200 bytes", "400 bytes")}
    assert all("/consumequeue/B/" in str(defect.file) for defect in found)


def test_a_queue_without_files(golden: Callable[[str], Golden], tmp_path: Path):
    store, root = golden("basic"), golden("basic").copy(tmp_path)
    shutil.rmtree(root / "consumequeue" / "Orders" / "1")
    found = check(root, store, defects={"queue-missing"})
    assert found.defects[0].file == str(root / "consumequeue" / "Orders" / "1")
    (root / "consumequeue" / "Orders" / "1").mkdir()
    check(root, store, defects={"queue-missing"})
    shutil.rmtree(root / "consumequeue" / "Orders")
    assert check(root, store, defects={"queue-missing"}).defect_count == 4


def test_a_topic_no_longer_configured(golden: Callable[[str], Golden], tmp_path: Path):
    store, root = golden("basic"), golden("basic").copy(tmp_path)
    shutil.rmtree(root / "consumequeue" / "库存")
    topics(root, "Orders", "Payments")
    check(root, store, notes={"queue-unconfigured"})
    topics(root, "Orders", "库存")
    check(root, store, defects={"queue-missing"})
    topics(root, "Orders")
    (root / "consumequeue" / "库存" / "0").mkdir(parents=True)  # some of it is there, so it was not deleted
    check(root, store, defects={"queue-missing"})


def test_a_store_without_queues(golden: Callable[[str], Golden], tmp_path: Path):
    store, root = golden("basic"), golden("basic").copy(tmp_path)
    shutil.rmtree(root / "consumequeue")
    check(root, store, notes={"no-queues"})
    (root / "consumequeue" / "Orders").mkdir(parents=True)
    check(root, store, notes={"no-queues"})


def test_a_topic_that_cannot_be_a_directory(tmp_path: Path):
    store = tiny(tmp_path, {"topic": b"../evil"}, {"topic": b"a\0b"}, {"topic": b""}, {"topic": b"."}, {})
    store.queue("Topic", 0, [store.unit(4)])
    found, notes = codes(store.verify())
    assert (found, notes["topic-name"]) == ({}, 4)


def test_topics_that_are_no_text(tmp_path: Path):
    store = tiny(tmp_path, {"topic": b"\xff\xfe"}, {})
    store.queue("Topic", 0, [store.unit(1)])
    store.queue("\udcff\udcfe", 0, [store.unit(0)])  # raw bytes, as RocketMQ names directories
    assert codes(store.verify()) == ({}, {"text-odd": 1})


def test_a_queue_that_the_log_gives_nothing(golden: Callable[[str], Golden], tmp_path: Path):
    store, root = golden("basic"), golden("basic").copy(tmp_path)
    shutil.copytree(root / "consumequeue" / "Orders", root / "consumequeue" / "Copies")
    check(root, store, notes={"units-ghost"})


def test_file_sizes(golden: Callable[[str], Golden], tmp_path: Path):
    store, root = golden("basic"), golden("basic").copy(tmp_path)
    path = root / "consumequeue" / "Orders" / "3" / f"{2000:020}"
    path.write_bytes(path.read_bytes() + bytes(20))
    for config in (config_of(store), None):  # by the key, by what the others have
        assert verify(root, config).defect_counts == {"queue-file-size": 1}
    path.unlink()
    check(root, store, defects={"queue-gap", "unit-missing"})


def test_ends_of_queues(golden: Callable[[str], Golden]):
    """The end that offsets are compared with: the queue's own, and where the log has more, the log's."""
    for name in ("rolled", "basic", "batch", "config", "lmq"):  # "rolled" has queues of expired units only
        queues = _compared(golden(name))
        rows = [row for row in golden(name).queue_rows if row["kind"] == "queue"]
        assert [queues.end_of(row["topic"], row["queue_id"]) for row in rows] == [row["max"] for row in rows]
    assert queues.end_of("none", 0) is None
    assert _compared(golden("stale")).end_of("Stale", 1) == 100  # with the ghosts in its files
    assert _compared(golden("crash")).end_of("Ash", 0) == 20  # one of them not dispatched yet


def _compared(store: Golden) -> QueueSet:
    from flintmq.forensics.verify.run import VerifyRun

    seen: list[QueueSet] = []

    class Spy(QueueSet):
        def finish(self) -> None:
            seen.append(self)
            super().finish()

    import flintmq.forensics.verify.verify_pass as module

    original, module.QueueSet = module.QueueSet, Spy  # type: ignore[misc]
    try:
        VerifyRun(str(store.path), config_of(store), Disk(REAL)).run(None, "pread")
    finally:
        module.QueueSet = original  # type: ignore[misc]
    return seen[0]


def test_narrowing_what_is_compared(golden: Callable[[str], Golden]):
    """A task of a cluster compares some queues only."""
    store = golden("basic")
    found = Findings()
    queues = QueueSet(str(store.path), config_of(store), read_config(str(store.path)), Disk(REAL), Ground(found))
    for kind, names in queues.on_disk.items():
        queues.on_disk[kind] = [name for name in names if name.topic == "Orders"]
    queues.finish()
    assert queues.count == 4
    assert found.note_counts == {"units-ghost": 4}  # nothing was taken


def test_queues_of_another_type_than_their_topic(tmp_path: Path):
    """RocketMQ does not start beside them; salvage moves them aside, and makes the right ones."""
    root = tmp_path / "s"
    with open_small(root) as store:
        store.create_topic("Bulk", 1, "BatchCQ")
        put_all(store, 3, topic="Plain")
        put_all(store, 3, topic="Bulk")
        assert store.wait_dispatched(60)
    config = StoreConfig.from_keys(KEYS)
    assert verify(root, config).defect_counts == {}
    shutil.copytree(root / "consumequeue" / "Plain", root / "consumequeue" / "Bulk")
    shutil.copytree(root / "batchconsumequeue" / "Bulk", root / "batchconsumequeue" / "Plain")
    (root / "batchconsumequeue" / "Unnamed" / "0").mkdir(parents=True)
    found = verify(root, config)
    assert found.defect_counts["queue-kind"] == 3
    texts = {Path(defect.file).parts[-3:]: defect.expected for defect in found.defects if defect.code == "queue-kind"}
    assert texts["consumequeue", "Bulk", "0"].endswith("topics.json says BatchCQ")
    assert texts["batchconsumequeue", "Plain", "0"].endswith("topics.json says SimpleCQ")
    assert "does not name the topic" in texts["batchconsumequeue", "Unnamed", "0"]
    salvage_into(str(root), str(tmp_path / "into"), config)
    assert verify(tmp_path / "into", config).defect_counts == {}
    with plan_in_place(str(root), config) as mending:
        mended = mending.carry_out()
    assert mended.left == {"queue-kind": 1}, "of a topic that nothing names a type for"
    for kind, topics_there in (("consumequeue", ["Plain"]), ("batchconsumequeue", ["Bulk", "Unnamed"])):
        assert sorted(path.name for path in (root / kind).iterdir()) == topics_there
    (root / "batchconsumequeue" / "Unnamed" / "0").rmdir()
    assert verify(root, config).defect_counts == {}


def test_without_topics_json_no_type_is_wrong(tmp_path: Path):
    with open_small(tmp_path / "s") as store:
        store.create_topic("Bulk", 1, "BatchCQ")
        put_all(store, 3, topic="Bulk")
        assert store.wait_dispatched(60)
    shutil.rmtree(tmp_path / "s" / "config")
    assert "queue-kind" not in verify(tmp_path / "s", StoreConfig.from_keys(KEYS)).defect_counts
