"""What the long runs have counted: rows in JSON files beside the programs, their sums in a page.

    python -m labs.torture.figures docs/internals/reliability.md          writes all sums anew

A data file holds series, one for each run: the commits and days of the run, its rows under their columns, and what it
told besides. Rows of sums are not among them, so that nothing is counted twice. A run that goes on where it stopped
writes its series again; another run adds one.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from labs.torture.report import table, write

LABS = Path(__file__).resolve().parents[1]
WRONG_SHOWN = 20


@dataclass(frozen=True)
class Figures:
    """Which sums of a data file the page tells.

    Attributes:
        folder: of the program and its data file, below labs/.
        sums: columns, or numbers told besides, that are added up.
        wrong: those of them that are told as one number of what was wrong.
        spread: columns of which the least and the greatest value are told.
        by: a column; the page has a line for each of its values.
    """

    folder: str
    sums: tuple[str, ...]
    wrong: tuple[str, ...] = ("wrong",)
    spread: tuple[str, ...] = ()
    by: str | None = None


CONTRACT = ("lost", "phantom", "altered", "duplicated", "holes", "derived", "unserved")
TABLE = ("missing", "doubled", "foreign", "lost", "unqueued")
BROKER = ("missing", "foreign", "altered", "elsewhere", "offsets twice", "holes", "defects")
FIGURES = {
    "bits": Figures("hostile", ("bits", "records", "stores", "bits of places", "that displaced a record")),
    "pages": Figures("hostile", ("cases",)),
    "damaged": Figures("interop", ("stores",)),
    "matrix": Figures("matrix", ("stores", "questions without Spark", "questions with Spark")),
    "clocks": Figures("clocks", ("brokers", "messages", "questions")),
    "soak": Figures(
        "soak", ("minutes", "starts", "kills", "clean stops", "messages acknowledged", "log files expired")
    ),
    "kills": Figures(
        "crash", ("cycles", "of them while opening", "acknowledged", "uncommitted", "stored"), CONTRACT
    ),
    "power": Figures("crash", ("cuts",), ("lost", "refused")),
    "power-cuts": Figures(
        "crash", ("cuts", "acknowledged"), CONTRACT
    ),
    "syscalls": Figures(
        "failing_calls", ("cases", "struck", "refused", "died", "acknowledged", "stored"),
        ("wrong", "uncommitted", *CONTRACT),
    ),
    "consumers": Figures(
        "crash", ("kills", "messages acknowledged", "handed out twice"), ("skipped", "offsets lowered")
    ),
    "branches": Figures("mutants", ("modules", "branches", "not taken"), (), ("% taken",)),
    "mutmut": Figures("mutants", ("mutants", "killed", "equivalent", "alive"), ()),
    "crash-sim": Figures(
        "sim",
        ("states of power cuts", "states after kill -9", "cases", "led to a mend", "runs with a call that failed",
         "states after them"),
    ),
    "crash-sim-pairs": Figures(
        "sim",
        ("states of power cuts", "states after kill -9", "cases", "led to a mend", "followed to the end",
         "opened as a master", "went on with --resync", "runs with a call that failed"),
    ),
    "torture-spark": Figures("torture_spark", ("kills", "acknowledged", "queued", "exported"), TABLE),
    "torture-streams": Figures("torture_spark", ("kills", "acknowledged", "queued", "exported"), TABLE),
    "torture-cluster": Figures(
        "torture_spark", ("kills", "moments", "acknowledged", "queued", "exported"), TABLE
    ),
    "bucket-kills": Figures("bucket_kills", ("kills", "messages", "comparisons"), ("missing", "doubled")),
    "upsert-kills": Figures("upsert_kills", ("kills", "changes", "comparisons")),
    "job-kills": Figures(
        "job_kills", ("kills", "driver", "java", "side", "worker", "executor", "messages", "comparisons"), by="kind"
    ),
    "replication": Figures(
        "replication",
        ("kills", "lines cut", "stores", "messages", "messages that the reader checked",
         "keys' messages that a killed RocketMQ had lost"),
    ),
    "promotion": Figures(
        "promotion", ("masters", "times carried on", "next offsets compared", "messages of groups"),
        ("differing", "missed"),
    ),
    "three-brokers": Figures(
        "three_brokers",
        ("brokers killed", "moved", "follower killed", "acknowledged", "lost by killed masters", "log bytes compared"),
        ("missing", "doubled", "altered", "foreign", "elsewhere", "lost without a kill", "other logs", "other queues",
         "unreadable", "defects"),
    ),
    "broker-kills": Figures(
        "broker", ("kills", "while opening", "acknowledged", "stored", "sent again", "consumed"),
        (*BROKER, "not consumed"), by="flush",
    ),
    "broker-cuts": Figures("broker", ("cuts", "opening", "acknowledged", "late"), BROKER),
    "broker-fuzz": Figures(
        "broker", ("minutes", "visits", "sends asked", "stored of visitors", "acknowledged"),
        (*BROKER, "not asked for", "grown", "slow callbacks", "slow answers", "refused", "errors"),
        ("slowest answer, s", "longest callback, ms"),
    ),
    "broker-soak": Figures(
        "broker", ("minutes", "acknowledged", "stored", "consumed", "came and went"),
        (*BROKER, "grown", "slow callbacks", "not consumed"), ("connections", "longest callback, ms"),
    ),
    "broker-traced": Figures(
        "broker", ("messages", "deliveries", "retries", "dead letters", "rows"), ("disagree",)
    ),
    "broker-stream": Figures(
        "broker", ("kills", "acknowledged", "stored", "sent again", "in the table"),
        (*BROKER, *(f"{name} of the table" for name in TABLE)),
    ),
    "differential": Figures("interop", ("operations",), ("answers that differ", "files that differ")),
    "recovery-time": Figures(
        "torture", (), (), ("seconds to open, median of 3",), by="not flushed"
    ),
    "torture": Figures("torture", ("runs", "parts through", "parts in all", "seconds")),
}  # fmt: skip


@dataclass
class Series:
    """What one run has counted.

    Attributes:
        columns, rows: a table without rows of sums.
        done: commits and days, as `report.commit` gives them; a dash where one is not known.
        told: what else was counted.
        run: tells it from other runs of the program; empty if the program only has its last run.
        note: what the page tells after the sums.
    """

    columns: list[str]
    rows: list[list[Any]]
    done: list[str]
    told: dict[str, Any] = field(default_factory=dict)
    run: str = ""
    note: str = ""

    def values(self, name: str) -> Iterator[float]:
        """The numbers of a column, or the number told by this name."""
        assert name not in self.told or name not in self.columns, f"{name} would be counted twice"
        if name in self.columns:
            at = self.columns.index(name)
            yield from (row[at] for row in self.rows)
        elif name in self.told:
            yield self.told[name]


def begun() -> str:
    """Tells a run from all others: the moment at which it began."""
    return f"{datetime.now():%Y-%m-%d %H:%M:%S}"


def place(name: str) -> Path:
    """The data file of a run."""
    return LABS / FIGURES[name].folder / f"{name}.json"


def read(name: str) -> list[Series]:
    """All series of a data file; none where it is not there."""
    path = place(name)
    return [Series(**one) for one in json.loads(path.read_text())["series"]] if path.exists() else []


def save(name: str, series: list[Series]) -> None:
    """Replace the data file, a row a line."""
    parts = []
    for one in series:
        *heads, (_, rows) = sorted(asdict(one).items(), key=lambda item: item[0] == "rows")
        lines = [f'  "{key}": {json.dumps(value)},' for key, value in heads]
        parts.append("\n".join(
            [" {", *lines, '  "rows": [', ",\n".join(f"   {json.dumps(row)}" for row in rows), "  ]", " }"]
        ))  # fmt: skip
    new = place(name).with_suffix(".new")
    new.write_text('{"series": [\n' + ",\n".join(parts) + "\n]}\n")
    new.replace(place(name))


def span(done: list[str]) -> str:
    """The first and last commit, and the first and last day, of several that `report.commit` gave."""
    pairs = [one.removeprefix("commit ").partition(", ")[::2] for one in done]
    days = sorted({datetime.strptime(day, "%d %B %Y") for _, day in pairs if day != "-"})
    names = list(dict.fromkeys(name for name, _ in pairs if name != "-"))
    told = [f"{day.day} {day:%B %Y}" for day in days]
    if len(told) > 1 and f"{days[0]:%Y%m}" == f"{days[-1]:%Y%m}":
        told[0] = str(days[0].day)
    words = [f"{'Commits' if len(names) > 1 else 'Commit'} {_ends(names)}"] if names else []
    return ", ".join([*words, *([_ends(told)] if told else [])])


def _ends(several: list[str]) -> str:
    return several[0] if len(several) == 1 else f"{several[0]} to {several[-1]}"


def lines(name: str, series: list[Series]) -> list[str]:
    """The sums of all series, as the page has them."""
    figures = FIGURES[name]
    groups = [("", series)]
    if figures.by is not None:
        values = dict.fromkeys(row[one.columns.index(figures.by)] for one in series for row in one.rows)
        parts = {value: [_part(one, figures.by, value) for one in series] for value in values}
        groups = [(f"- {figures.by} {value}: ", [one for one in ones if one.rows]) for value, ones in parts.items()]
    found = []
    for head, ones in groups:
        words = [f"{round(sum(_all(ones, one))):,} {one}" for one in figures.sums]
        words += [f"{min(_all(ones, one)):g} to {max(_all(ones, one)):g} {one}" for one in figures.spread]
        wrong = f"; {round(sum(sum(_all(ones, one)) for one in figures.wrong)):,} wrong" if figures.wrong else ""
        found.append(f"{head}{', '.join(words)}{wrong}. {span([day for one in ones for day in one.done])}.")
    return [*found, *(line for one in series if one.note for line in ("", one.note))]


def _all(series: list[Series], name: str) -> list[float]:
    return [value for one in series for value in one.values(name)]


def _part(one: Series, column: str, value: Any) -> Series:
    at = one.columns.index(column)
    return Series(one.columns, [row for row in one.rows if row[at] == value], one.done)


def shown(name: str, series: Series) -> list[str]:
    """What a program prints of its run: the rows, what it told besides, the sums."""
    told = [f"{key}: {value}" for key, value in series.told.items()]
    return [*table(series.columns, series.rows), "", *told, *lines(name, [series])]


def ended(name: str, series: Series, wrong: Sequence[object], folder: Path, keep: bool) -> int:
    """Print a run and what was wrong in it, and return its exit code.

    The folder is removed if nothing was, and then the run is added to its file, if it is to be kept.
    """
    print(*shown(name, series), *wrong[:WRONG_SHOWN], sep="\n")
    if wrong:
        print(f"kept in {folder}")
        return 1
    shutil.rmtree(folder)
    if keep:
        save(name, [*read(name), series])
    return 0


def record(page: Path, name: str, series: Series) -> None:
    """Put a run's series into its data file, and the sums of all its series between its marks in the page."""
    kept = read(name)
    others = [one.run for one in kept]
    if series.run in others:
        kept[others.index(series.run)] = series
    else:
        kept.append(series)
    save(name, kept)
    write(page, name, lines(name, kept))


def main() -> None:
    """Write the sums of all data files into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    page = parser.parse_args().page
    for name in FIGURES:
        write(page, name, lines(name, read(name)))


if __name__ == "__main__":
    main()
