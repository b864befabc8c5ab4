"""Plans the micro-batches of an export: of one store, or of several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flintmq.cluster.member import Member
from flintmq.lake.export.export import task_name
from flintmq.lake.stream import plan
from flintmq.lake.stream.members import StoresStream
from flintmq.lake.stream.options import StreamOptions
from flintmq.lake.stream.reader import StoreStream, log_line
from flintmq.lake.table.target import Manifest
from flintmq.store.commitlog.anchor import KnownLog

Offsets = Mapping[str, Any]
"""An offset of StoreStream, or of StoresStream."""


@dataclass(frozen=True)
class PartTask:
    """A part of a micro-batch that one task exports.

    Attributes:
        name, member: as in RangeTask.
        part: the part.
    """

    name: str
    member: Member | None
    part: plan.StreamTask

    @property
    def broker(self) -> str | None:
        """Name of the broker; None for an only store."""
        return None if self.member is None else self.member.broker


class StreamSource:
    """The stream of an export: of one store, whose broker is None, or of several.

    Args:
        options: options of the stream.
        tell, lose: as of StoreStream and StoresStream.
    """

    def __init__(
        self, options: StreamOptions, tell: Callable[[str], None] = log_line, lose: Callable[[str], None] | None = None
    ) -> None:
        self.read = options.read
        self.stream: Any = (StoresStream if self.read.many else StoreStream)(options, tell, lose)

    @property
    def left_out(self) -> list[str]:
        """The sentences about named stores that are not there now, as of StoresStream."""
        return self.stream.left_out if self.read.many else []

    def logs(self) -> dict[str | None, KnownLog]:
        """Return the log of each store that is there."""
        return self.stream.logs() if self.read.many else {None: self.stream.log}

    def offsets(self, last: Manifest) -> Offsets:
        """Return the offset at which the last export ended."""
        if not self.read.many:
            return last.offsets or {}
        return {broker: one.offsets for broker, one in (last.members or {}).items() if one.offsets is not None}

    def by_store(self, offset: Offsets) -> dict[str | None, Mapping[str, int]]:
        """Divide an offset among the stores."""
        if not self.read.many:
            return {None: offset}
        found: dict[str | None, Mapping[str, int]] = {}
        found.update(offset.items())
        return found

    def tasks(self, start: Offsets, end: Offsets) -> list[PartTask]:
        """Plan the tasks of a micro-batch."""
        found = self.stream.tasks(start, end)
        if not self.read.many:
            return [PartTask(task_name(0, None, part.begin), None, part) for part in found]
        numbers = {broker: number for number, broker in enumerate(sorted(end))}
        return [PartTask(task_name(numbers[one.broker], one, part.begin), one, part) for one, part in found]
