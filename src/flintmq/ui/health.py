"""Health: verify in the background, with progress and a stop, and its findings."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from flintmq.cli.commands.verify import json_lines
from flintmq.cli.output import dumps
from flintmq.errors import MessageNotFoundError
from flintmq.forensics.verify.codes import mend
from flintmq.forensics.verify.findings import Defect, Findings
from flintmq.forensics.verify.run import Verification, verify
from flintmq.format.consume_queue import UNIT_SIZE
from flintmq.store.layout import directories
from flintmq.store.layout.directories import find_root
from flintmq.ui.asked import Ask
from flintmq.ui.background import AGAIN_S, BackgroundCheck, acted, current
from flintmq.ui.links import link
from flintmq.ui.messages import explained
from flintmq.ui.page import UiPage, shell_word
from flintmq.ui.stores import OpenStore

if TYPE_CHECKING:
    from flintmq.ui.app import Ui

SHOWN = 200
NOT_BEGUN = {"kind": "progress", "running": False, "done": 0, "total": 0}


class StoreCheck(BackgroundCheck[Verification]):
    """One verification of a store."""

    def __init__(self, one: OpenStore, before: StoreCheck | None) -> None:
        self.one, self.findings = one, Findings()
        self.whole_before = None if before is None else before.last_whole
        super().__init__([one])

    @property
    def last_whole(self) -> StoreCheck | None:
        """The last check that read all: a later one that was stopped, or still runs, does not take its place."""
        return self if self.found is not None and self.found.stopped is None else self.whole_before

    def work(self) -> Verification:
        return verify(self.one.path, self.one.config, self.note, stop=self.stop.is_set, findings=self.findings)


def health(ui: Ui, one: OpenStore | None, ask: Ask) -> UiPage:
    assert one is not None
    find_root(one.path, one.config, one.effects)  # a store that is gone has no findings
    check = current(ui.checks.get(one.number))
    running = check is not None and check.running
    words = {
        "check": check,
        "replaced": check is None and one.number in ui.checks,
        "running": running,
        "defects": list(check.findings.defects[:SHOWN]) if check is not None else [],
        "notes": list(check.findings.notes[:SHOWN]) if check is not None else [],
        "counts": dict(check.findings.defect_counts) if check is not None else {},
        "note_counts": dict(check.findings.note_counts) if check is not None else {},
        "mend": lambda code: _mend(ui, one, code),
        "most": SHOWN,
    }

    def lines() -> Iterator[str]:
        if check is not None and check.found is not None:
            yield from json_lines(check.found)
        else:
            yield dumps(check.progress if check is not None else NOT_BEGUN)

    again = AGAIN_S if running else 0
    return UiPage("health.html", "Health", words, one.command("verify"), lines, tab="health", store=one, again_s=again)


def finding(ui: Ui, one: OpenStore | None, ask: Ask) -> UiPage:
    """Explain the file and the place of a finding, by the finding's number."""
    assert one is not None
    check, number = current(ui.checks.get(one.number)), ask.number("number")
    if check is None or number >= len(check.findings.defects):
        raise MessageNotFoundError("there is no such finding any more; verify again on the page Health")
    defect = check.findings.defects[number]
    page = explained(one, defect.file, defect.position)
    page.tab = "health"
    page.words |= {"defect": defect, "in_queue": _in_queue(one, defect)}
    first, *mends = shlex.split(mend(defect.code, one.path))
    page.mend = mends if first == "flintmq" else ()
    return page


def _in_queue(one: OpenStore, defect: Defect) -> str:
    """Return the address of the messages at a defect in a file of a plain queue; empty for others."""
    *_, kind, topic, queue, file = ["", "", *defect.file.split("/")]
    if kind != directories.QUEUES or defect.position is None or not (queue.isdecimal() and file.isdecimal()):
        return ""
    offset = (int(file) + defect.position) // UNIT_SIZE
    return link(one.number, "queue", topic=topic, queue=queue, offset=offset)


def _mend(ui: Ui, one: OpenStore, code: str) -> str:
    """Return the command for a defect, with the settings that this server was given."""
    text = mend(code, one.path)
    return " ".join([text, *map(shell_word, ui.given_words())]) if text.startswith("flintmq ") else text


def act(ui: Ui, one: OpenStore, action: str) -> None:
    """Begin or stop a verification.

    Raises UsageError: as acted.
    """
    before = current(ui.checks.get(one.number))
    check = acted(action, before, partial(StoreCheck, one, before), ui.all_checks)
    if check is not None:
        ui.checks[one.number] = check
