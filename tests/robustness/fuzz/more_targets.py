"""Fuzz targets of what stands above the formats: lists, tables of config/, options, filters. Others: `targets.py`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from flintmq.errors import FlintError
from flintmq.format import text
from flintmq.lake.offsets import EARLIEST, parse_assignment, parse_json_offsets
from flintmq.message import stored_message
from flintmq.storage.filesystem import REAL
from flintmq.store.commitlog.files import LARGEST_OFFSET, LogFiles
from flintmq.store.commitlog.predicate import Predicate, Selector
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.consumequeue import known_ends
from flintmq.store.layout.config_reader import read_config
from flintmq.store.layout.directories import CONFIG
from tests.robustness.fuzz.targets import TARGETS, target
from tests.robustness.hostile.records import LOG

__all__ = ["TARGETS"]
_FOLDER = Path(tempfile.mkdtemp(prefix="flintmq-fuzz-"))


@target
def queue_ends(data: bytes) -> None:
    """`flintmq.queues`: nothing, or ends that can be; what is written again reads the same."""
    (_FOLDER / known_ends.FILE_NAME).write_bytes(data)
    found = known_ends.read(str(_FOLDER), REAL)
    assert all(isinstance(topic, bytes) and 0 <= end <= LARGEST_OFFSET for (topic, _), end in found.items())
    known_ends.write(str(_FOLDER), found, REAL)
    again = known_ends.read(str(_FOLDER), REAL)
    assert again.items() <= found.items()
    assert known_ends.lost(again, again) == []


@target
def config_tables(data: bytes) -> None:
    """The tables of config/, with one of them as it is told by the first byte: problems are told, never raised."""
    folder = _FOLDER / CONFIG
    folder.mkdir(exist_ok=True)
    names = ("topics.json", "consumerOffset.json", "delayOffset.json", "subscriptionGroup.json")
    for n, name in enumerate(names):
        (folder / name).write_bytes(data[1:] if data and data[0] % len(names) == n else b"{}")
        (folder / f"{name}.bak").unlink(missing_ok=True)
    found = read_config(str(_FOLDER))
    for name, topic in found.topics.items():
        assert isinstance(name, str) and found.is_batch(name) in (True, False) and topic is not None
    assert all(len(str(problem)) < 2000 for problem in found.problems)


@target
def spark_offsets(data: bytes) -> None:
    """Offsets and assignments as JSON: refused, or whole numbers of 64 bits for queues that can be."""
    word = text.java_decode(data)
    try:
        assigned = parse_assignment("assign", word)
    except FlintError:
        pass
    else:
        assert all(ids and all(0 <= queue < 10**10 for queue in ids) for ids in assigned.values())
    for (topic, queue), offset in parse_json_offsets("startingOffsets", word).items():
        assert isinstance(topic, str) and 0 <= queue < 10**10 and EARLIEST <= offset < 1 << 63


@target
def filters(data: bytes) -> None:
    """Any names as topics, pattern and tags: the kernel wants what the clear form wants."""
    words = [text.java_decode(word) for word in data.split(b"\n")]
    topic, pattern, tag = (*words, "", "", "")[:3]
    for predicate in (
        Predicate(topics=frozenset({topic, "Basic"})),
        Predicate(
            topic_pattern=pattern[:20].replace("*", ".").replace("+", ".").replace("{", ".")
        ),  # none that never ends
        Predicate(tags=frozenset({tag, "t"}), queue_ids=frozenset({len(data) % 3})),
    ):
        selector, log = Selector(predicate), _log()
        for piece in LogWalk(log):
            every = [stored_message(piece.data, at) for at in piece.positions[: piece.count]]
            wanted = [m.physical_offset for m in every if predicate.wants(m)]
            count = selector.select(piece)
            assert [piece.base + at for at in piece.positions[:count]] == wanted


def _log() -> LogFiles:
    """A log with every kind of record."""
    folder = _FOLDER / "commitlog"
    if not folder.is_dir():
        folder.mkdir()
        (folder / f"{0:020}").write_bytes(LOG)
    return LogFiles.discover([str(folder)])
