"""The progress that FlintMQ 0.1.0 kept (progress/README.md), unpacked where it was recorded."""

import fcntl
import shutil
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flintmq import Message, MessageStore

ARCHIVE = Path(__file__).resolve().parent / "progress" / "flintmq-0.1.0.tar.xz"
PLACE = Path("/tmp/flintmq-0.1.0")  # Iceberg's metadata has absolute paths
STORED = Counter([b"a-%03d" % number for number in range(10)] + [b"b-%03d" % number for number in range(20)])
"""Bodies of the messages in `store`, and of those in topic A."""
OF_A = Counter(body for body in STORED if body[:1] == b"a")


@contextmanager
def recorded() -> Iterator[Path]:
    """Unpack everything, and remove it afterwards; one test at a time has it, of all processes."""
    with PLACE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(PLACE, ignore_errors=True)
        try:
            with tarfile.open(ARCHIVE) as archive:
                archive.extractall(PLACE.parent, filter="data")
            yield PLACE
        finally:
            shutil.rmtree(PLACE, ignore_errors=True)


def put(store: Path, topic: str, bodies: Iterable[bytes]) -> None:
    """Put messages of a topic into two queues, in turn."""
    with MessageStore(store, dev=True) as open_store:
        open_store.put_many([Message(topic, body, queue_id=number % 2) for number, body in enumerate(bodies)])


def bodies_in(table: Path) -> Counter[bytes]:
    """How often each body is in a table, by readers that are not ours."""
    rows: Any
    if table.name.startswith("iceberg"):
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("flintmq", uri=f"sqlite:///{table}/catalog.db", warehouse=str(table))
        rows = catalog.load_table("flintmq.messages").scan(selected_fields=("body",)).to_arrow()
        catalog.close()
    elif (table / "_delta_log").is_dir():
        from deltalake import DeltaTable

        rows = DeltaTable(str(table)).to_pyarrow_table(columns=["body"])
    else:
        import pyarrow.parquet as pq

        files = sorted(table.glob("export=*/**/*.parquet"))
        return Counter(body for file in files for body in pq.ParquetFile(file).read(["body"])["body"].to_pylist())
    return Counter(rows["body"].to_pylist())
