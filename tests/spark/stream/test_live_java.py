"""A stream over a store that Apache RocketMQ is writing."""

import subprocess

import pytest

from flintmq.storage.files.lock import is_live
from tests.interop.java import VERSIONS, Java, home
from tests.spark.stream.drive import Query, place

pytestmark = pytest.mark.slow
KEYS = {"mappedFileSizeCommitLog": 65536, "mappedFileSizeConsumeQueue": 2000}


@pytest.mark.parametrize("version", VERSIONS)
def test_while_java_writes(tmp_path, version):
    built, why = home(version)
    if built is None:
        pytest.skip(why)
    ops = []
    for turn in range(12):
        topics = ["T0", "T1"] if turn < 6 else ["T0", "T1", "T2"]
        ops += [{"op": "gen", "count": 100, "seed": turn, "topics": topics, "queues": 3}, {"op": "sleep", "ms": 150}]
    java, root = Java(version, built), tmp_path / "store"
    words = java.words("run", root, KEYS, ops, ["T0", "T1", "T2"], tmp_path)
    found, batches, lives = [], 0, 0
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as running:
        while not (root / "commitlog").exists() and running.poll() is None:
            pass
        query = Query(root, maxOffsetsPerTrigger=130, **KEYS)
        while running.poll() is None:
            live = is_live(str(root))
            if query.plan():
                found += query.run()
                batches, lives = batches + 1, lives + live
            if batches % 3 == 2:
                query.restart()
        assert running.returncode == 0, running.stderr.read()[-500:]
    query.restart()
    found += [row for bite in query.bites() for row in bite]
    scanned = java("scan", root, KEYS, [], ["T0", "T1", "T2"])
    want = [(row["topic"], row["queue_id"], row["queue_offset"]) for row in scanned]
    assert sorted(map(place, found)) == sorted(want) and len(want) == 1200
    assert batches > 3 and lives > 2, "it was written meanwhile"
