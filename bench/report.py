"""bench/results.json (id -> ratio, bar, holds) and bench/RESULTS.md, which is made from it."""

from __future__ import annotations

import datetime
import json
import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from harness import Context, Result

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


def save(results: list[Result], context: Context, json_path: Path = JSON, page: Path = PAGE) -> None:
    """Put these results over those of earlier runs, and write the page again."""
    known: dict[str, Any] = json.loads(json_path.read_text(encoding="utf-8")) if json_path.exists() else {}
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
            "machine": machine(),
            "rounds": context.rounds,
            "log_mib": context.mib,
        }
    known = dict(sorted(known.items(), key=lambda pair: order(pair[0])))
    json_path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    page.write_text(render(known), encoding="utf-8")


def order(id_: str) -> tuple[str, int, str]:
    """P before S, by number."""
    head, _, rest = id_.partition(".")
    return head[0], int("".join(filter(str.isdigit, head))), head + rest


def render(known: dict[str, Any]) -> str:
    """The page."""
    missed = [id_ for id_, line in known.items() if not line["holds"]]
    newest = max((line["date"] for line in known.values()), default="never")
    lines = [
        "# Results",
        "",
        "Made by `make bench` (bench/run.py); what each line means stands in docs/internals/bench.md. Every ratio was "
        "taken",
        "within one run, in interleaved rounds, and is a ratio of medians. Do not compare seconds across lines.",
        "",
        f"{len(known) - len(missed)} of {len(known)} bars hold"
        + (f"; missed: {', '.join(missed)}." if missed else ".")
        + f" Last run: {newest}.",
        "",
        "| line | measure | ratio | bar | holds | moonshot | bound by |",
        "|---|---|---|---|---|---|---|",
    ]
    for id_, line in known.items():
        sign = "<=" if line["at_most"] else ">="
        moonshot = "" if line["moonshot"] is None else f"{sign} {line['moonshot']:g}"
        lines.append(
            f"| {id_} | {line['what']} | **{line['ratio']:.2f}** | {sign} {line['bar']:g} "
            f"| {'yes' if line['holds'] else '**no**'} | {moonshot} | {line['bound']} |"
        )
    runs = sorted({(line["machine"], line["log_mib"], line["rounds"]) for line in known.values()})
    lines += ["", "## Where", ""]
    lines += [f"- {where}; logs of {mib} MiB, {rounds} rounds" for where, mib, rounds in runs]
    lines += ["", "## Seconds behind the ratios (medians)", "", "| line | date | seconds |", "|---|---|---|"]
    for id_, line in known.items():
        detail = ", ".join(f"{name} {value:g}" if isinstance(value, (int, float)) else f"{name} {value}" for name, value in line["detail"].items())  # fmt: skip # noqa: E501
        lines.append(f"| {id_} | {line['date']} | {detail} |")
    return "\n".join(lines) + "\n"
