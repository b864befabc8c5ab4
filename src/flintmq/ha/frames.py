"""The two layouts on the line between a master and its followers.

Upstream: DefaultHAConnection, DefaultHAClient.

A follower sends reports, each a log offset: the first says from where it wants the log, each later one how far it has
it. The master sends frames: a header, then bytes of the log as they are in its file. A frame without bytes is a
heartbeat; its offset is the next one. A frame never crosses the end of a log file, and may begin and end within a
record. Nothing else is on the line: no greeting, no version, no checksum.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from flintmq.format.layout import Int, Layout


class FrameHeader(NamedTuple):
    offset: Annotated[int, Int("i64", "log offset of the first byte that follows")]
    size: Annotated[int, Int("i32", "number of bytes that follow; 0: a heartbeat")]


class OffsetReport(NamedTuple):
    offset: Annotated[int, Int("i64", "first: where to begin; later: the follower has the log below it")]


FRAME_HEADER: Final = Layout("Frame header", FrameHeader)
REPORT: Final = Layout("Offset report", OffsetReport)

LAST_FILE: Final = 0
"""As the first report: send the last file of the log (not the whole log)."""
