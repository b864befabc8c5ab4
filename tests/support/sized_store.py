"""A store with files of every kind, and what is said of a size that they contradict."""

import hashlib
import json
from pathlib import Path

from flintmq import Message, MessageStore

SIZES = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 400,
    "mapperFileSizeBatchConsumeQueue": 460,
    "mappedFileSizeConsumeQueueExt": 300,
    "maxHashSlotNum": 50,
    "maxIndexNum": 200,
    "mappedFileSizeTimerLog": 6800,
}
FOLDERS = {
    "mappedFileSizeCommitLog": "commitlog",
    "mappedFileSizeConsumeQueue": "consumequeue",
    "mapperFileSizeBatchConsumeQueue": "batchconsumequeue",
    "mappedFileSizeConsumeQueueExt": "consumequeue_ext",
    "maxHashSlotNum": "index",
    "maxIndexNum": "index",
    "mappedFileSizeTimerLog": "timerlog",
}
OTHERS = [(key, size) for key, shown in SIZES.items() for size in (shown * 15, shown // 2)]


def make_all_kinds(root: Path) -> None:
    """A store with files of every kind, closed cleanly."""
    (root / "config").mkdir(parents=True)
    table = {"Bulk": {"attributes": {"queue.type": "BatchCQ"}, "topicName": "Bulk"}}
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    keys = {key: size for key, size in SIZES.items() if key != "mappedFileSizeTimerLog"}
    with MessageStore(root, keys, enable_consume_queue_ext=True) as store:
        for number in range(60):
            store.put(Message("T", b"%d" % number, keys=f"k{number}", tags="a")).raise_for_status()
        for result in store.put_batch([Message("Bulk", b"x"), Message("Bulk", b"y")]):
            result.raise_for_status()
        with store.consumer("g", "T") as consumer:
            consumer.poll(10)
            consumer.commit()
    (root / "timerlog").mkdir()  # as a broker makes it; FlintMQ writes no timer
    for number in range(2):
        (root / "timerlog" / f"{number * 6800:020d}").write_bytes(bytes(6800))


def digest(root: Path) -> str:
    """One digest of every name, length and byte below a directory, and of the times of its files."""
    found = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        found.update(f"{path.relative_to(root)} {path.stat().st_mtime_ns}\n".encode())
        found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()


def says_why(text: str, key: str, value: int, root: Path) -> None:
    """One line with the key, the number given, the number that the files show, and the path of one of them."""
    folder = root / FOLDERS[key]
    shown = SIZES[key] if folder.name != "index" else 50 if key == "maxHashSlotNum" else 200
    assert f"{key}={value}" in text and f" {shown} " in text and f"{folder}/" in text, text
    assert text.count("\n") == 0 and "leave it out" in text
