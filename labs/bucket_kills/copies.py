"""Kill `flintmq copy --into s3://...` at random moments; no reader may take a part of a store for one.

    python -m labs.bucket_kills.copies --kills 100 --seed 1

A store at rest, a store that did not stop cleanly, or some of its messages are copied to a new URL each time, now and
then by two runs at once. They are ended by SIGKILL, SIGINT or SIGTERM, or end by themselves. Meanwhile and afterwards
the URL is refused, or it is a whole copy; what the next run into it says agrees with that, and once the objects are
removed a run succeeds.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import flintmq
from flintmq import Message, MessageStore
from flintmq.config.keys import StoreConfig
from flintmq.errors import NotAStoreError
from flintmq.objects.bucket import Bucket
from flintmq.objects.opening import bucket_of
from tests.support.object_server import KEYS, Server, running

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
WAYS = ("rest", "unclean", "some")
SECONDS_MOST = 9.0  # of a run before it is ended
SMALL_INDEX = {"maxHashSlotNum": 500, "maxIndexNum": 2000}
SMALL_SECONDS_MOST = 1.5
LATE = ("something is there already", "is not finished", "were put or removed there during the copy")
LATE_PUTS_MOST = 5


class Run:
    """One run: two stores, and what was counted.

    Args:
        folder: an empty directory.
        server: object storage.
        seed: of what is random.
        small: with index files of some KiB, not of 400 MiB, which take most of a copy's time.
    """

    def __init__(self, folder: Path, server: Server, seed: int, *, small: bool = False) -> None:
        self.folder, self.seed, self.random, self.number = folder, seed, random.Random(seed), 0
        self.index = SMALL_INDEX if small else {}
        self.longest = SMALL_SECONDS_MOST if small else SECONDS_MOST
        self.counted: Counter[str] = Counter()
        temporary = folder / "temporary"
        temporary.mkdir()
        self.environment = {**os.environ, **KEYS, "AWS_ENDPOINT_URL": server.endpoint, "AWS_REGION": "us-east-1"}
        self.environment["TMPDIR"] = str(temporary)
        bodies = [b"%06d" % number + self.random.randbytes(300) for number in range(3000)]
        keys = {"mappedFileSizeCommitLog": 1 << 18, "mappedFileSizeConsumeQueue": 2000, **self.index}
        with MessageStore(folder / "rest", keys) as store:
            for number, body in enumerate(bodies):
                assert store.put(Message(f"T{number % 7}", body, queue_id=number % 4)).status.name == "PUT_OK"
        shutil.copytree(folder / "rest", folder / "unclean")
        (folder / "unclean" / "abort").touch()
        self.wanted = {"rest": bodies, "unclean": bodies, "some": [body for n, body in enumerate(bodies) if n % 7 == 3]}

    def begin(self, way: str, url: str) -> subprocess.Popen[str]:
        """Start a copy."""
        more = ["--topic", "T3"] if way == "some" else []
        more += [word for key, value in self.index.items() for word in ("--set", f"{key}={value}")]
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "flintmq",
                "copy",
                str(self.folder / way.replace("some", "rest")),
                "--into",
                url,
                *more,
            ],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def bodies(self, url: str) -> list[bytes] | None:
        """Return the bodies at a URL in the order of the log; None if it is no store to a reader."""
        try:
            with flintmq.open_store(url) as view:
                return [message.body for message in view.messages()]
        except NotAStoreError:
            return None

    def once(self) -> None:
        """End one copy, or two at once into the same URL, and look at what is there."""
        self.number += 1
        way, url = self.random.choice(WAYS), f"s3://stores/copies-{self.seed}/{self.number}"
        bucket, key = bucket_of(url, StoreConfig().s3)
        started = [self.begin(way, url) for _ in range(self.random.choice((1, 1, 2)))]
        until = time.monotonic() + self.random.random() * self.longest
        while time.monotonic() < until:
            self.look(way, url)
            time.sleep(0.1)  # readers and runs share the processors
        for process in started:
            number = self.random.choice(SIGNALS)
            if process.poll() is None:
                process.send_signal(number)
                self.counted[f"ended by {number.name}"] += 1
            else:
                self.counted["ended before"] += 1
        for process in started:
            error = process.communicate(timeout=60)[1]
            self.note(process.returncode, error)
        self.look(way, url)
        self.again(way, url, bucket, key)

    def look(self, way: str, url: str) -> None:
        """Read the URL: it is no store, or whole."""
        found = self.bodies(url)
        assert found is None or found == self.wanted[way], (way, url, len(found))
        self.counted["looks that found no store" if found is None else "looks that found a whole one"] += 1

    def note(self, code: int, error: str) -> None:
        """Count how a run ended; an error that is not one line is wrong."""
        if code in (0, -signal.SIGKILL, -signal.SIGINT, -signal.SIGTERM, 130, 143):  # negative: before its handlers
            return
        assert code in (2, 5) and error.startswith("flintmq: ") and error.strip().count("\n") == 0, (code, error)
        self.counted["refused"] += 1

    def again(self, way: str, url: str, bucket: Bucket, key: str) -> None:
        """Copy once more: refused where something is, and its line says what."""
        names = {one.key.rpartition("/")[2] for one in bucket.listed(key, True)}
        process = self.begin(way, url)
        error = process.communicate(timeout=120)[1]
        if not names:
            assert process.returncode == 0, error
            self.counted["left nothing"] += 1
        else:
            whole = "flintmq.copied" in names
            assert process.returncode == 2 and ("already" if whole else "is not finished") in error, (names, error)
            self.counted["left a whole copy" if whole else "left a claim"] += 1
            self.anew(way, url, bucket, key)
        time.sleep(2.1)  # as long as a listing of this process is valid
        assert self.bodies(url) == self.wanted[way]
        bucket.delete([one.key for one in bucket.listed(key, True)])

    def anew(self, way: str, url: str, bucket: Bucket, key: str) -> None:
        """Copy into the URL once it is cleared.

        A put that a killed process had begun may arrive after the URL was cleared: the copy is refused then.
        """
        for _ in range(LATE_PUTS_MOST):
            bucket.delete([one.key for one in bucket.listed(key, True)])
            process = self.begin(way, url)
            error = process.communicate(timeout=120)[1]
            if process.returncode == 0:
                return
            assert process.returncode in (2, 3) and any(words in error for words in LATE), (process.returncode, error)
            self.counted["refused for a late put"] += 1
        raise AssertionError(f"{url}: refused {LATE_PUTS_MOST} times after it was cleared; last: {error}")


def killed(folder: Path, server: Server, seed: int, kills: int, *, small: bool = False) -> Run:
    """Make a run with so many ended copies; it ends with an AssertionError if something is wrong."""
    run = Run(folder, server, seed, small=small)
    with patch.dict(os.environ, run.environment):
        while sum(count for name, count in run.counted.items() if name.startswith("ended by")) < kills:
            run.once()
    return run


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    words = parser.parse_args()
    with running() as server, tempfile.TemporaryDirectory() as folder:
        run = killed(Path(folder), server, words.seed, words.kills)
    print(f"seed {words.seed}: {dict(sorted(run.counted.items()))}, 0 wrong")
    return 0


if __name__ == "__main__":
    sys.exit(main())
