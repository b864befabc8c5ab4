"""Declares the words of the two counts of statistics once, and prints their results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from flintmq.cli.declare import option
from flintmq.cli.options import SinceOption, SkipDamageOption, StoresArgument, TopicsOption, UntilOption, out_option
from flintmq.cli.output import Output
from flintmq.cli.text import iso, note_lines, printable, size
from flintmq.cli.values import paths_of, stores_given, time_range
from flintmq.cluster.member import ONLY, broker_text
from flintmq.store.commitlog.report import LOST

if TYPE_CHECKING:
    from flintmq.cluster.members import Stores
    from flintmq.config.keys import StoreConfig
    from flintmq.lake.stats.statistics import Statistics

SHOWN = 5


class StatsKeywords(TypedDict):
    """Declares the keywords of a count that both commands give."""

    root: Stores
    out: str | None
    config: StoreConfig
    topics: list[str] | None
    since: int | None
    until: int | None
    compare: str | None
    fail_on_data_loss: bool


@dataclass(frozen=True)
class StatsWords:
    stores: StoresArgument
    out: Annotated[str | None, out_option("The page: one HTML file; none without it.", "FILE", old=())] = None
    topic: TopicsOption = None
    since: SinceOption = None
    until: UntilOption = None
    compare: str | None = option("--compare FILE", "Show what changed since this --json of an earlier run.")
    skip_damage: SkipDamageOption = False

    def asked(self, config: StoreConfig) -> StatsKeywords:
        """Return the words as keywords.

        Wrong ones are refused, before a session starts and anything is counted.
        """
        from flintmq.lake.stats.compare import earlier
        from flintmq.lake.stats.run import check_target

        root = stores_given(self.stores)
        since, until = time_range(self.since, self.until)
        if self.out is not None:
            for path in paths_of(root, config):
                check_target(self.out, path, config)
        if self.compare is not None:
            earlier(self.compare)
        return {
            "root": root, "out": self.out, "config": config, "topics": self.topic or None, "since": since,
            "until": until, "compare": self.compare, "fail_on_data_loss": not self.skip_damage,
        }  # fmt: skip


def show(found: Statistics, out: Output, file: str | None) -> int:
    """Print statistics; return the exit code of the command."""
    out.result(found.as_dict() if out.json else found, lambda value: _render(value, file))
    return 1 if found.damages or found.notes.get(LOST) else 0


def _render(found: Statistics, out: str | None) -> Iterator[Any]:
    from flintmq.lake.stats.statistics import ms_text

    rate, latency = found.rate, found.latency
    yield f"store     {printable(found.store)}{', being written' if found.live else ''}"
    where = f"{found.queue_count} queues of {found.topic_count} topics"
    yield f"messages  {found.messages} ({size(found.bytes)}) in {where}"
    if found.first_time is not None and found.last_time is not None:
        yield f"stored    {iso(found.first_time)} to {iso(found.last_time)} ({ms_text(rate['span_ms'])})"
    if rate["messages_per_s"] is not None:
        peak = "" if rate["peak_time"] is None else f"; peak {rate['peak_messages_per_s']:.0f}/s"
        yield f"rate      {rate['messages_per_s']:.0f}/s, {size(round(rate['bytes_per_s']))}/s{peak}"
    if latency["count"]:
        yield f"latency   median {ms_text(latency['p50'])}, 99th percentile {ms_text(latency['p99'])} (born to stored)"
    for one in found.brokers[:SHOWN]:
        yield f"broker    {printable(one['broker'])}: {one['messages']} messages ({size(one['bytes'])})"
    for one in found.hot_queues[:SHOWN]:
        queue = f"{printable(one['topic'])}/{one['queue_id']}"
        queue += broker_text(" of {}", one.get("broker", ONLY), printable)
        yield f"queue     {queue}: {one['messages']} messages, {one['share']:.1%} of its topic"
    for lag in found.lags[:SHOWN]:
        yield f"lag       {printable(lag['group'])} on {printable(lag['topic'])}: {lag['behind']} messages"
    for line in found.verdict:
        yield f"look      {printable(line)}"
    if not found.verdict and LOST not in found.notes:
        yield f"look      {'nothing is noticeable' if found.messages else 'no message was stored in this range'}"
    yield from note_lines(found.notes, found.note_texts)
    if found.compared is not None:
        yield from _changes(found.compared)
    if out is not None:
        yield f"result    {printable(out)}"


def _changes(earlier: dict[str, Any]) -> Iterator[str]:
    yield f"compared  with {printable(earlier['path'])}, of {iso(int(earlier['made']))}"
    yield from (f"note      {printable(note)}" for note in earlier["notes"])
    rows = [(one["figure"], one) for one in earlier["figures"] if one["before"] != one["now"]]
    rows += [(f"messages of {one['topic']}", one) for one in earlier["topics"][:SHOWN]]
    rows += [(f"behind, {one['group']} on {one['topic']}", one) for one in earlier["groups"][:SHOWN]]
    for name, one in rows:
        before, now = ("none" if one[when] is None else f"{one[when]:,}" for when in ("before", "now"))
        yield f"changed   {printable(name)}: {before} -> {now}"
    for kind in ("topics", "groups"):
        if (more := earlier[f"{kind}_changed"] - SHOWN) > 0:
            yield f"changed   {more} more {kind}; the page and --json have them"
    if not rows:
        yield "changed   nothing"
