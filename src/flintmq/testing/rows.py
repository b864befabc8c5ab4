"""Messages as columns, in the form that kernels/write/encode takes."""

from __future__ import annotations

from array import array

from flintmq.kernels.write import encode
from flintmq.store.commitlog.bulk_writer import LogRoom


class Column:
    """Byte strings of many rows: one buffer, and begin and end of each row's bytes."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.starts = array("q")
        self.ends = array("q")

    def add(self, value: bytes) -> None:
        """Append one row."""
        self.starts.append(len(self.data))
        self.data += value
        self.ends.append(len(self.data))

    def set(self, row: int, value: bytes) -> None:
        """Replace a row's value; the old bytes stay in the buffer."""
        self.starts[row] = len(self.data)
        self.data += value
        self.ends[row] = len(self.data)

    def __getitem__(self, row: int) -> bytes:
        """Return the bytes of a row."""
        return bytes(memoryview(self.data)[self.starts[row] : self.ends[row]])


class Rows:
    """Messages to append.

    Times are ms; hosts are raw addresses and ports of 8 or 20 bytes, according to the sysflag.
    """

    def __init__(self) -> None:
        self.bodies, self.topics, self.properties = Column(), Column(), Column()
        self.hosts = bytearray()
        self.born_host_starts, self.store_host_starts = array("q"), array("q")
        self.queue_ids, self.flags, self.sys_flags, self.reconsumed = (array("i") for _ in range(4))
        self.queue_offsets, self.born_times, self.store_times, self.prepared_offsets = (array("q") for _ in range(4))
        self.physical_offsets = array("q")
        self._host_starts: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self.queue_ids)

    def add(
        self,
        topic: bytes,
        queue_id: int,
        queue_offset: int,
        body: bytes,
        properties: bytes = b"",
        *,
        flag: int = 0,
        sys_flag: int = 0,
        born_time: int = 0,
        born_host: bytes = bytes(8),
        store_time: int = 0,
        store_host: bytes = bytes(8),
        reconsumed: int = 0,
        prepared_offset: int = 0,
    ) -> int:
        """Append one message and return its row number."""
        self.topics.add(topic)
        self.bodies.add(body)
        self.properties.add(properties)
        self.queue_ids.append(queue_id)
        self.queue_offsets.append(queue_offset)
        self.flags.append(flag)
        self.sys_flags.append(sys_flag)
        self.born_times.append(born_time)
        self.born_host_starts.append(self._host(born_host))
        self.store_times.append(store_time)
        self.store_host_starts.append(self._host(store_host))
        self.reconsumed.append(reconsumed)
        self.prepared_offsets.append(prepared_offset)
        self.physical_offsets.append(-1)
        return len(self) - 1

    def _host(self, raw: bytes) -> int:
        if raw not in self._host_starts:
            self._host_starts[raw] = len(self.hosts)
            self.hosts += raw
        return self._host_starts[raw]

    def size(self, row: int) -> int:
        """Return the bytes of the row's record, without a checksum property."""
        parts = (self.bodies, self.topics, self.properties)
        body, topic, properties = (part.ends[row] - part.starts[row] for part in parts)
        return encode.size_of(body, topic, properties, self.sys_flags[row])

    def append(self, room: LogRoom, first: int = 0, last: int | None = None, reserve: int = 0) -> tuple[int, int, int]:
        """Run kernels/write/encode over rows first..last-1, with the kernel's result."""
        texts = (part for text in (self.bodies, self.topics, self.properties) for part in vars(text).values())
        numbers = (
            self.hosts, self.born_host_starts, self.store_host_starts, self.queue_ids, self.queue_offsets, self.flags,
            self.sys_flags, self.born_times, self.store_times, self.reconsumed, self.prepared_offsets,
            self.physical_offsets,
        )  # fmt: skip
        return room.fill(first, len(self) if last is None else last, reserve, (*texts, *numbers))
