"""`flintmq tail --follow`, and a consumer of a view, on a store that RocketMQ is writing."""

import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from flintmq.store.view import open_store
from tests.interop.running_broker import java_of

pytestmark = pytest.mark.slow

KEYS = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 2000,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2000,
}
SECONDS = 120


def test_a_store_that_java_is_writing(tmp_path: Path):
    java, root = java_of("5.3.3"), tmp_path / "store"
    with MessageStore(root, config=KEYS, unique_keys=False) as store:
        store.put(Message("T", b"first"))
    ops = [{"op": "put", "topic": "T", "queue": n % 3, "tags": "a", "body": f"{n}"} for n in range(20)]
    ops += [{"op": "dispatch"}, {"op": "sleep", "ms": 8000}]
    answers: list[dict[str, object]] = []
    running = threading.Thread(target=lambda: answers.extend(java("run", root, KEYS, ops, ["T"])))
    words = [sys.executable, "-m", "flintmq", "tail", str(root), "T", "--follow", "--format", "{body}"]
    tail = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert tail.stdout is not None and tail.stderr is not None
    lines: queue.Queue[str] = queue.Queue()
    reading = threading.Thread(target=lambda: [lines.put(line) for line in tail.stdout])
    try:
        reading.start()
        assert lines.get(timeout=SECONDS) == "first\n"
        running.start()
        assert [lines.get(timeout=SECONDS) for _ in range(20)] == [f"{n}\n" for n in range(20)], "as they come"
        with open_store(root, set=KEYS) as view, view.consumer("G", "T") as consumer:
            assert running.is_alive() and view.live, "Java has it open"
            got = sorted(m.body for m in consumer.poll(100, wait_ms=1000))
            assert got == sorted([b"first", *(b"%d" % n for n in range(20))])
        tail.send_signal(signal.SIGINT)
        assert tail.wait(20) == 130 and tail.stderr.read() == ""
    finally:
        tail.kill()
        tail.wait()
        reading.join()
        tail.stdout.close()
        tail.stderr.close()
        running.join()
    assert [row["status"] for row in answers[:20]] == ["PUT_OK"] * 20
