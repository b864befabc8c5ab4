"""`flintmq verify`: everything in a store against everything else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING

from flintmq.cli.options import Access, AccessOption, JsonOption, SetOption, StoreArgument, examples, store_config
from flintmq.cli.output import Output, dumps, output
from flintmq.cli.text import printable
from flintmq.forensics.codes import mended

if TYPE_CHECKING:
    from flintmq.forensics.findings import Defect, Note
    from flintmq.forensics.verify import Verification

EPILOG = examples("flintmq verify /var/rocketmq/store", "flintmq verify /var/rocketmq/store --json | grep defect")
NOTES_OF_A_CODE = 3
"""A person sees so many notes of one code; programs get all that are kept."""


def command(
    store: StoreArgument,
    access: AccessOption = Access.pread,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check everything in a store against the log.

    Every record, queue unit, index item and small file; exit code 1 where they contradict each other. Each defect
    tells its file, position, what was expected and found, and what it costs. Notes are harmless: leftovers of a
    crash, of expiry, of a cut log. docs/verify.md explains all of both.
    """
    from flintmq.forensics.verify import verify

    out, config = output(as_json), store_config(settings)
    with out.progress("verifying") as progress:
        found = verify(store, config, progress, access=access.value)
    return print_verification(out, found)


def print_verification(out: Output, found: Verification) -> int:
    """Print what verify found; gives the exit code."""
    out.lines(_json(found) if out.json else _text(found))
    return found.exit_code


def _json(found: Verification) -> Iterator[str]:
    """A line for each defect and note, then one with the counts."""
    for defect in found.defects:
        yield dumps({"kind": "defect", **_pairs(defect)})
    for note in found.notes:
        yield dumps({"kind": "note", **_pairs(note)})
    summary = {name: value for name, value in _pairs(found).items() if name not in ("defects", "notes")}
    yield dumps({"kind": "summary", **summary})


def _pairs(value: Defect | Note | Verification) -> dict[str, object]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _text(found: Verification) -> Iterator[str]:
    for defect in found.defects:
        place = "" if defect.position is None else f", position {defect.position}"
        yield f"defect  {defect.code}: {printable(defect.file)}{place}"
        yield f"        expected {printable(defect.expected)}; found {printable(defect.found)}"
        yield f"        {printable(defect.cost)}"
    if found.defect_count > len(found.defects):
        yield f"        and {found.defect_count - len(found.defects)} more defects"
    yield from _notes(found)
    state = "in use" if found.live else "stopped cleanly" if found.clean else "not stopped cleanly"
    yield f"log     {found.records} records, offsets {found.log_begin} to {found.log_end}, {found.ending}; {state}"
    yield f"queues  {found.queues} with {found.units} units"
    yield f"index   {found.index_files} files with {found.index_items} items"
    if any(map(mended, found.defect_counts)):
        yield f"mend    flintmq salvage {printable(found.root)} --in-place --dry-run  (or --into DIR: a new store)"
    yield f"result  {_counts(found.defect_counts, 'defect')}, {_counts(found.note_counts, 'note')}"


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
