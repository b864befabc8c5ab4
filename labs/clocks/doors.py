"""Asks every door about a store: the questions of the matrix, and those about the log's end and about tables."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flintmq.config.keys import StoreConfig
from flintmq.errors import FlintError
from flintmq.lake.read.splits import equal_ranges
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.walk import LogWalk
from labs.interop.live import KEYS
from labs.matrix.cells import CELLS, Wrong, command, try_cell
from labs.matrix.judge import Subject
from tests.interop.java import Java
from tests.robustness.matrix import truth
from tests.robustness.matrix.stores import Case
from tests.robustness.matrix.truth import Row

Door = Callable[[Subject], int]
"""Gives the number of records that it knows of."""


def subject_of(store: Path, work: Path, name: str, *, living: bool = False) -> Subject:
    """A store of these lives, for the cells of the matrix."""
    work.mkdir()
    return Subject(name, Case(lambda _: None, "live" if living else "sound", dict(KEYS)), store, work)


def java_rows(java: Java, store: Path) -> list[Row]:
    """The rows that RocketMQ reads from a copy of the store, after its own recovery."""
    names = ("topic", "queue_id", "queue_offset", "physical_offset", "size", "body_sha1", "tags", "keys")
    found = (Row(*(row[name] for name in names)) for row in java("scan", store, dict(KEYS)))
    return [row._replace(body=row.body[:16]) for row in found]


def java_differs(java: Java, store: Path, work: Path) -> list[str]:
    """What RocketMQ reads otherwise than the reference codec: then the codec is no measure for the doors.

    RocketMQ gets the files as they are now, also those of a living broker.
    """
    copied = work / "for-java"
    shutil.copytree(store, copied)
    rows, kept = truth.rows(copied), java_rows(java, copied)
    shutil.rmtree(copied)
    return [] if rows == kept else [f"RocketMQ {java.version} keeps {len(kept)} records, the codec {len(rows)}"]


def ask_all(subject: Subject, *, spark: bool = False, part: int = 0, parts: int = 1) -> tuple[int, list[str]]:
    """Ask every door, or each `parts`-th of them.

    Returns:
        How many were asked, and everything that was wrong, a line each.
    """
    living = subject.case.state == "live"
    cells = [name for name, cell in CELLS.items() if cell.spark == spark and (cell.live or not living)][part::parts]
    wrong = [line for name in cells for line in try_cell(name, subject)]
    doors = [] if spark else list(DOORS)[part::parts]
    for name in doors:
        least = len(truth.rows(subject.path))
        try:
            found = DOORS[name](subject)
        except (Wrong, FlintError) as error:
            wrong.append(f"{subject.name} / {name}: {error}")
            continue
        if not least <= found <= len(truth.rows(subject.path)):
            wrong.append(f"{subject.name} / {name}: {found} of {least} records")
    return len(cells) + len(doors), wrong


def before(subject: Subject, end: int) -> int:
    """The number of records before a log offset."""
    return sum(row.physical_offset < end for row in truth.rows(subject.path))


def snapshot(subject: Subject) -> Snapshot:
    return Snapshot(str(subject.path), StoreConfig.of(None, subject.case.keys))


def ranges(subject: Subject) -> int:
    """The log cut as for tasks, each range walked alone."""
    now = snapshot(subject)
    parts = equal_ranges(now.log, now.log.min_offset, now.end, 7)
    walks = [LogWalk(now.log, begin=part.begin, end=part.end) for part in parts if part.begin < part.end]
    return sum(piece.count for walk in walks for piece in walk)


def told(subject: Subject, *words: object) -> Any:
    """The last line that a command says with --json.

    Raises:
        Wrong: it says that something is wrong.
    """
    done, said = command(subject, *words, "--json")
    if said:
        raise Wrong(said[-300:])
    return json.loads(done.out.splitlines()[-1])


def table(kind: str, *more: str) -> Door:
    """An export."""

    def ask(subject: Subject) -> int:
        out = subject.new(kind)
        rows = told(subject, "export", subject.path, "--to", kind, "--out", out, *more)["rows"]
        shutil.rmtree(out, ignore_errors=True)
        return int(rows)

    return ask


def followed(subject: Subject) -> int:
    """A follower of the store's log, which another process reads and serves."""
    out, sets = subject.new("copy"), subject.case.sets
    words = [
        sys.executable,
        "-m",
        "flintmq",
        "serve-ha",
        str(subject.path),
        "--listen",
        "0",
        "--new-slave",
        "first",
        "--json",
        *sets,
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as serving:
        try:
            assert serving.stdout is not None
            address = json.loads(serving.stdout.readline())["address"]
            told(subject, "follow", address, "--store", out, "--once")
        finally:
            serving.send_signal(signal.SIGTERM)
    rows = truth.rows(out)
    shutil.rmtree(out)
    if rows != truth.rows(subject.path)[: len(rows)]:
        raise Wrong("the copy has other records")
    return len(rows)


def compared(subject: Subject) -> int:
    """A copy by plain copying, compared with the store: equal, unless somebody has written meanwhile."""
    other = subject.new("other")
    shutil.copytree(subject.path, other)
    done, said = command(subject, "diff", subject.path, other, "--json")
    shutil.rmtree(other)
    summary = json.loads(done.out.splitlines()[-1])
    if subject.case.state != "live" and (said or not summary["equal"]):
        raise Wrong(f"a copy differs: {said or summary}")
    return min(before(subject, summary[side]["log_end"]) for side in "ab")


DOORS: dict[str, Door] = {
    "the end by the last file": lambda subject: before(subject, snapshot(subject).end),
    "the log in ranges": ranges,
    "inspect's end": lambda subject: before(subject, told(subject, "inspect", subject.path)["log"]["end"]),
    "recover --dry-run's end": lambda subject: before(
        subject, told(subject, "recover", subject.path, "--dry-run")["end"]
    ),
    "verify's records": lambda subject: int(told(subject, "verify", subject.path)["records"]),
    "export to Parquet": table("parquet"),
    "export to Delta": table("delta"),
    "export to Iceberg": table("iceberg"),
    "export --follow": table("parquet", "--follow", "--once"),
    "diff of a plain copy": compared,
    "follow": followed,
}
