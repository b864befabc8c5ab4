"""Brings a store into a writable state by taking the steps of `plan` in order.

At damage nothing is changed: the error names file and position. Recovering again, also after dying halfway, gives the
same result: the truncation copies before it zeroes, and units and items are written at positions that the log alone
determines.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from flintmq.config.keys import StoreConfig
from flintmq.store.append.commit_log import LogState
from flintmq.store.commitlog.end_of_log import StopFacts, Verdict
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.consumequeue import known_ends
from flintmq.store.consumequeue.live_queues import ConsumeQueues
from flintmq.store.consumequeue.load_queues import read_from_disk
from flintmq.store.dispatch.dispatcher import Dispatcher
from flintmq.store.index.index_service import KeyIndex, remove_unsynced
from flintmq.store.layout.config_reader import read_config
from flintmq.store.layout.followed import is_followed
from flintmq.store.layout.mark import UNKNOWN
from flintmq.store.layout.small_files import StoreFiles
from flintmq.store.recovery.decisions import Decisions
from flintmq.store.recovery.derived import DerivedLoader, begin_of_dispatch
from flintmq.store.recovery.find_end import EndSearch, check_files
from flintmq.store.recovery.plan import Step, plan
from flintmq.store.recovery.preview import missed_messages
from flintmq.store.recovery.truncate import truncate_log

TWICE = "records have a queue offset that an earlier one of their queue has, and no unit; `flintmq verify` names them"


@dataclass
class Recovered:
    state: LogState
    verdict: Verdict
    decisions: list[str] = field(default_factory=list)
    lost: bool = False  # the log's end was missing, and the user accepted that

    def as_dict(self) -> dict[str, object]:
        return {"end": self.state.end, "verdict": self.verdict.value, "decisions": self.decisions}


class Recovery:
    """Recovers one store, whose lock is held.

    Args:
        queues: not yet loaded; None: another process makes queues and index.
        index: not yet loaded; None: none is kept here.
        ends: where queues ended at the last stop, if that was clean; empty if that is not known.

    `followed`: the log is a copy of a master's, which sends again what is not whole.
    """

    def __init__(
        self,
        config: StoreConfig,
        *,
        files: LogFiles,
        facts: StopFacts,
        small: StoreFiles,
        queues: ConsumeQueues | None,
        index: KeyIndex | None,
        dispatcher: Dispatcher,
        ends: Mapping[tuple[bytes, int], int],
    ) -> None:
        self.root, self.effects = small.root, small.effects
        self.followed, self.cut = is_followed(small.root, small.effects), False
        self.config, self.files, self.facts = config, files, facts
        self.small, self.queues, self.index, self.dispatcher, self.ends = small, queues, index, dispatcher, ends
        self.decisions = Decisions(small.root)
        self.next_offsets: dict[tuple[bytes, int], int] = {}
        self.end = self.compared = 0  # log offsets: of the log's end, and from which checksums were compared

    def run(self, *, accept_lost: bool = False, cut_at: int | None = None) -> Recovered:
        """Find the log's end, and take the steps that `plan` decides.

        Args:
            accept_lost: a log whose last files are missing ends where its files end, and so do queues and index.
            cut_at: the log ends at this offset, that of a record, whatever is there; None: where its records end.

        Raises:
            LostLogError: log files are missing at the end, or all of them; nothing was touched then.
            CorruptStoreError: damage that is no tail; nothing was touched then.
            OSError: the disk refused.
        """
        if self.config.broker_role == "SLAVE":  # such a name after the log costs it nothing until it gets there
            self.files = replace(self.files, odd=tuple(x for x in self.files.odd if x.start < self.files.limit))
        check_files(self.files, self.config.mapped_file_size_commit_log)
        self.small.trust(self.facts.mark)
        search = EndSearch(
            self.root,
            self.files,
            self.facts,
            self.small.checkpoint,
            self.effects,
            self.decisions,
            followed=self.followed,
        )
        self.cut = cut_at is not None
        log_end = search.find(accept_lost=accept_lost) if cut_at is None else search.cut(cut_at)
        self.end, self.compared = log_end.offset, search.compared
        if search.lost or self.cut:
            self._distrust_all()
        if self.index is not None:
            self.index.make_folder()  # not before: an opening that is refused makes nothing
        for step in plan(self.facts, known_ends=bool(self.ends), external=self.queues is None):
            STEPS[step](self)
        return Recovered(
            LogState(self.end, log_end.last_time, self.next_offsets),
            log_end.verdict,
            self.decisions.lines,
            search.lost or self.cut,
        )

    def _distrust_all(self) -> None:
        """Distrust all small files, which belong to a log that is lost; keep them until the end."""
        self.facts = replace(self.facts, live=False, clean=False, mark=UNKNOWN)
        self.small.distrust_all()
        self.compared, self.ends = self.end, {}

    # -- the steps; the order, and why, is in plan.py -----------------------------------------------------------------

    def _withdraw_derived(self) -> None:
        self.small.write_mark()  # as it is believed: read_facts has left out queues and index

    def _reread_derived(self) -> None:
        on_disk = self.small.checkpoint.index_timestamp
        removed = remove_unsynced(self.root, self.config, self.effects, on_disk, self.facts.mark.indexed)
        self.decisions.add(f"{removed} index files that were not synced are rebuilt")
        if self.queues is not None:
            read_from_disk(self.root, self.effects)

    def _forget_known_ends(self) -> None:
        known_ends.forget(self.root, self.effects)

    def _write_mark(self) -> None:
        self.small.write(self.end, self.small.checkpoint)  # of the log alone

    def _make_abort(self) -> None:
        self.small.make_abort()  # as a whole, with the ids of this boot and mount

    def _truncate_log(self) -> None:
        # Records after the end are copied first, but not of a transfer, which the master sends again. Zeros are synced
        # before the first append, so that no truncated byte comes back between its records.
        again = self.followed and not self.cut
        truncate_log(self.root, self.files, self.end, self.effects, self.decisions, comes_again=again)

    def _leave_derived(self) -> None:
        # Before the store is open: the other process may be killed amid a unit, and no mark of ours must call it
        # durable.
        self.small.retreat(self.small.mark.with_units_below(-1))
        self.small.retreat(self.small.mark.without_index())
        self.next_offsets = offsets_of_log(self.root, self.files, self.dispatcher, self.end)

    def _recover_derived(self) -> None:
        queues, files, small = self.queues, self.files, self.small
        assert queues is not None, "the plan asks for queues that another process makes"
        begin = begin_of_dispatch(files, self.facts, small.checkpoint, bool(self.ends))
        loader = DerivedLoader(files, queues, self.index, self.dispatcher, small, self.decisions.add)
        records = loader.load(self.end, begin, clean=self.facts.whole, compared=self.compared, ends=self.ends)
        self.decisions.add(f"{records} records were dispatched again")
        if queues.report.note_counts["repeat"]:
            self.decisions.add(TWICE, logging.WARNING)
        self.next_offsets = queues.next_offsets()
        for place, known_end in self.ends.items():  # of a queue without files whose messages are all gone
            self.next_offsets.setdefault(place, known_end)
        if files.min_offset > 0:
            for text in missed_messages(read_config(self.root, self.effects), queues.begin_of):
                self.decisions.add(text, logging.WARNING)


STEPS = {
    Step.WITHDRAW_DERIVED: Recovery._withdraw_derived,
    Step.REREAD_DERIVED: Recovery._reread_derived,
    Step.FORGET_KNOWN_ENDS: Recovery._forget_known_ends,
    Step.WRITE_MARK: Recovery._write_mark,
    Step.MAKE_ABORT: Recovery._make_abort,
    Step.TRUNCATE_LOG: Recovery._truncate_log,
    Step.MARK_LOG_END: Recovery._write_mark,
    Step.LEAVE_DERIVED: Recovery._leave_derived,
    Step.RECOVER_DERIVED: Recovery._recover_derived,
}


def offsets_of_log(root: str, files: LogFiles, dispatcher: Dispatcher, end: int) -> dict[tuple[bytes, int], int]:
    """Return the next queue offset of every queue.

    It comes from the log, or from the queue's files if the log has no record of it any more.
    """
    next_offsets: dict[tuple[bytes, int], int] = {}
    for piece in LogWalk(files, begin=files.min_offset, end=end):
        for block in dispatcher.blocks(piece):
            for number, _, last in block.queues:
                key = dispatcher.queues.keys[number]
                next_offsets[key.topic, key.queue_id] = block.offsets[last - 1] + 1
            for number, unit in block.batch_units:
                key = dispatcher.queues.keys[number]
                next_offsets[key.topic, key.queue_id] = unit.base_offset + unit.messages
    return known_ends.on_disk(root, files.effects) | next_offsets
