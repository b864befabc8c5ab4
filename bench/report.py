"""bench/results.json (id -> figure, bar, commit) and bench/RESULTS.md, which is made from it and from lines.py.

The page says of each line whether its bar is held or missed, that the figure is older than the code it measures, or
that there is none yet.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from harness import Context, Result
from lines import LINES, Line
from provenance import HELD, MISSED, NO_BAR, NO_FIGURE, STALE, Measured, Repository, mark

FOLDER = Path(__file__).resolve().parent
JSON, PAGE = FOLDER / "results.json", FOLDER / "RESULTS.md"
PACKAGES = ("pyarrow", "pyspark", "duckdb")
HEAD = """\
# Results

Made by `make bench` (bench/run.py) from bench/results.json; bench/lines.py declares the lines, docs/internals/bench.md
says how they are measured. Every figure was taken within one run, in interleaved rounds, and is a median or a ratio of
medians; in brackets the least and the greatest round, where they lie further apart than a tenth. Do not compare seconds
across lines. A line is *stale* if the code it measures has changed since: its figure then says nothing about the bar.
"""


def machine() -> str:
    """Processor, cores, memory, system and versions, in a line."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES)
    python = ".".join(map(str, sys.version_info[:3]))
    return f"{model}, {os.cpu_count()} cores, {memory} GiB, {platform.system()}; Python {python}, {versions}"


def load(json_path: Path = JSON) -> dict[str, Any]:
    """Return what is known of each id."""
    known: dict[str, Any] = json.loads(json_path.read_text(encoding="utf-8")) if json_path.exists() else {}
    return known


def save(
    family: str,
    results: Mapping[str, Result],
    context: Context,
    before: Measured,
    after: Measured,
    pace: str,
    json_path: Path = JSON,
    page: Path = PAGE,
) -> None:
    """Put the results of a family in the place of its earlier ones, and write the page again.

    Args:
        before, after: what was checked out before and after they were measured.
        pace: how fast the machine was, in words.
    """
    known = load(json_path)
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    for line in LINES:
        if line.family != family:
            continue
        known.pop(line.id, None)
        if line.id not in results:
            continue
        ratio, detail = results[line.id].ratio, results[line.id].detail
        known[line.id] = {
            "ratio": round(ratio.figure, 3),
            "spread": ratio.spread and [round(one, 3) for one in ratio.spread],
            "bar": line.limit,
            "holds": line.holds(ratio.figure),
            "at_most": line.at_most,
            "detail": dict(detail),
            "date": date,
            "commit": before.commit,
            "changed": before.changed or after != before,
            "code": list(line.code),
            "machine": machine(),
            "pace": pace,
            "rounds": context.rounds,
            "log_mib": context.mib,
        }
    known = {line.id: known[line.id] for line in LINES if line.id in known}
    json_path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    page.write_text(render(known, Repository()), encoding="utf-8")


def marks(known: Mapping[str, Any], repository: Repository) -> dict[str, str]:
    """The mark of each line that is declared, by the bar that is declared now."""
    found = dict.fromkeys((line.id for line in LINES), NO_FIGURE)
    for line in LINES:
        if line.id in known:
            judged = {"bar": line.limit, "holds": line.holds(known[line.id]["ratio"])}
            found[line.id] = mark(known[line.id] | judged, repository)
    return found


def tell(json_path: Path = JSON, page: Path = PAGE, repository: Repository | None = None) -> int:
    """Print the mark of each line and write the page again; return 0 if every bar is held."""
    repository = repository or Repository()
    known = load(json_path)
    for id_, found in marks(known, repository).items():
        print(f"{id_:<24} {found}")
    page.write_text(render(known, repository), encoding="utf-8")
    return int(any(found not in (HELD, NO_BAR) for found in marks(known, repository).values()))


def is_fresh(
    family: str, mib: int, rounds: int, known: dict[str, Any] | None = None, repository: Repository | None = None
) -> bool:
    """Return whether the figures of a family are of the code as it is now, measured at this size."""
    known, repository = load() if known is None else known, repository or Repository()
    entries = [known[line.id] for line in LINES if line.family == family and line.id in known]
    return bool(entries) and all(
        (entry["log_mib"], entry["rounds"]) == (mib, rounds) and not mark(entry, repository).startswith(STALE)
        for entry in entries
    )


def spread_words(spread: tuple[float, float] | list[float] | None) -> str:
    """The least and the greatest round in brackets; nothing where they are near each other."""
    return f" ({spread[0]:.2f} to {spread[1]:.2f})" if spread else ""


def render(known: Mapping[str, Any], repository: Repository) -> str:
    """Return the page, with the marks as they are for what is checked out."""
    found = marks(known, repository)
    words = Counter(one.split(" (")[0] for one in found.values())
    missed = [id_ for id_, one in found.items() if one == MISSED]
    lines = [
        HEAD,
        f"At commit {repository.head()[:8] or 'unknown'}: {words[HELD]} held, {words[MISSED]} missed, "
        f"{words[STALE]} stale, {words[NO_FIGURE]} without a figure yet, {words[NO_BAR]} without a bar"
        + (f"; missed: {', '.join(missed)}." if missed else "."),
        "`make bench ARGS=--report` says it anew for another commit.",
        "",
        "| no. | line | measure | figure | bar | mark | commit | moonshot | peer | bound by |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(row(line, known.get(line.id), found[line.id]) for line in LINES),
    ]
    runs = sorted({(entry["machine"], entry["log_mib"], entry["rounds"]) for entry in known.values()})
    lines += ["", "## Where", ""]
    lines += [f"- {where}; logs of {mib} MiB, {rounds} rounds" for where, mib, rounds in runs]
    lines += [
        "",
        "## Behind the figures (medians)",
        "",
        "| line | date | pace of the machine | seconds, if nothing else is said |",
        "|---|---|---|---|",
    ]
    for id_, entry in known.items():
        detail = ", ".join(f"{name} {value:g}" if isinstance(value, int | float) else f"{name} {value}"
                           for name, value in entry["detail"].items())  # fmt: skip
        lines.append(f"| {id_} | {entry['date']} | {entry.get('pace', 'not recorded')} | {detail} |")
    return "\n".join(lines) + "\n"


def row(line: Line, entry: Mapping[str, Any] | None, found: str) -> str:
    """The row of a line, measured or not."""
    moonshot = "" if line.moonshot is None else f"{line.bar[:2]} {line.moonshot:g}"
    figure = f"**{entry['ratio']:.2f}**{spread_words(entry.get('spread'))}" if entry else ""
    told = found if found in (HELD, NO_BAR) else f"**{found}**"
    cells = (line.number, line.id, line.what, figure, line.bar, told, entry["commit"][:8] if entry else "", moonshot,
             line.peer, line.bound)  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"
