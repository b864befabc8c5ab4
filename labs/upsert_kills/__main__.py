"""Kill `flintmq export --upsert-key` at random moments; compare the table with a model of the database.

    python -m labs.upsert_kills --kills 60 --seed 1 --record

Changes of a database's table (rows come, change, get other keys and go) are put into two stores, each into one of them
by chance, while exports of both into a Delta or Iceberg table are started and killed (SIGKILL); by the seed the bodies
are of Debezium, Canal or plain, and the formats are exported with `--follow`. Before some exports one store is hidden,
so its changes come late. After one kill of five an export runs to its end: the table must be the model's, read without
FlintMQ. A table that is not ends the run.
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

from flintmq import Message, MessageStore
from labs.torture import figures
from labs.torture.report import commit
from tests.support.database import WAYS, Database, rows_in

NAME = "upsert-kills"
FORMATS = ("delta", "iceberg")
BROKERS = ("a", "b")
SMALL: dict[str, Any] = {"mappedFileSizeCommitLog": 1 << 16, "mappedFileSizeConsumeQueue": 2000}
SECONDS_MOST = 4.0  # of a run before it is killed
TURN_S = 0.002  # between puts into two stores, whose order is that of milliseconds


class Run:
    """One run: two stores, a table of each format, and what was counted.

    Args:
        folder: an empty directory.
        seed: of what is random.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.database = Database(seed, sorted(WAYS)[seed % 3])
        self.follows = {to: (seed >> bit) % 2 == 1 for bit, to in enumerate(FORMATS)}
        self.counted: Counter[str] = Counter()
        (folder / "there").mkdir()

    def grow(self) -> None:
        """Change the database some times; each change goes into one of the stores."""
        there = [name for name in BROKERS if (self.folder / "there" / name).exists() or not self.counted["changes"]]
        for _ in range(self.random.randrange(1, 40)):
            with MessageStore(self.folder / "there" / self.random.choice(there), SMALL) as store:
                for body in self.database.change():
                    assert store.put(Message("changes", body)).status.name == "PUT_OK"
            self.counted["changes"] += 1
            time.sleep(TURN_S)

    def begin(self, to: str, *more: str) -> subprocess.Popen[str]:
        """Start an export with these options."""
        words = [part for name, value in WAYS[self.database.way].items() for part in (_option(name), value)]
        out, stores = str(self.folder / to), str(self.folder / "there" / "*")
        command = ["flintmq", "export", stores, "--out", out, "--to", to, "--body", "json", "--upsert-key", "id"]
        follow = ["--follow", "--interval", "0.2", "--max-offsets", "15"] if self.follows[to] else []
        return subprocess.Popen(
            [sys.executable, "-m", *command, *words, *follow, *more],
            env=dict(os.environ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def kill(self, to: str) -> None:
        """Kill one export at a random moment; one that ended before must have succeeded."""
        process = self.begin(to)
        time.sleep(0.5 + self.random.random() * SECONDS_MOST)
        process.kill()
        _, error = process.communicate()
        assert process.returncode in (0, -9), error
        self.counted["kills" if process.returncode else "ended before"] += 1

    def hide(self) -> None:
        """Take one store away, whose changes then come late, or bring it back."""
        here, away = self.folder / "there" / "b", self.folder / "away"
        if away.exists():
            away.rename(here)
        elif self.counted["comparisons"] >= len(FORMATS) and self.random.random() < 0.4:
            here.rename(away)

    def check(self, to: str) -> None:
        """Run an export to its end, and compare the table with the database."""
        if (self.folder / "away").exists():
            self.hide()
        process = self.begin(to, *(("--once",) if self.follows[to] else ()))
        _, error = process.communicate(timeout=300)
        assert process.returncode == 0, error
        found, wanted = rows_in(self.folder / to, to), [row for _, row in sorted(self.database.rows.items())]
        assert found == wanted, (to, found, wanted)
        self.counted["comparisons"] += 1


def killed(folder: Path, seed: int, kills: int) -> Run:
    """Make a run with so many kills; it ends with an AssertionError if a table is wrong."""
    run = Run(folder, seed)
    for broker in BROKERS:  # both are known to the tables before one is hidden
        with MessageStore(folder / "there" / broker, SMALL):
            pass
    run.grow()
    for to in FORMATS:
        run.check(to)
    while run.counted["kills"] < kills:
        to = run.random.choice(FORMATS)
        run.grow()
        run.hide()
        run.kill(to)
        if run.random.random() < 0.2:
            run.check(to)
    for to in FORMATS:
        run.check(to)
    return run


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help=f"add the run to {figures.place(NAME).name}")
    words: Any = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = killed(Path(folder), words.seed, words.kills)
    columns = ["seed", "kills", "changes", "comparisons", "wrong"]
    row = [words.seed, *(run.counted[name] for name in columns[1:])]
    print(f"seed {words.seed}: {dict(run.counted)}, 0 wrong")
    if words.record:
        figures.save(NAME, [*figures.read(NAME), figures.Series(columns, [row], [commit()], run=figures.begun())])
    return 0


if __name__ == "__main__":
    sys.exit(main())
