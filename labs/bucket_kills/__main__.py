"""Kill `flintmq export` into tables on object storage, at random moments; count the rows.

    python -m labs.bucket_kills --kills 100 --seed 1

A store grows while exports into one table of each format (Parquet, Delta, Iceberg with a catalog in a file) are started
and killed (SIGKILL), now and then two at once into the same table; by the seed some formats with `--follow`. After one
kill of ten an export runs to its end, and the table must have each message of the store once, with its body, read
without FlintMQ. The server is moto's, in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

from flintmq import Message, MessageStore
from labs.bucket_kills import tables
from tests.support.object_server import KEYS, Server, running

FORMATS = ("parquet", "delta", "iceberg")
SMALL: dict[str, Any] = {"mappedFileSizeCommitLog": 1 << 18, "mappedFileSizeConsumeQueue": 2000}
TOPICS = ("Orders", "库存", "%DLQ%g", "orders-1")
SECONDS_MOST = 2.5  # of a run before it is killed


class Run:
    """One run: a store, a table of each format, and what was counted.

    Args:
        folder: an empty directory.
        server: object storage.
        seed: of what is random.
    """

    def __init__(self, folder: Path, server: Server, seed: int) -> None:
        self.root, self.random, self.bodies = folder / "store", random.Random(seed), []
        self.environment = {
            **os.environ,
            **KEYS,
            "AWS_ENDPOINT_URL": server.endpoint,
            "AWS_REGION": "us-east-1",
            "PYICEBERG_CATALOG__PROD__TYPE": "sql",
            "PYICEBERG_CATALOG__PROD__URI": f"sqlite:///{folder}/catalog.db",
        }
        self.seed = seed
        self.counted: Counter[str] = Counter()
        self.lines: Counter[str] = Counter()

    def url(self, to: str) -> str:
        """URL of the table of a format."""
        return f"s3://stores/kills-{self.seed}/{to}"

    def grow(self) -> None:
        """Put some messages, into several files of the log."""
        with MessageStore(self.root, **SMALL) as store:
            for _ in range(self.random.randrange(1, 400)):
                body = b"%d %s" % (len(self.bodies), self.random.randbytes(self.random.randrange(300)).hex().encode())
                assert store.put(Message(self.random.choice(TOPICS), body)).status.name == "PUT_OK"
                self.bodies.append(body)

    def begin(self, to: str, *more: str) -> subprocess.Popen[str]:
        """Start an export with these options."""
        catalog = ["--catalog", "prod:lake.messages"] if to == "iceberg" else []
        command = ["flintmq", "export", str(self.root), "--out", self.url(to), "--to", to, *catalog, *more]
        return subprocess.Popen(
            [sys.executable, "-m", *command],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def kill(self, to: str, follow: bool) -> None:
        """Kill one export, or two at once into the same table, at a random moment."""
        more = ("--follow", "--interval", "0.2", "--max-offsets", "90") if follow else ()
        started = [self.begin(to, *more) for _ in range(self.random.choice((1, 1, 2)))]
        time.sleep(self.random.random() * SECONDS_MOST)
        for process in started:
            if process.poll() is None:
                process.kill()
                self.counted["killed"] += 1
            else:
                self.counted["ended before"] += 1
            _, error = process.communicate()
            self.note(process.returncode, error)

    def note(self, code: int, error: str) -> None:
        """Count how a run ended; an error that is not one line is wrong."""
        if code in (0, -9):
            return
        assert error.startswith("flintmq: ") and error.strip().count("\n") == 0, error
        self.lines["faster" if "was faster" in error or "exported into" in error else error.strip()[:150]] += 1

    def check(self, to: str, follow: bool) -> None:
        """Run an export to its end, and compare the table with what was put."""
        process = self.begin(to, *(("--follow", "--once") if follow else ()))
        _, error = process.communicate(timeout=300)
        assert process.returncode == 0, error
        with patch.dict(os.environ, self.environment):
            found = tables.bodies(self.url(to), to, "lake.messages")
        missing, others = Counter(self.bodies) - Counter(found), Counter(found) - Counter(self.bodies)
        assert not missing and not others, (to, len(missing), len(others))
        self.counted["tables compared"] += 1


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    words: Any = parser.parse_args()
    with running() as server, tempfile.TemporaryDirectory() as folder:
        run = killed(Path(folder), server, words.seed, words.kills)
    print(f"seed {words.seed}: {len(run.bodies)} messages, {dict(run.counted)}, refused {dict(run.lines)}, 0 wrong")
    return 0


def killed(folder: Path, server: Server, seed: int, kills: int) -> Run:
    """Make a run with so many kills; it ends with an AssertionError if a table is wrong."""
    run, follows = Run(folder, server, seed), {to: (seed >> bit) % 2 == 1 for bit, to in enumerate(FORMATS)}
    run.grow()
    while run.counted["killed"] < kills:
        to = run.random.choice(FORMATS)
        run.grow()
        run.kill(to, follows[to])
        if run.random.random() < 0.1:
            run.check(to, follows[to])
    for to in FORMATS:
        run.check(to, follows[to])
    return run


if __name__ == "__main__":
    sys.exit(main())
