"""What an S3 server on the same machine costs an export: python experiments/export_server_bound.py [MIB [ROUNDS]].

Interleaved: an export to the disk; the files of such an export put on versitygw by obstore alone, two at a time, and
then copied there once (which Parquet needs and Delta does not), with nothing of FlintMQ around; and an export to the
server. Needs `make object-servers`.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from flintmq.lake.export_once import export

from flintmq.config.keys import StoreConfig
from flintmq.testing import write_store
from tests.support.object_servers import serving

BODY = 1024


def main(mib: int, rounds: int) -> None:
    """Measure, and print medians and the least."""
    with tempfile.TemporaryDirectory() as folder, serving("versitygw", Path(folder)) as server:
        os.environ.update(server.environment)
        config, bucket = StoreConfig.from_keys(server.keys), server.bucket()
        root, out, ready = f"{folder}/store", f"{folder}/out", f"{folder}/ready"
        write_store(root, (mib << 20) // (BODY + 260), body_bytes=BODY, bodies="random")
        export(root, ready)
        files = sorted(str(path) for path in Path(ready).rglob("*.parquet"))
        print(f"{len(files)} files, {sum(map(os.path.getsize, files)) >> 20} MiB")

        def each(call: Callable[[tuple[int, str]], None]) -> None:
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(call, enumerate(files)))

        cases: dict[str, Callable[[], object]] = {
            "export to the disk": lambda: export(root, out),
            "bare put": lambda: each(lambda one: bucket.put_file(f"bare/{one[0]}", one[1])),
            "bare copy": lambda: each(lambda one: bucket.copy(f"bare/{one[0]}", f"copied/{one[0]}")),
            "export to the server, Parquet": lambda: export(root, f"{server.url}/parquet", config),
            "export to the server, Delta": lambda: export(root, f"{server.url}/delta", config, to="delta"),
        }
        taken: dict[str, list[float]] = {name: [] for name in cases}
        cpu: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(rounds):
            shutil.rmtree(out, ignore_errors=True)
            bucket.delete([found.key for found in bucket.listed("", True)])
            for name, call in cases.items():
                began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
                call()
                after = resource.getrusage(resource.RUSAGE_SELF)
                taken[name].append(time.perf_counter() - began)
                cpu[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        for name, times in taken.items():
            print(f"{name:32} wall {statistics.median(times):5.2f} s (least {min(times):5.2f}), "
                  f"our processor time {statistics.median(cpu[name]):5.2f} s")  # fmt: skip


if __name__ == "__main__":
    main(*[*map(int, sys.argv[1:]), *[1024, 5][len(sys.argv) - 1 :]])
