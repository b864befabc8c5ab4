"""Health: verify in the background, with progress and a stop, and its findings."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flintmq.cli.commands.verify import json_lines
from flintmq.cli.output import dumps
from flintmq.errors import FlintError, MessageNotFoundError, UsageError
from flintmq.forensics.verify.codes import mend
from flintmq.forensics.verify.findings import Findings
from flintmq.forensics.verify.run import Verification, verify
from flintmq.ui.asked import Ask
from flintmq.ui.messages import explained
from flintmq.ui.page import UiPage, shell_word
from flintmq.ui.stores import OpenStore

if TYPE_CHECKING:
    from flintmq.ui.app import Ui

SHOWN = 200
AGAIN_S = 2
AT_ONCE = 2
"""Stores that are verified at the same time."""


class StoreCheck:
    """One verification of a store, in a thread of its own."""

    def __init__(self, one: OpenStore) -> None:
        self.one, self.findings = one, Findings()
        self.done = self.total = 0
        self.found: Verification | None = None
        self.error = ""
        self.begun = time.monotonic()
        self.seconds, self.ended_ms = 0.0, 0
        self.stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"flintmq-ui-verify-{one.number}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.found = verify(
                self.one.path, self.one.config, self._note, stop=self.stop.is_set, findings=self.findings
            )
        except (FlintError, OSError) as error:
            self.error = str(error)
        finally:
            self.seconds, self.ended_ms = time.monotonic() - self.begun, round(1000 * time.time())

    def _note(self, done: int, total: int) -> None:
        self.done, self.total = done, total

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        self._thread.join(seconds)


def health(ui: Ui, one: OpenStore | None, ask: Ask) -> UiPage:
    assert one is not None
    check = ui.checks.get(one.number)
    running = check is not None and check.running
    words = {
        "check": check,
        "running": running,
        "percent": round(100 * check.done / max(check.total, 1)) if check is not None else 0,
        "seconds": (time.monotonic() - check.begun if running else check.seconds) if check is not None else 0,
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
            done, total = (check.done, check.total) if check is not None else (0, 0)
            yield dumps({"kind": "progress", "running": running, "done": done, "total": total})

    again = AGAIN_S if running else 0
    return UiPage("health.html", "Health", words, ["verify", one.path], lines, tab="health", store=one, again_s=again)


def finding(ui: Ui, one: OpenStore | None, ask: Ask) -> UiPage:
    """Explain the file and the place of a finding, by the finding's number."""
    assert one is not None
    check, number = ui.checks.get(one.number), ask.number("number")
    if check is None or number >= len(check.findings.defects):
        raise MessageNotFoundError("there is no such finding any more; verify again on the page Health")
    defect = check.findings.defects[number]
    page = explained(one, defect.file, defect.position)
    page.tab = "health"
    page.words["defect"] = defect
    command = shlex.split(mend(defect.code, one.path))
    page.mend = command[1:] if command[0] == "flintmq" else ()
    return page


def _mend(ui: Ui, one: OpenStore, code: str) -> str:
    """Return the command for a defect, with the settings that this server was given."""
    text = mend(code, one.path)
    return " ".join([text, *map(shell_word, ui.given_words())]) if text.startswith("flintmq ") else text


def act(ui: Ui, one: OpenStore, action: str) -> None:
    """Begin or stop a verification.

    Raises UsageError: another action, or enough stores are being verified.
    """
    check = ui.checks.get(one.number)
    if action == "stop":
        if check is not None:
            check.stop.set()
    elif action == "start":
        if check is not None and check.running:
            return
        if sum(other.running for other in ui.checks.values()) >= AT_ONCE:
            raise UsageError(f"{AT_ONCE} stores are being verified; stop one, or wait")
        ui.checks[one.number] = StoreCheck(one)
    else:
        raise UsageError("action is start or stop")
