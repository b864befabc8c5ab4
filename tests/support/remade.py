"""A topic that was deleted and made again: its messages in the log twice, its queue with the later ones alone."""

import struct
from pathlib import Path

LOG_FILE = 64 * 1024  # bytes; the size of the log files of the stores that `number_anew` changes


def number_anew(path: Path, topic: str, old: int) -> None:
    """Give the messages behind the first `old` ones of a queue offsets from 0 on, and the queue their units alone."""
    file = path / "consumequeue" / topic / "0" / f"{0:020d}"
    units = file.read_bytes()
    file.write_bytes(units[20 * old :] + bytes(20 * old))
    for at in range(20 * old, len(units), 20):
        physical, size = struct.unpack_from(">qi", units, at)
        if size:
            with (path / "commitlog" / f"{physical - physical % LOG_FILE:020d}").open("r+b") as log:
                log.seek(physical % LOG_FILE + 20)
                log.write(struct.pack(">q", at // 20 - old))
