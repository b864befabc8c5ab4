"""Compares what `scan` prints with what an earlier version printed: output, errors and exit code, byte for byte.

`python -m labs.same_output [STORES] [--record]` asks about every golden store and STORES (1,000) made ones, a part of
them damaged, and compares one hash of all answers with EXPECTED. With --record it prints the hash; run that in a
work tree of the version to compare with. The hashes below are those of commit 7e281007.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from flintmq.cli import app
from flintmq.testing.damage import random_damage
from flintmq.testing.write_store import write_store
from tests.compat.stores import GOLDEN_NAMES, Golden

STORES = 1000
FEW = 10  # the short form, of the tests
EXPECTED = {
    FEW: "d2f570446aba1d52c0bda7f3ed2ada98e24f8e014c75ff2818cfe49b6e681098",
    STORES: "d85169decd7b29797fbc59d0e523fb111a97eabbc55dc4fb6004f6b028aa4458",
}
ASKED = (
    ["--json"],
    ["--json", "--skip-damage"],
    ["--json", "--decompress", "--skip-damage", "--limit", "40"],
    ["--grep", "a", "--skip-damage"],
    ["--grep", "the ", "--json"],
    ["--grep", "\u00e9", "--skip-damage", "--topic", "T0"],
    ["--grep", "", "--limit", "3"],
    ["--grep", "0", "--decompress", "--skip-damage", "--json", "--key", "k1"],
)
KINDS = ("flags", "ipv6", "v2", "odd", "delay", "transactions", "batches", "light_queues")
FILE_SIZE = 64 * 1024


def answer(words: list[str]) -> bytes:
    """What a command printed, where it printed it, and its exit code; run in this process."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
    with patch("sys.stdout", out), contextlib.redirect_stderr(err):
        code = app.run(words)
    return out.buffer.getvalue() + b"\0" + err.getvalue().encode("utf-8", "backslashreplace") + b"\0%d" % code  # type: ignore[attr-defined]


def stores(count: int) -> Iterator[str]:
    """The golden stores, and so many made ones, each in the working directory until the next one comes."""
    for name in GOLDEN_NAMES:
        with tempfile.TemporaryDirectory(dir=".") as folder:
            yield os.path.relpath(Golden(name, Path(folder)).path)
    for seed in range(count):
        chance = random.Random(seed)
        with tempfile.TemporaryDirectory(dir=".") as folder:
            store = f"{folder}/store"
            write_store(
                store,
                chance.randrange(1, 60),
                seed,
                bodies=chance.choice(("text", "random")),
                body_bytes=(0, 900),
                kinds=chance.sample(KINDS, chance.randrange(4)),
                commit_log_file_size=FILE_SIZE,
                clean=chance.random() < 0.7,
            )
            for _ in range(chance.choice((0, 0, 1, 2))):
                random_damage(store, chance.randrange(1 << 30), folder="commitlog")
            yield store


def digest(count: int) -> str:
    """One hash of all answers about `count` made stores and the golden ones; names of directories do not count."""
    total = hashlib.sha256()
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        for store in stores(count):
            name = os.path.basename(os.path.dirname(store)).encode()
            for words in ASKED:
                total.update(answer(["scan", store, *words]).replace(os.fsencode(place), b"").replace(name, b"PLACE"))
    return total.hexdigest()


def main(words: list[str]) -> int:
    count = int(next((word for word in words if word.isdecimal()), STORES))
    found = digest(count)
    print(f"{len(GOLDEN_NAMES)} golden stores, {count} made ones, {len(ASKED)} commands each: {found}")
    return 0 if "--record" in words or found == EXPECTED.get(count) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
