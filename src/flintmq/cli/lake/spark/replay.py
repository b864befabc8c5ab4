"""`flintmq spark replay`: messages from a store, Delta or Parquet into a store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from flintmq.cli.declare import Argument, flag, option
from flintmq.cli.lake.spark_job import spark_job
from flintmq.cli.options import (
    AccessOption,
    JsonOption,
    MasterOption,
    PeerOption,
    SetOption,
    SkipDamageOption,
    examples,
    out_option,
)
from flintmq.cli.output import output
from flintmq.cli.text import note_lines, printable, size
from flintmq.cli.values import store_config

if TYPE_CHECKING:
    from flintmq.spark.jobs.replay.job import Replayed

EPILOG = examples(
    "flintmq spark replay /var/rocketmq/store --out /tmp/replayed --where \"topic = 'Orders' and tags = 'TagA'\"",
    "flintmq spark replay /tmp/table --out /tmp/replayed --live --speed x10",
)


@dataclass(frozen=True)
class ReplayWords:
    source: Annotated[str, Argument("SOURCE", "A store, a Delta table, or a directory of exports to Parquet.")]
    into: Annotated[str, out_option("The store, new or existing.")]
    where: str | None = option("--where SQL", "Only messages for which this condition holds.", text=True)
    live: bool = flag("--live", "Put messages one by one into a new store too, with present store times.")
    speed: str = option("--speed SPEED", "original, xN (N times as fast) or max.", "max")
    dry_run: bool = flag("--dry-run", "Count the messages to put, and write nothing.")
    system_topics: bool = flag("--system-topics", "Include the broker's own topics, which it would process again.")
    skip_damage: SkipDamageOption = False
    skip_refused: bool = flag(
        "--skip-refused", "Leave out messages that the store would refuse, and report them with exit code 1."
    )
    with_offsets: bool = flag(
        "--with-offsets", "Of a store: carry the offsets of its groups over, to the same messages."
    )
    peer: PeerOption = "5.3.3"
    master: MasterOption = None
    access: AccessOption = "pread"
    settings: SetOption = None
    as_json: JsonOption = False


def command(words: ReplayWords) -> int:
    """Replay messages into a store.

    Into a missing or empty directory, many workers write a new store, which appears whole or not at all. Into an
    existing store that no process has open, messages are put after its own, in order, if it accepts all of them.
    Repeating the same replay adds only messages that are new in the source, also after it was killed. --set is for the
    target store.
    """
    from flintmq.spark.jobs.replay.job import replay
    from flintmq.storage.files.store_url import outside_store

    out, config = output(words.as_json), store_config(words.settings)
    into = outside_store(words.into, words.source)  # before Spark starts
    with spark_job("replay", words.master, out) as (spark, progress):
        done = replay(
            spark,
            words.source,
            into,
            config,
            where=words.where,
            live=words.live,
            speed=words.speed,
            dry_run=words.dry_run,
            system_topics=words.system_topics,
            fail_on_data_loss=not words.skip_damage,
            skip_refused=words.skip_refused,
            with_offsets=words.with_offsets,
            access=words.access,
            peer=words.peer,
            progress=progress,
        )
    out.result(done, lambda value: _render(value, into))
    return done.exit_code


def _render(done: Replayed, into: str) -> Iterable[Any]:
    what = "would replay" if done.dry_run else "replayed"
    more = ""
    if done.queues:
        more = f" in {done.queues} queues of {done.topics} topics, {size(done.bytes)}"
        more += f", {done.files} log files" if done.files else ""
    yield f"{what} {done.rows} messages{more}" if done.rows else f"{what} nothing: there are no new messages"
    if done.found:
        yield f"found    {done.found} messages that an earlier run had put"
    for why, count in done.left_out.items():
        yield f"left out {count} {why.replace('_', ' ')}"
    if done.offsets:
        yield f"offsets  {done.offsets} committed offsets were carried over"
    for text in done.offsets_left:
        yield f"left     {printable(text)}"
    if done.damages:
        yield f"skipped  {done.damages} damaged places, {done.lost_bytes} bytes"
    yield from note_lines(done.notes, done.note_texts)
    if not done.dry_run and (done.rows or done.total):
        yield f"result   {printable(into)}"
