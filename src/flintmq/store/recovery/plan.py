"""Decides the steps that recover a store, and their order, without any I/O.

A start can end after any step, by a kill or with the power, and the next start must not take the store for healthier
than it is. Three files describe the last stop: `abort` (was the stop unclean? by FlintMQ? does the page cache of then
still live?), `flintmq.mark` beside `checkpoint` (how far log, queues and index are on disk), and `flintmq.queues`
(where queues ended at a clean stop). So a file that promises something is lowered before that thing is undone, and
`abort` gets this boot's id only after the last step that asks about the previous stop.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from flintmq.store.commitlog.end_of_log import StopFacts


class Step(Enum):
    """One step of recovery; store/recovery/apply.py has a method for each."""

    WITHDRAW_DERIVED = "write the mark again, without queues and index"
    REREAD_DERIVED = "remove index files that were not synced, read queues from the disk"
    FORGET_KNOWN_ENDS = "remove the list of where queues ended"
    WRITE_MARK = "write the mark that a clean store lacks"
    MAKE_ABORT = "make `abort`: this process runs the store"
    TRUNCATE_LOG = "copy records after the log's end to quarantine/, remove later files, zero the rest"
    MARK_LOG_END = "write the mark: the log is on disk to its end"
    LEAVE_DERIVED = "leave queues and index out of the mark: another process makes them"
    RECOVER_DERIVED = "load index and queues, and write units and keys from the last durable point on again"


def plan(facts: StopFacts, *, known_ends: bool, external: bool) -> tuple[Step, ...]:
    """Return the steps to take, in order.

    Args:
        facts: of the last stop. It is unclean, and without a mark, if the log's end is lost and the user accepted that:
            nothing is known of it then.
        known_ends: the list of where queues ended is there, and holds.
        external: another process makes queues and index.

    Of the eight kinds of stop each takes the steps that have a cross, from left to right:

    | last stop       | mark | WITHDRAW | REREAD  | WRITE | MAKE  | TRUNCATE | MARK    | MAKE  |
    |                 |      | DERIVED  | DERIVED | MARK  | ABORT | LOG      | LOG END | ABORT |
    |-----------------|------|----------|---------|-------|-------|----------|---------|-------|
    | clean           | yes  |          |         |       | x     | x        |         |       |
    | clean           | no   |          |         | x     | x     | x        |         |       |
    | killed          | yes  |          |         |       |       | x        |         | x     |
    | killed          | no   |          |         |       |       | x        |         | x     |
    | power cut       | yes  |          | x       |       |       | x        |         | x     |
    | power cut       | no   |          | x       |       |       | x        |         | x     |
    | RocketMQ killed | yes  | x        | x       |       |       | x        | x       | x     |
    | RocketMQ killed | no   | x        | x       |       |       | x        |         | x     |

    FORGET_KNOWN_ENDS comes after the first two, unless a list of the queues' ends is there and holds. The last step is
    RECOVER_DERIVED, or LEAVE_DERIVED if another process makes queues and index.
    """
    return tuple(_steps(facts, known_ends, external))


def _steps(facts: StopFacts, known_ends: bool, external: bool) -> Iterator[Step]:
    clean, marked = facts.clean, facts.mark.flushed is not None
    others = not clean and not facts.abort_is_ours
    if others:
        # RocketMQ has worked on queues and index since the mark was written. Before `abort` is ours: the next start
        # would take the mark for one that nobody else has outlived.
        yield Step.WITHDRAW_DERIVED
    if not clean and not facts.page_cache_lasted:
        # Before `abort` names this boot: afterwards nobody knows that the power failed, and what was never synced
        # would be believed.
        yield Step.REREAD_DERIVED
    if not known_ends:
        # Before queues are written: a list of an older stop would call them lost.
        yield Step.FORGET_KNOWN_ENDS
    if clean and not marked:
        # Before `abort`: should damage be met in the cut, the next start is an unclean one and needs to know how far
        # the log was on disk.
        yield Step.WRITE_MARK
    if clean:
        # Before the first change of the log: a kill in the cut must be found as an unclean stop.
        yield Step.MAKE_ABORT
    # Before anything is derived from the log: what is cut must give no unit.
    yield Step.TRUNCATE_LOG
    if others and marked:
        # Before `abort` is ours: what others wrote was synced by the search for the end, and must not be judged as
        # records of ours above the mark are.
        yield Step.MARK_LOG_END
    if not clean:
        # After the cut: a kill in it must not hide from the next start that the power had failed. Before queues and
        # index are changed, which belongs to this run.
        yield Step.MAKE_ABORT
    # Last: it reads the log up to its end, and all that it changes can be made again from the log.
    yield Step.LEAVE_DERIVED if external else Step.RECOVER_DERIVED
