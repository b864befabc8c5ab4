"""What two stores hold, compared file by file, without FlintMQ."""

import struct
from pathlib import Path
from typing import NamedTuple


class Log(NamedTuple):
    """The log files of a store, one after the other.

    Attributes:
        begin: log offset of the first byte; -1 if there is no file.
        data: all bytes.
        sizes: the files' sizes that occur.
    """

    begin: int
    data: bytes
    sizes: frozenset[int]

    def below(self, begin: int, end: int) -> bytes:
        """The bytes from one log offset to another."""
        return self.data[begin - self.begin : end - self.begin]


def read_log(store: Path) -> Log:
    """Read a store's log.

    Raises:
        AssertionError: a file is missing between two others.
    """
    folder = store / "commitlog"
    files = sorted(path for path in folder.iterdir() if path.name.isdigit()) if folder.is_dir() else []
    if not files:
        return Log(-1, b"", frozenset())
    begin, data, sizes = int(files[0].name), bytearray(), set()
    for path in files:
        assert int(path.name) == begin + len(data), f"{path} does not begin where the file before it ends"
        got = path.read_bytes()
        data += got
        sizes.add(len(got))
    return Log(begin, bytes(data), frozenset(sizes))


def written_end(log: Log) -> int:
    """The log offset after the last record, or blank, of a log that nobody writes."""
    at = log.begin
    while at < log.begin + len(log.data):
        (size,) = struct.unpack_from(">I", log.data, at - log.begin)
        if size == 0:
            break
        at += size
    return at


def check_prefix(ours: Log, theirs: Log, file_size: int) -> None:
    """The follower has the master's bytes from its begin on, then zeros, in files of the right size.

    Raises:
        AssertionError: it has not.
    """
    if ours.begin < 0:
        return
    assert ours.sizes <= {file_size}, ours.sizes
    assert ours.begin >= theirs.begin, (ours.begin, theirs.begin)
    held = ours.data.rstrip(b"\0")
    same = theirs.below(ours.begin, ours.begin + len(held))
    if same != held:
        at = next((n for n, (a, b) in enumerate(zip(held, same, strict=False)) if a != b), min(len(held), len(same)))
        raise AssertionError(f"another byte at log offset {ours.begin + at}, of {ours.begin + len(held)} held")


def check_acknowledged(ours: Log, theirs: Log, reported: int) -> None:
    """What was acknowledged is in the follower's files.

    Raises:
        AssertionError: it is not.
    """
    if reported > 1:
        assert ours.begin >= 0, f"{reported} is acknowledged, and there is no log"
        assert ours.below(ours.begin, reported) == theirs.below(ours.begin, reported), f"{reported} is acknowledged"
