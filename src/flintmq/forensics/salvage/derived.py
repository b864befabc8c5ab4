"""Salvages in place all files but the log: replaces every part that verify reports.

`rebuild` makes queues and index from the mended log. Only those queues are replaced that verify reports, or that
pointed to a lost message. Checkpoint and configuration keep their plausible values. All files of the timer are removed:
RocketMQ makes them again from the timer topic, as on a first start.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from flintmq.config.keys import StoreConfig
from flintmq.errors import FormatError
from flintmq.forensics import rebuild
from flintmq.forensics.salvage.config import translate_offsets, usable
from flintmq.forensics.salvage.filler import Range
from flintmq.forensics.salvage.holes import fill_holes
from flintmq.forensics.salvage.journal import NEW, SCRATCH, SalvageJournal
from flintmq.forensics.salvage.queues import Emit
from flintmq.forensics.verify.context import Ranges
from flintmq.forensics.verify.findings import KEPT_DEFECTS, KEPT_NOTES
from flintmq.forensics.verify.queue_files import Disk
from flintmq.forensics.verify.run import VerifyRun
from flintmq.format import checkpoint, config_json, flintmq_mark
from flintmq.format.record import encode_blank
from flintmq.format.text import java_decode
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.overlay import Overlay
from flintmq.store.consumequeue import known_ends
from flintmq.store.layout import config_reader, directories
from flintmq.store.layout.queue_name import BATCH, PLAIN, QueueName

TURNS = 5
KINDS = (PLAIN, directories.EXT_QUEUES, BATCH)
LOG_CODES = ("record-damaged", "log-unordered")


@dataclass(eq=False)
class Derived:
    root: str
    config: StoreConfig
    peer: str
    overlay: Overlay  # the store as it would be; it grows with the plan
    journal: SalvageJournal
    emit: Emit
    write: Callable[[str, int, bytes], None]  # plans to write bytes into a file: (path, position, bytes)
    _plan: rebuild.RebuildPlan | None = None
    _swapped: set[str] = field(default_factory=set)
    _lost: Ranges = field(default_factory=Ranges)

    @property
    def made(self) -> str:
        return os.path.join(self.journal.folder, SCRATCH, "made")

    def mend(self, damaged: Sequence[Range], lost_end: bool = False) -> dict[str, int]:
        """Plan until verify finds nothing more to mend; return the defects left, by code.

        `lost_end`: files are missing at the end of the log, so that queues and index continue after it.
        """
        wanted = {*self._all_queues(), directories.INDEX} if lost_end else set()
        if lost_end:
            self._out(flintmq_mark.FILE_NAME, "it names an end that the log does not have")
        if damaged:
            for range_ in damaged:
                self._lost.add(range_.begin, range_.end)
            wanted |= self._that_led_to_lost()
        for _ in range(TURNS):
            look = self._look(self.overlay)
            before = len(self.journal.changes)
            self._turn(look, wanted)
            if len(self.journal.changes) == before:
                break
        return look.found.defect_counts

    def _look(self, effects: Overlay) -> VerifyRun:
        with closing(Disk(effects)) as disk:
            look = VerifyRun(self.root, self.config, disk)
            look.run(None, "pread")
            return look

    def _that_led_to_lost(self) -> set[str]:
        """Return the queues and index that have units and items of lost messages.

        Verify notes them only before the log is mended, so it looks at the store without the overlay.
        """
        found = self._look(Overlay()).found
        places = {note.file for note in found.notes if note.code == "units-lost" and note.file is not None}
        wanted = {self._inside(place) for place in places}
        if sum(found.note_counts.values()) > KEPT_NOTES:
            wanted |= self._all_queues()
        return wanted | ({directories.INDEX} if "index-lost" in found.note_counts else set())

    def _inside(self, path: str) -> str:
        return os.path.relpath(path, self.root)

    def _all_queues(self) -> set[str]:
        return {
            f"{kind}/{topic}/{number}"
            for kind in KINDS
            for topic in self.overlay.listdir(os.path.join(self.root, kind))
            for number in self.overlay.listdir(os.path.join(self.root, kind, topic))
        }

    def _turn(self, look: VerifyRun, wanted: set[str]) -> None:
        found = look.found
        codes = set(found.defect_counts)
        if codes & {*LOG_CODES, "mark-bad"} and self.overlay.size(self._at(flintmq_mark.FILE_NAME)) is not None:
            self._out(flintmq_mark.FILE_NAME, "it names an end that the log does not have, or cannot be read")
            return
        if "queue-kind" in codes:
            # First: by a queue of the wrong type the others would be made wrong, where topics.json does not decide.
            before = len(self.journal.changes)
            for defect in found.defects:
                folder = os.path.dirname(defect.file)
                topic = java_decode(os.fsencode(os.path.basename(folder)))
                if defect.code == "queue-kind" and topic in look.snapshot.broker.topics:
                    self._out(self._inside(folder), "topics.json gives its topic queues of another type")
            if len(self.journal.changes) > before:
                return
        for defect in found.defects:
            inside = self._inside(defect.file)
            if defect.code == "queue-kind":
                continue
            if defect.code.startswith(("queue-", "unit-", "ext-")):
                wanted.add("/".join(inside.split(os.sep)[:3]))
            elif defect.code.startswith("index-"):
                wanted.add(directories.INDEX)
            elif defect.code == "blank-size" and defect.position is not None:
                self.write(defect.file, defect.position, encode_blank(look.log.file_size - defect.position))
                self.emit({"what": "write", "file": defect.file, "why": "its end-of-file record gives a wrong size"})
            elif defect.code == "config-bad":
                self._config(inside)
            elif defect.code.startswith("timer-"):
                self._timer(defect.code)
        if found.defect_count > KEPT_DEFECTS:
            wanted |= {*self._all_queues(), directories.INDEX}
        if codes & {"checkpoint-bad", "checkpoint-ahead"}:
            self._checkpoint(look)
        self._replace(wanted)
        wanted.clear()
        if "offset-ahead" in codes:
            self._offsets(look)

    # -- queues and index ---------------------------------------------------------------------------------------------

    def _replace(self, wanted: Iterable[str]) -> None:
        for inside in sorted(set(wanted) - self._swapped):
            kind, _, name = inside.partition("/")
            if kind == directories.EXT_QUEUES:
                kind, inside = PLAIN, f"{PLAIN}/{name}"
            if inside in self._swapped or (kind in KINDS and name.count("/") != 1):
                continue
            self._swapped.add(inside)
            plan = self._rebuilt()
            if kind == PLAIN:
                topic, _, number = name.rpartition("/")
                queue = QueueName(topic, int(number))
                filled = fill_holes(self.root, self.made, queue, plan.sizes.queue_file, self._lost.__contains__, REAL)
                why = (
                    f"made from the log; {filled} offsets of lost messages point to the next message"
                    if filled
                    else "made from the log"
                )
                self._swap(inside, why)
                if plan.sizes.ext_file:
                    self._swap(f"{directories.EXT_QUEUES}/{name}", why)
            else:
                self._swap(inside, "made from the log")
            if kind in KINDS and self.overlay.size(self._at(known_ends.FILE_NAME)) is not None:
                self._out(known_ends.FILE_NAME, "it lists the queues as they were")

    def _rebuilt(self) -> rebuild.RebuildPlan:
        """Rebuild queues and index from the mended log, once."""
        if self._plan is None:
            self._plan = rebuild.plan_of(self.root, self.made, self.config, self.peer, self.overlay)
            os.makedirs(self.made, exist_ok=True)
            # Without a root the queues that are to be replaced are no evidence of how far the log went.
            facts = replace(self._plan.facts, root="")
            rebuild.run(replace(self._plan, into=self.made, facts=facts))
        return self._plan

    def _swap(self, inside: str, why: str) -> None:
        """Plan to replace a file or directory by the rebuilt one, or to remove it if there is none."""
        made, new = os.path.join(self.made, inside), os.path.join(self.journal.folder, NEW, inside)
        old, there = os.path.lexists(self._at(inside)), os.path.lexists(made)
        if not (old or there):
            return
        if there:
            os.makedirs(os.path.dirname(new), exist_ok=True)
            os.rename(made, new)
        self.overlay.places[self._at(inside)] = new if there else None
        folder, place = os.path.dirname(self._at(inside)), os.path.dirname(new)
        if there and not os.path.isdir(folder):  # the journal makes it; the next look must see what is in it
            self.overlay.places[folder] = place
        self.journal.changes.append({"op": "swap", "file": inside, "old": old, "new": there})
        self.emit({"what": "replace" if there else "remove", "file": self._at(inside), "why": why})

    def _at(self, inside: str) -> str:
        return os.path.join(self.root, inside)

    def _out(self, inside: str, why: str) -> None:
        if inside not in self._swapped and os.path.lexists(self._at(inside)):
            self._swapped.add(inside)
            self._swap(inside, why)

    def _put(self, inside: str, data: bytes, why: str) -> None:
        if inside in self._swapped:
            return
        self._swapped.add(inside)
        os.makedirs(os.path.dirname(os.path.join(self.made, inside)), exist_ok=True)
        with open(os.path.join(self.made, inside), "wb") as file:
            file.write(data)
        self._swap(inside, why)

    # -- small files --------------------------------------------------------------------------------------------------

    def _checkpoint(self, look: VerifyRun) -> None:
        """Plan a checkpoint with no number after the end of the log.

        An unreadable one becomes zeros: RocketMQ then replays the whole log.
        """
        data = self.overlay.read_file(self._at("checkpoint"), checkpoint.FILE_SIZE) or b""
        try:
            known, why = checkpoint.decode(data), "it named records that the log does not have"
        except FormatError:
            known, why = checkpoint.Checkpoint(), "it cannot be read; with zeros a broker checks the whole log"
        physic, logics, index = (min(max(time, 0), look.latest_time) for time in known[:3])
        flushed, confirm = (offset if 0 <= offset <= look.found.log_end else 0 for offset in known[3:5])
        mended = checkpoint.Checkpoint(physic, logics, index, flushed, confirm)
        self._put("checkpoint", checkpoint.encode(mended), why)

    def _config(self, inside: str) -> None:
        folder, name = os.path.split(self._at(inside))
        value, source = usable(folder, name.removesuffix(".bak"), self.overlay)
        data = None if value is None else self.overlay.read_file(os.path.join(folder, source), config_json.MAX_BYTES)
        if data is None or name.endswith(".bak"):
            self._out(inside, "it cannot be read, and there is no usable .bak" if data is None else "it cannot be read")
        else:
            self._put(inside, data, f"it cannot be read; {source} can")

    def _offsets(self, look: VerifyRun) -> None:
        """Plan to bring committed offsets beyond the end of their queue back to it."""

        def within(topic: str, queue_id: int, offset: int) -> int:
            end = look.end_of(topic, queue_id) or 0
            return min(max(offset, -1), end)

        for name in (config_reader.OFFSETS, config_reader.LMQ_OFFSETS, config_reader.DELAYS):
            value, _ = usable(self._at(directories.CONFIG), name, self.overlay)
            if value is not None and translate_offsets(name, value, within, self.emit):
                data = config_json.write(value, self.peer)
                self._put(f"{directories.CONFIG}/{name}", data, "it had offsets outside of their queue")

    def _timer(self, code: str) -> None:
        names = [name for name in self.overlay.listdir(self.root) if name.startswith(("timerwheel", "timerlog"))]
        for inside in (*names, f"{directories.CONFIG}/timercheck"):
            self._out(inside, f"{code}: RocketMQ recreates the timer's files from the timer topic")
