"""Keeps one of several stores of one broker: of a master and its slaves, the store whose log goes further.

A slave's log has the master's bytes at the master's offsets. So two stores of one name are compared where both have
records; if they differ, they are two brokers, and one name for both is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from flintmq.cluster.member import Member
from flintmq.config.keys import StoreConfig
from flintmq.config.text import short
from flintmq.errors import UsageError
from flintmq.store.commitlog.records import record_at
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.resync import first_record
from flintmq.store.commitlog.snapshot import Snapshot

ONE_LOG = "one-log"
"""Code of the note that a store was left out because another one of its broker goes further."""


def one_of_each(members: Sequence[Member], config: StoreConfig, report: Report) -> tuple[Member, ...]:
    """Return the members without those whose log another one of the same broker has, ordered by broker name.

    Only brokers with several stores are opened.
    """
    of: dict[str, list[Member]] = {}
    for member in members:
        of.setdefault(member.broker, []).append(member)
    return tuple(
        stores[0] if len(stores) == 1 else furthest([(one, Snapshot.open(one.path, config)) for one in stores], report)
        for _, stores in sorted(of.items())
    )


def furthest(found: Sequence[tuple[Member, Snapshot]], report: Report) -> Member:
    """Return the store whose log goes furthest, of stores of one broker name."""
    one, other = _two_clusters([member for member, _ in found])
    if one is not other:
        raise UsageError(
            f"clusters {short(one.cluster)} and {short(other.cluster)} both have a broker {short(one.broker)}; "
            "give one of them another name in the manifest"
        )
    # The master counts where both end at the same record, whatever their order in the list.
    best, ahead = max(found, key=lambda pair: (pair[1].end, -(pair[0].broker_id or 0)))
    for member, snapshot in found:
        if member is not best:
            _compare(member, snapshot, best, ahead)
            report.note(ONE_LOG, f"{member.path}: the log of {best.path}, which goes further or as far; read there")
    return best


def _two_clusters(members: list[Member]) -> tuple[Member, Member]:
    """Return two members of different clusters, or the first one twice."""
    other = next((member for member in members if member.cluster != members[0].cluster), members[0])
    return members[0], other


def _compare(member: Member, snapshot: Snapshot, best: Member, ahead: Snapshot) -> None:
    """Compare the first and the last record that both logs have."""
    begin = max(snapshot.log.min_offset, ahead.log.min_offset)
    places = [first_record(snapshot.log, begin), snapshot.log_end.last]
    for at in places:
        if at is None or not begin <= at < snapshot.end:
            continue
        here, there = record_at(snapshot.log, at), record_at(ahead.log, at)
        if here is None or there is None or here.fields != there.fields or here.body_crc != there.body_crc:
            raise UsageError(
                f"{member.path} and {best.path} are both called broker {short(best.broker)}, and their logs differ at "
                f"offset {at}; name them apart: by a pattern with {{broker}}, or in a manifest"
            )
