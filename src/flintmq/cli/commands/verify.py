"""`flintmq verify`: checks everything in a store against everything else."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from flintmq.cli import signals
from flintmq.cli.declare import Option
from flintmq.cli.options import Access, AccessOption, JsonOption, SetOption, StoresArgument, examples
from flintmq.cli.output import Output, dumps, output, stderr
from flintmq.cli.terminal import verdict
from flintmq.cli.text import near, printable
from flintmq.cli.values import members_of, parse_log_place, store_config
from flintmq.errors import UsageError
from flintmq.forensics.verify.codes import in_place, mend

if TYPE_CHECKING:
    from flintmq.cluster.member import Member
    from flintmq.config.keys import StoreConfig
    from flintmq.forensics.verify.findings import Defect, Findings, Note
    from flintmq.forensics.verify.run import Verification

EPILOG = examples(
    "flintmq verify /var/rocketmq/store",
    "flintmq verify /var/rocketmq/store --json | grep defect",
    "flintmq verify /var/rocketmq/store --to 00000000001073741824",
)
NOTES_OF_A_CODE = 3
"""A person sees this many notes of one code; programs get all that are kept."""
Watch = Literal["bar", "json"]
"""The way of showing progress."""


class ProgressLines:
    """Prints progress as lines of JSON on stderr, one a second at most and one at the end."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._begun, self._printed = time.monotonic(), 0.0
        self._last = (0, 0)

    def __call__(self, done: int, total: int) -> None:
        """Take progress, in bytes of log."""
        self._last = done, total
        if time.monotonic() - self._printed >= 1:
            self.write()

    def write(self) -> None:
        self._printed = time.monotonic()
        done, total = self._last
        line: dict[str, object] = {"kind": "progress", "done": done, "total": total}
        line |= {"seconds": round(self._printed - self._begun, 3)}
        line |= {"defects": self.findings.defect_count, "notes": self.findings.note_counts.total()}
        stderr(dumps(line))


