"""Plans a read of stores: each by itself, with the offsets of its broker.

An only store is a list of one, whose broker has no name (ONLY).

A topic, a queue or a time that one store does not have may be in another one: it is missing if all stores lack it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from flintmq.cluster.member import ONLY, Member
from flintmq.cluster.members import find_members, only_named
from flintmq.config.text import short
from flintmq.errors import FlintError, UsageError
from flintmq.lake.read.asked import go_on
from flintmq.lake.read.broker_options import brokers_named
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.read.scan import ScanPlan, plan_scan
from flintmq.store.commitlog.anchor import KnownLog
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.pushdown import Comparison
from flintmq.store.commitlog.report import Report
from flintmq.store.read.known_topics import NOT_THERE

Item = TypeVar("Item")
Answer = TypeVar("Answer")

AT_ONCE = 4  # plans; one waits for its disk or server, and walks the last file of a log without the GIL


def logs_of(plans: Iterable[tuple[Member, ScanPlan]]) -> dict[str, KnownLog]:
    return {member.broker: plan.known for member, plan in plans}


def plan_members(
    options: ReadOptions,
    report: Report,
    narrow_to: Callable[[Predicate], Predicate] = lambda predicate: predicate,
    limits: Iterable[Comparison] = (),
) -> list[tuple[Member, ScanPlan]]:
    """Plan a read of stores, on threads, in the order of their brokers' names.

    Args:
        narrow_to: adds the filters that Spark pushes to the predicate; called on several threads at once.
        limits: comparisons that Spark applies as well; a store whose rows cannot pass them is not planned.
    """
    members = broker_members(options, report)
    wanted = only_named(members, limits)
    reports = [Report() for _ in wanted]
    lacking: list[dict[str, FlintError]] = [{} for _ in wanted]

    def plan(number: int) -> ScanPlan:
        others = lacking[number] if wanted[1:] else None  # what a store alone lacks is missing at once
        return plan_scan(options.of(wanted[number]), reports[number], narrow_to, others)

    plans = of_each(plan, range(len(wanted)))
    for one in reports:
        report.add(one)
    for error, text in lacked_by_all(lacking):
        if options.fail_on_data_loss:
            raise error
        report.note(NOT_THERE, text)
    return list(zip(wanted, plans, strict=True))


def of_each(function: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
    """Call function(item) for each item, on threads, and return the answers in their order.

    Raises:
        The error of the first item, in this order, that has one; items that were not begun then are not begun.
    """
    if len(items) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(AT_ONCE, len(items)), "flintmq-plan") as pool:
        return list(pool.map(function, items))


def lacked_by_all(lacking: Sequence[Mapping[str, FlintError]]) -> Iterator[tuple[FlintError, str]]:
    """Yield an error for each thing that none of some stores has, and its text without advice."""
    others = f" (nor have {len(lacking) - 1} other stores)" if lacking[1:] else ""
    for what in sorted(set.intersection(*map(set, lacking))) if lacking else ():
        error = lacking[0][what]
        yield type(error)(f"{error}{others}"), f"{error.without_advice}{others}"


def broker_members(options: ReadOptions, report: Report) -> tuple[Member, ...]:
    """Find the stores of a read; the brokers that options name must be there."""
    members = members_of(options, report)
    unknown = sorted(brokers_named(options.given) - {member.broker for member in members})
    if unknown:
        known = ", ".join(short(member.broker) for member in members[:5])
        text = f"{options.path}: no store of broker {short(unknown[0])}, which the offsets name; there are {known}"
        if options.fail_on_data_loss:
            raise UsageError(text, advice=go_on(options))
        report.note(NOT_THERE, text)
    return members


def members_of(options: ReadOptions, report: Report) -> tuple[Member, ...]:
    """Find the stores of a read; whether an only one is there shows when it is read."""
    if options.stores is None:
        return (Member(options.path, ONLY),)
    return find_members(options.stores, options.config, strict=options.fail_on_data_loss, report=report)
