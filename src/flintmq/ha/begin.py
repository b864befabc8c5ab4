"""Finds the log offset at which an empty follower begins.

A master never says where its log begins. It answers a first report with data if it has the bytes there, and otherwise
with a heartbeat after 5 s; the report 0 gives its last file, whatever its first is. So the begin of its log is found by
asking at begins of files, each question on a connection of its own:

    ask 1               data at once: the log begins at 0. Byte 0 is not sent; it is the high byte of the first
                        record's size, and must be 0 for that record to count.
    else ask 0          the frame's offset is the last file's. At 0: the log is short or empty, and begins there.
    else bisect         between 0, which is not there, and the last file, which is
    then ask once more  the file before the one found, until a heartbeat says that it is not there: a slow answer must
                        not cost a file
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from flintmq.errors import DivergedError, OffsetGoneError, ReplicationError, UsageError
from flintmq.ha.connection import MasterConnection
from flintmq.ha.follower_line import SILENCE_S, Received
from flintmq.ha.frames import LAST_FILE

ANSWER_S: Final = 1.5
"""Seconds without data after which a place is taken for one that the master does not have."""

Ask = Callable[[int, int | None], MasterConnection]
"""(first report, offset that is due or None) -> an open line."""


def report_for(offset: int) -> int:
    """Return the report that asks for the log from an offset on; 0 would ask for the last file."""
    return max(offset, 1)


class BeginSearch:
    def __init__(self, ask: Ask, file_size: int, stopped: Callable[[], bool]) -> None:
        self._ask, self._file_size, self._stopped = ask, file_size, stopped

    def line_at(self, begin: str | int, first: int = 0) -> MasterConnection:
        """Return a line on which the master sends its log from a begin on.

        `first`: of the first file, as the broker said; it may have deleted that since, and then "first" is searched.
        """
        if begin == "last":
            return self.last_file()[0]
        if begin != "first" and not isinstance(begin, int):
            raise UsageError(f"begin {begin!r} is neither first, last nor the log offset of a file")
        offset = first if begin == "first" else int(begin)
        if offset < 0 or offset % self._file_size:
            text = f"no log file of {self._file_size} bytes begins at offset {offset}; begin at a multiple of that"
            raise ReplicationError("geometry", text)
        line = self.line_if_there(offset, ANSWER_S)
        if line is not None:
            return line
        line, last = self.last_file()
        if offset == last:
            return line
        line.close()
        if begin != "first" or offset > last:
            kind = OffsetGoneError if offset < last else DivergedError
            reason = "gone" if offset < last else "behind"
            raise kind(reason, f"the master has no log file at offset {offset}; its last one begins at {last}")
        return self._first_between(offset, last)

    def line_if_there(self, offset: int, seconds: float) -> MasterConnection | None:
        asked = report_for(offset)
        line, got = self._answered(asked, asked, seconds)
        if got is not None and line.line.frames:
            return line
        line.close()
        return None

    def last_file(self) -> tuple[MasterConnection, int]:
        """Return a line from the begin of the last file on, and that offset."""
        line, got = self._answered(LAST_FILE, None, SILENCE_S)
        if got is None or got.offset is None:
            line.close()
            raise TimeoutError(f"the master sent nothing for {SILENCE_S:.0f} s")
        return line, got.offset

    def _answered(self, report: int, due: int | None, seconds: float) -> tuple[MasterConnection, Received | None]:
        line = self._ask(report, due)
        try:
            return line, line.first_frame(seconds, self._stopped)
        except BaseException:
            line.close()
            raise

    def _first_between(self, missing: int, there: int) -> MasterConnection:
        """Return a line from the first file on; none begins at `missing`, and one begins at `there`."""
        size, last = self._file_size, there
        while True:
            while there - missing > size:
                middle = missing + (there - missing) // size // 2 * size
                line = self.line_if_there(middle, ANSWER_S)
                if line is None:
                    missing = middle
                else:
                    line.close()
                    there = middle
            line = self.line_if_there(missing, SILENCE_S)  # a heartbeat ends this wait
            if line is None:
                break
            line.close()
            there, missing = missing, 0
            if there == 0:
                break
        found = self.line_if_there(there, ANSWER_S)
        if found is None and there == last:  # it may be empty
            found, last = self.last_file()
        if found is None or there > last:
            raise ConnectionError(f"the master's file at log offset {there} is no longer there")
        return found
