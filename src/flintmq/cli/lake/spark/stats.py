"""`flintmq spark stats`: a store's traffic as figures and as a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from flintmq.cli.lake.spark_job import spark_job
from flintmq.cli.options import (
    JsonOption,
    MasterOption,
    SetOption,
    SinceOption,
    SkipDamageOption,
    StoresArgument,
    TopicsOption,
    UntilOption,
    examples,
    out_option,
)
from flintmq.cli.output import output
from flintmq.cli.text import iso, note_lines, printable, size
from flintmq.cli.values import paths_of, store_config, stores_given, time_range
from flintmq.cluster.member import ONLY, broker_text
from flintmq.store.commitlog.report import LOST

if TYPE_CHECKING:
    from flintmq.spark.jobs.stats.statistics import Statistics

EPILOG = examples(
    "flintmq spark stats /var/rocketmq/store --out report.html",
    "flintmq spark stats /var/rocketmq/store --since -1d --topic Orders --json",
)
SHOWN = 5


@dataclass(frozen=True)
class StatsWords:
    stores: StoresArgument
    out: Annotated[str | None, out_option("The page: one HTML file; none without it.", "FILE", old=())] = None
    topic: TopicsOption = None
    since: SinceOption = None
    until: UntilOption = None
    skip_damage: SkipDamageOption = False
    master: MasterOption = None
    settings: SetOption = None
    as_json: JsonOption = False


def command(words: StatsWords) -> int:
    """Make a page of HTML: rates, sizes, latency, queues, lag.

    It shows keys and producers too. One pass over the log counts everything, at rest or while it is written. The page
    opens without a network.
    """
    from flintmq.spark.jobs.stats.job import check_target, stats

    printer, config, root = output(words.as_json), store_config(words.settings), stores_given(words.stores)
    first, end = time_range(words.since, words.until)
    if words.out is not None:
        for path in paths_of(root, config):
            check_target(words.out, path, config)  # before Spark is started
    with spark_job("stats", words.master, printer) as (spark, progress):
        found = stats(
            spark,
            root,
            words.out,
            config,
            topics=words.topic or None,
            since=first,
            until=end,
            fail_on_data_loss=not words.skip_damage,
            progress=progress,
        )
    printer.result(found.as_dict() if words.as_json else found, lambda value: _render(value, words.out))
    return 1 if found.damages or found.notes.get(LOST) else 0


def _render(found: Statistics, out: str | None) -> Iterator[Any]:
    from flintmq.spark.jobs.stats.statistics import ms_text

    rate, latency = found.rate, found.latency
    yield f"store     {printable(found.store)}{', being written' if found.live else ''}"
    where = f"{found.queue_count} queues of {found.topic_count} topics"
    yield f"messages  {found.messages} ({size(found.bytes)}) in {where}"
    if found.first_time is not None and found.last_time is not None:
        yield f"stored    {iso(found.first_time)} to {iso(found.last_time)} ({ms_text(rate['span_ms'])})"
    if rate["messages_per_s"] is not None:
        peak = f"peak {rate['peak_messages_per_s']:.0f}/s"
        yield f"rate      {rate['messages_per_s']:.0f}/s, {size(round(rate['bytes_per_s']))}/s; {peak}"
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
        yield "look      nothing is noticeable"
    if LOST in found.notes:
        yield from note_lines({LOST: found.notes[LOST]}, found.note_texts)
    if out is not None:
        yield f"result    {printable(out)}"
