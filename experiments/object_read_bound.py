"""Reading in order from object storage: through obstore, and through pyarrow.fs as before, by the same read ahead.

    python experiments/object_read_bound.py [MIB] [ROUNDS]    512 MiB and 5 rounds; after make object-servers

Of each client, in turn: seconds and processor seconds of this process for all bytes of the log, and for a scan of two
columns into Arrow. The server is a process of this machine and takes processor time too.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.fs

import flintmq
from flintmq.objects import object_store
from flintmq.objects.bucket import ObjectEntry
from flintmq.testing import write_store
from tests.support.object_servers import BUCKET, RealServer, serving


class ArrowBucket:
    """What reading asks of a bucket, through pyarrow.fs."""

    url = f"s3://{BUCKET}"

    def __init__(self, server: RealServer) -> None:
        access, secret = server.environment.values()
        host = server.keys["s3.endpoint"].partition("://")[2]
        keys = {"access_key": access, "secret_key": secret}
        self.fs = pyarrow.fs.S3FileSystem(**keys, endpoint_override=host, scheme="http", region="us-east-1")
        self._opened = lru_cache(maxsize=64)(lambda key: self.fs.open_input_file(f"{BUCKET}/{key}"))

    def find(self, key: str) -> ObjectEntry | None:
        """See Bucket."""
        found = self.fs.get_file_info(f"{BUCKET}/{key}")
        return ObjectEntry(key, found.size, 0) if found.is_file else None

    def listed(self, folder: str, whole: bool) -> list[ObjectEntry]:
        """See Bucket."""
        chosen = pyarrow.fs.FileSelector(f"{BUCKET}/{folder}", recursive=whole, allow_not_found=True)
        found = self.fs.get_file_info(chosen)
        return [ObjectEntry(one.path.partition("/")[2], one.size if one.is_file else None) for one in found]

    def read(self, key: str, begin: int = 0, end: int | None = None) -> bytes:
        """See Bucket."""
        assert end is not None
        return bytes(self._opened(key).read_at(end - begin, begin))


def all_bytes(url: str, keys: dict[str, str]) -> int:
    """Read each file of the log in order, a MiB at a time."""
    disk = object_store.ObjectStore(flintmq.config.keys.StoreConfig.from_keys(keys).s3.with_environment())
    buffer, total = memoryview(bytearray(1 << 20)), 0
    for name in disk.listdir(f"{url}/commitlog", url):
        with disk.reading(f"{url}/commitlog/{name}") as fd:
            size = disk.size_of(fd)
            disk.will_read(fd, 0, size, sure=True)
            for position in range(0, size, len(buffer)):
                total += disk.pread_into(fd, buffer[: size - position], position)
    return total


def scan(url: str, keys: dict[str, str]) -> int:
    """Scan two columns."""
    return sum(batch.num_rows for batch in flintmq.scan_arrow(url, columns=["topic", "size"], set=keys))


def timed(call: Callable[..., int], *words: Any) -> tuple[float, float, int]:
    """Seconds, processor seconds, result."""
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    result = call(*words)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, result


def main(words: list[str]) -> None:
    """Measure, and print a table."""
    mib, rounds = (int(word) for word in [*words, *("512", "5")[len(words) :]])
    with tempfile.TemporaryDirectory(prefix="flintmq-read-") as scratch, serving("versitygw") as server:
        os.environ.update(server.environment)
        count = mib * (1 << 20) // 1250  # the log of so many fills its files of 128 MiB
        written = write_store(
            Path(scratch) / "s", count, body_bytes=1024, bodies="random", commit_log_file_size=128 << 20
        )
        url = server.put(written.path, "s")
        keys = {**{name: str(value) for name, value in written.keys.items()}, **server.keys}
        before = ArrowBucket(server)

        def old(path: str, options: object) -> tuple[Any, str]:
            return before, path.removeprefix(before.url).lstrip("/")

        found: dict[tuple[str, str], list[tuple[float, float]]] = {}
        sizes: dict[str, set[int]] = {}
        for number in range(rounds + 1):
            for what, call in (("all bytes", all_bytes), ("scan of two columns", scan)):
                for client in ("pyarrow.fs", "obstore"):
                    with mock.patch.object(
                        object_store, "bucket_of", old if client == "pyarrow.fs" else object_store.bucket_of
                    ):
                        *took, result = timed(call, url, keys)
                    sizes.setdefault(what, set()).add(result)
                    if number:  # the first round warms up
                        found.setdefault((what, client), []).append((took[0], took[1]))
        assert all(len(results) == 1 for results in sizes.values()), sizes
        print(f"log of {mib} MiB, {os.cpu_count()} processors, {rounds} rounds; results {sizes}")
        print("| read | client | seconds, median | best | MiB/s of the best | processor seconds, median |")
        print("|---|---|---|---|---|---|")
        for (what, client), took_all in found.items():
            seconds, processor = zip(*took_all, strict=True)
            print(
                f"| {what} | {client} | {statistics.median(seconds):.2f} | {min(seconds):.2f} "
                f"| {mib / min(seconds):.0f} | {statistics.median(processor):.2f} |"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
