"""What paths and contents tell."""

from pathlib import Path

import pytest

from flintmq.forensics.explain import file_kinds
from flintmq.format import flintmq_mark
from tests.compat.stores import Golden

N = "00000000000000000020"


@pytest.mark.parametrize(
    ("path", "kind", "root", "start"),
    [
        (f"/s/commitlog/{N}", "commitlog", "/s", 20),
        (f"/config/commitlog/{N}", "commitlog", "/config", 20),
        (f"/s/consumequeue/quarantine/0/{N}", "consumequeue", "/s", 20),
        (f"/s/consumequeue/consumequeue/0/{N}", "consumequeue", "/s", 20),
        (f"/s/consumequeue_ext/T/0/{N}", "consumequeue_ext", "/s", 20),
        (f"/s/batchconsumequeue/T/0/{N}", "batchconsumequeue", "/s", 20),
        (f"/s/compaction/compactionLog/T/0/{N}", "compactionlog", "/s", 20),
        (f"/s/compaction/compactionCq/T/0/{N}", "compactioncq", "/s", 20),
        ("/s/compaction/position-checkpoint.bak", "json", "/s", None),
        (f"/s/timerlog/{N}", "timerlog", "/s", 20),
        ("/s/index/20261120093620560", "index", "/s", None),
        ("/s/config/topics.json", "json", "/s", None),
        ("/s/config/timercheck", "timercheck", "/s", None),
        ("/config/checkpoint", "checkpoint", "/config", None),
        ("/config/timerwheel", "timerwheel", "/config", None),
        ("/s/timerwheel.5200", "timerwheel", "/s", None),
        ("/s/flintmq.mark", "mark", "/s", None),
        ("/s/abort", "text", "/s", None),
        ("/s/salvage.jsonl", "text", "/s", None),
        ("/s/rocksdbstore/CURRENT", "other", "/s", None),
        ("/s/consumequeue/CURRENT", "other", "/s", None),
        (f"/s/quarantine/{N}-1700000000000.record", "commitlog", "/s", 20),
        (f"/s/quarantine/salvage-0001/ranges/{N}-4096", "commitlog", "/s", 20),
        (f"/s/quarantine/salvage-0001/before/{N}-100", "commitlog", "/s", 120),
        (f"/s/quarantine/salvage-0001/before/{N}.excess", "commitlog", "/s", 20),
        (f"/s/quarantine/salvage-0001/old/consumequeue/T/3/{N}", "consumequeue", "/s", 20),
        ("/s/quarantine/salvage-0001/journal.json", "text", "/s/quarantine/salvage-0001", None),
        ("s3://bucket/s/checkpoint", "checkpoint", "s3://bucket/s", None),
    ],
)
def test_by_path(path: str, kind: str, root: str, start: int | None) -> None:
    place = file_kinds.by_path(path)
    assert place is not None and (place.kind, place.root, place.start) == (kind, root, start)


def test_the_queue_is_in_the_path() -> None:
    place = file_kinds.by_path(f"/s/consumequeue/%RETRY%g/7/{N}")
    assert place is not None and (place.topic, place.queue_id) == ("%RETRY%g", 7)
    odd = file_kinds.by_path(f"/s/consumequeue/T/x/{N}")
    assert odd is not None and (odd.topic, odd.queue_id) == ("T", None)


@pytest.mark.parametrize("path", [f"/tmp/{N}", "/s/index/file", "/s/commitlog/x", "/somewhere/what", "/"])
def test_paths_that_tell_nothing(path: str) -> None:
    assert file_kinds.by_path(path) is None


def test_by_content(golden_store: Golden) -> None:
    """Files of golden stores under another name: what is recognised is right, and what must be is recognised."""
    seen = set()
    for path in golden_store.path.rglob("*"):
        place = file_kinds.by_path(str(path)) if path.is_file() else None
        if place is None or place.kind in (file_kinds.OTHER, file_kinds.TEXT):
            continue
        with path.open("rb") as file:
            found = file_kinds.by_content(file.read(4096), path.stat().st_size)
        assert found is None or found.kind == place.kind, path
        if found is not None:
            seen.add(found.kind)
            assert found.kind != file_kinds.LOG or found.start in (None, place.start), path
    assert {"commitlog", "consumequeue", "index"} <= seen


@pytest.mark.parametrize("data", [b"", b"\0" * 4096, b"\xff" * 4096, b"hello", bytes(range(256))])
def test_contents_that_tell_nothing(data: bytes) -> None:
    assert file_kinds.by_content(data[:4096], len(data)) is None


def test_a_mark_by_content(tmp_path: Path) -> None:
    found = file_kinds.by_content(flintmq_mark.encode(7, 8), flintmq_mark.MARK.size)
    assert found is not None and found.kind == file_kinds.MARK