def command(
    stores: StoresArgument,
    begin: Annotated[str | None, Option("--from PLACE", "Begin at this log offset or log file.")] = None,
    end: Annotated[str | None, Option("--to PLACE", "End at this log offset, or where this log file begins.")] = None,
    progress: Annotated[
        Watch, Option("--progress WAY", "bar (where stderr is a terminal), or json: lines on stderr.")
    ] = "bar",
    access: AccessOption = "pread",
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check everything in a store against the log, or a part of it.

    Checks every record, queue unit, index item and small file; exit code 1 if they contradict each other. Each defect
    names its file and position, the expected and the found state, and the cost; the line `mend` names the command that
    mends all, or most. Notes are harmless: leftovers of a crash, of expiry, of a truncated log. `flintmq help` names
    the page that explains them all.

    A run that --to or Ctrl-C ends prints how far it got, and the --from that continues; --from judges as if the log
    before had expired. Ctrl-C waits for the block of the log at hand; a second one does not. Several stores are checked
    one after the other.
    """
    out, config = output(as_json), store_config(settings)
    members = members_of(stores, config, out, slaves=True)
    with signals.waiting() as stop:
        if members[0].words and (begin is not None or end is not None):
            raise UsageError("--from and --to are of one store; give one")
        code = 0
        for number, member in enumerate(members):
            out.lines(_heading(member, as_json))
            code = max(code, _verify(member.path, begin, end, stop, progress, access, config, out))
            if stop() and (rest := len(members) - number - 1):
                out.note(f"stopped: {rest} more store{'s' * (rest > 1)} not checked")
                break
        return code


def _heading(member: Member, as_json: bool) -> Iterator[str]:
    """Yield the line that names one of several stores."""
    if words := member.words:
        yield (
            dumps({"kind": "store", **words})
            if as_json
            else f"{printable(member.broker)}: {printable(near(member.path))}"
        )


def _verify(
    store: str,
    begin: str | None,
    end: str | None,
    stop: Callable[[], bool],
    progress: Watch,
    access: Access,
    config: StoreConfig,
    out: Output,
) -> int:
    from flintmq.forensics.verify.findings import Findings
    from flintmq.forensics.verify.run import AT_END, verify

    findings = Findings()
    first = None if begin is None else parse_log_place("--from", begin)
    last = None if end is None else parse_log_place("--to", end)
    more = partial(verify, access=access, begin=first, end=last, stop=stop, findings=findings)
    if progress == "json":
        lines = ProgressLines(findings)
        found = more(store, config, lines)
        lines.write()
    else:
        with out.progress("verifying") as bar:
            found = more(store, config, bar)
    code = print_verification(out, found)
    if found.stopped is not None:
        how = "ended at log offset {}, as requested" if found.stopped == AT_END else "stopped at log offset {}"
        rest = f"flintmq verify {shlex.quote(found.root)} --from {found.part_end}"
        out.note(f"{how.format(found.part_end)}; continue with: {rest}")
    return code


def print_verification(out: Output, found: Verification) -> int:
    out.lines(json_lines(found) if out.json else _text(found))
    return found.exit_code


def json_lines(found: Verification) -> Iterator[str]:
    """Yield a line for each defect and note, then one with the counts."""
    for defect in found.defects:
        yield dumps({"kind": "defect", **_pairs(defect), "mend": mend(defect.code, found.root)})
    for note in found.notes:
        yield dumps({"kind": "note", **_pairs(note)})
    summary = {name: value for name, value in _pairs(found).items() if name not in ("defects", "notes")}
    yield dumps({"kind": "summary", **summary})


def _pairs(value: Defect | Note | Verification) -> dict[str, object]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _text(found: Verification) -> Iterator[str]:
    for defect in found.defects:
        place = "" if defect.position is None else f", position {defect.position}"
        yield f"{verdict('defect', False)}  {defect.code}: {printable(defect.file)}{place}"
        yield f"        expected {printable(defect.expected)}; found {printable(defect.found)}"
        yield f"        {printable(defect.cost)}"
        if not in_place(defect.code):
            yield f"        mend: {printable(mend(defect.code, found.root))}"
    if found.defect_count > len(found.defects):
        yield f"        and {found.defect_count - len(found.defects)} more defects"
    yield from _notes(found)
    state = "in use" if found.live else "stopped cleanly" if found.clean else "not stopped cleanly"
    end = f"{found.log_end}, {found.ending.replace('_', ' ')}"
    yield f"log     {found.records} records, offsets {found.log_begin} to {end}; {state}"
    yield f"queues  {found.queues} with {found.units} units"
    yield f"index   {found.index_files} files with {found.index_items} items"
    if at_once := sum(count for code, count in found.defect_counts.items() if in_place(code)):
        which = "" if at_once == found.defect_count else f"the other {at_once}: " if at_once > 1 else "the other: "
        command = printable(shlex.quote(found.root))
        yield f"mend    {which}flintmq salvage {command} --in-place  (first with --dry-run; or --out DIR: a new store)"
    if found.stopped is not None or found.part_begin > found.log_begin:
        yield f"part    log offsets {found.part_begin} to {found.part_end}"
    so_far = "so far " if found.stopped is not None else ""
    result = verdict("result", not found.defect_count)
    yield f"{result}  {so_far}{_counts(found.defect_counts, 'defect')}, {_counts(found.note_counts, 'note')}"


def _notes(found: Verification) -> Iterator[str]:
    shown: dict[str, int] = {}
    for note in found.notes:
        shown[note.code] = shown.get(note.code, 0) + 1
        if shown[note.code] <= NOTES_OF_A_CODE:
            yield f"note    {note.code}: {printable(note.text)}"
    for code, count in found.note_counts.items():
        if count > NOTES_OF_A_CODE:
            yield f"note    {code}: {count} in all"


def _counts(counts: dict[str, int], what: str) -> str:
    total = sum(counts.values())
    if not total:
        return f"no {what}s"
    codes = ", ".join(f"{code} {count}" for code, count in sorted(counts.items()))
    return f"{total} {what}{'s' if total > 1 else ''} ({codes})"
