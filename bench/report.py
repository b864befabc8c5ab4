"""bench/results.json (id -> ratio, bar, commit) and bench/RESULTS.md, which is made from it.

The page says of each line whether its bar is held or missed, or that the figure is older than the code it measures.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from harness import Context, Result
from provenance import HELD, MISSED, NO_BAR, STALE, Measured, Repository, mark

FOLDER = Path(__file__).resolve().parent
JSON, PAGE = FOLDER / "results.json", FOLDER / "RESULTS.md"
PACKAGES = ("pyarrow", "pyspark", "duckdb", "polars")


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
    line: str,
    results: list[Result],
    context: Context,
    before: Measured,
    after: Measured,
    code: Sequence[str],
    pace: str,
    json_path: Path = JSON,
    page: Path = PAGE,
) -> None:
    """Put the results of a line in the place of its earlier ones, and write the page again.

    Args:
        before, after: what was checked out before and after the line was measured.
        code: the paths that it measures.
        pace: how fast the machine was, in words.
    """
    known = {id_: entry for id_, entry in load(json_path).items() if id_.partition(".")[0] != line}
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    for result in results:
        known[result.id] = {
            "ratio": round(result.ratio, 3),
            "bar": result.bar,
            "holds": result.holds,
            "at_most": result.at_most,
            "moonshot": result.moonshot,
            "what": result.what,
            "bound": result.bound,
            "detail": dict(result.detail),
            "date": date,
            "commit": before.commit,
            "changed": before.changed or after != before,
            "code": list(code),
            "machine": machine(),
            "pace": pace,
            "rounds": context.rounds,
            "log_mib": context.mib,
        }
    known = dict(sorted(known.items(), key=lambda pair: order(pair[0])))
    json_path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    page.write_text(render(known, Repository()), encoding="utf-8")


def tell(json_path: Path = JSON, page: Path = PAGE, repository: Repository | None = None) -> int:
    """Print the mark of each id and write the page again; return 0 if every bar is held."""
    repository = repository or Repository()
    known = load(json_path)
    marks = {id_: mark(entry, repository) for id_, entry in known.items()}
    for id_, found in marks.items():
        print(f"{id_:<24} {found}")
    page.write_text(render(known, repository), encoding="utf-8")
    return int(any(found not in (HELD, NO_BAR) for found in marks.values()))


def is_fresh(
    line: str, mib: int, rounds: int, known: dict[str, Any] | None = None, repository: Repository | None = None
) -> bool:
    """Return whether the figures of a line are of the code as it is now, measured at this size."""
    known, repository = load() if known is None else known, repository or Repository()
    entries = [entry for id_, entry in known.items() if id_.partition(".")[0] == line]
    return bool(entries) and all(
        (entry["log_mib"], entry["rounds"]) == (mib, rounds) and not mark(entry, repository).startswith(STALE)
        for entry in entries
    )


def order(id_: str) -> tuple[str, int, str]:
    """P before S before U, by number."""
    head, _, rest = id_.partition(".")
    return head[0], int("".join(filter(str.isdigit, head))), head + rest


def render(known: dict[str, Any], repository: Repository) -> str:
    """Return the page, with the marks as they are for what is checked out."""
    marks = {id_: mark(line, repository) for id_, line in known.items()}
    words = Counter(found.split(" (")[0] for found in marks.values())
    missed = [id_ for id_, found in marks.items() if found == MISSED]
    lines = [
        "# Results",
        "",
        "Made by `make bench` (bench/run.py) from bench/results.json; docs/internals/bench.md says what each line "
        "means.",
        "Every ratio was taken within one run, in interleaved rounds, and is a ratio of medians. Do not compare "
        "seconds across",
        "lines. A line is *stale* if the code it measures has changed since: its figure then says nothing about the "
        "bar.",
        "",
        f"At commit {repository.head()[:8] or 'unknown'}: {words[HELD]} held, {words[MISSED]} missed, "
        f"{words[STALE]} stale, {words[NO_BAR]} without a bar" + (f"; missed: {', '.join(missed)}." if missed else "."),
        "`make bench ARGS=--report` says it anew for another commit.",
        "",
        "| line | measure | ratio | bar | mark | commit | moonshot | bound by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for id_, line in known.items():
        sign = "<=" if line["at_most"] else ">="
        moonshot = "" if line["moonshot"] is None else f"{sign} {line['moonshot']:.3g}"
        bar = "" if line["bar"] is None else f"{sign} {line['bar']:.3g}"
        found = marks[id_] if marks[id_] in (HELD, NO_BAR) else f"**{marks[id_]}**"
        commit = line.get("commit", "")[:8]
        lines.append(
            f"| {id_} | {line['what']} | **{line['ratio']:.2f}** | {bar} | {found} | {commit} | {moonshot} "
            f"| {line['bound']} |"
        )
    runs = sorted({(line["machine"], line["log_mib"], line["rounds"]) for line in known.values()})
    lines += ["", "## Where", ""]
    lines += [f"- {where}; logs of {mib} MiB, {rounds} rounds" for where, mib, rounds in runs]
    lines += [
        "",
        "## Seconds behind the ratios (medians)",
        "",
        "| line | date | pace of the machine | seconds |",
        "|---|---|---|---|",
    ]
    for id_, line in known.items():
        detail = ", ".join(f"{name} {value:g}" if isinstance(value, (int, float)) else f"{name} {value}" for name, value in line["detail"].items())  # fmt: skip # noqa: E501
        lines.append(f"| {id_} | {line['date']} | {line.get('pace', 'not recorded')} | {detail} |")
    return "\n".join(lines) + "\n"
