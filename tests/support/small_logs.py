"""Small logs for tests of walking: records by the slow reference codec, placed where a test wants them."""

from pathlib import Path

from flintmq.format import record
from flintmq.store.commitlog.files import LogFiles

FILE_SIZE = 4096


def make(offset: int, time: int, body: bytes = b"body", topic: bytes = b"T", queue_offset: int = 0) -> bytes:
    """One record as it lies at this log offset."""
    return record.encode(
        record.Record(
            body_crc=record.crc(body),
            physical_offset=offset,
            queue_offset=queue_offset,
            store_timestamp=time,
            body=body,
            topic=topic,
            properties=b"KEYS\x01k\x02",
        )
    )


SIZE = len(make(0, 0))


def log_of(directory: Path, *files: bytes, file_size: int = FILE_SIZE, first: int = 0) -> LogFiles:
    """Write files of full size, zeros behind what is given, and list them."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(files):
        assert len(data) <= file_size
        (directory / f"{first + number * file_size:020d}").write_bytes(data.ljust(file_size, b"\0"))
    return LogFiles.discover([str(directory)])


def full_file(start: int, time: int, count: int | None = None, file_size: int = FILE_SIZE) -> tuple[bytes, list[int]]:
    """(bytes, offsets) of a file of records one ms apart, with a blank behind them unless `count` says how many."""
    data, offsets = b"", []
    while len(data) + SIZE + 8 <= file_size and (count is None or len(offsets) < count):
        offsets.append(start + len(data))
        data += make(start + len(data), time + len(offsets))
    return (data if count is not None else data + record.encode_blank(file_size - len(data))), offsets
