"""Reads the timer log and `config/timercheck`, which say what still waits for its time.

All units whose slot is not before `last_read_time` wait, and so do records of the timer's topic from `queue_offset` on,
which have no unit yet. The wheel holds nothing that the log does not. Upstream: TimerMessageStore.recover.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from flintmq.errors import FormatError
from flintmq.format import timer
from flintmq.format.timer import LogUnit, TimerCheck, TimerLogEnd
from flintmq.storage.files.filesystem import Effects
from flintmq.store.layout import directories
from flintmq.store.layout.file_geometry import common_size, sized_files

WHEEL: Final = re.compile(r"timerwheel(\.[0-9]{1,19})?", re.ASCII)
"""The wheel, and copies that 5.4.0 makes of it."""
CHECK: Final = "timercheck"
_BLOCK: Final = 20_000 * timer.LOG_UNIT.size


class TimerLogFile(NamedTuple):
    start: int  # timer log position of its first byte
    size: int
    path: str


def log_files(root: str, effects: Effects) -> list[TimerLogFile]:
    """List the files of the timer log in order, up to one that is missing."""
    listed = sized_files(os.path.join(root, directories.TIMER_LOG), effects)
    size = common_size((file.size for file in listed), 0)
    found: list[TimerLogFile] = []
    for path in sorted(file.path for file in listed if file.size == size):
        file = TimerLogFile(int(os.path.basename(path)), size, path)
        if found and file.start != found[-1].start + size:
            break
        found.append(file)
    return found


def log_units(files: list[TimerLogFile], log_end: int, effects: Effects) -> Iterator[tuple[int, LogUnit]]:
    """Yield each unit of the timer log with its position.

    The log ends before bytes that are no unit, and before a unit of a record that the commit log [.., `log_end`) has
    not: after a power cut the timer log may be further than the commit log (upstream defect D26).
    """
    for file in files:
        ended = False
        with effects.reading(file.path) as fd:
            for block in range(0, file.size, _BLOCK):
                data = effects.pread(fd, _BLOCK, block)
                for at in range(0, len(data), timer.LOG_UNIT.size):
                    try:
                        unit = timer.decode_log(data, at)
                    except FormatError:
                        return
                    if isinstance(unit, TimerLogEnd):
                        ended = True
                        break
                    if unit.physical_offset + unit.record_size > log_end:
                        return
                    yield file.start + block + at, unit
                if ended:
                    break
        if not ended:
            return


def usable_check(root: str, effects: Effects) -> TimerCheck | None:
    """Read `config/timercheck`; None if there is none, it cannot be used, or says nothing yet."""
    data = effects.read_file(os.path.join(root, directories.CONFIG, CHECK), timer.TIMER_CHECK_SIZE)
    try:
        check = timer.decode_check(data or b"")
    except FormatError:
        return None
    return check if min(check) >= 0 and check.last_read_time else None


def read_check(root: str, effects: Effects) -> TimerCheck:
    """Read `config/timercheck`; all zeros if `usable_check` returns None."""
    return usable_check(root, effects) or TimerCheck()
