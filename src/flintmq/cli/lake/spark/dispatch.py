"""`flintmq spark dispatch`: keep queues and index of a log current with Spark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from flintmq.cli import signals
from flintmq.cli.declare import flag
from flintmq.cli.lake.spark_job import spark_job
from flintmq.cli.options import (
    AccessOption,
    JsonOption,
    MasterOption,
    PeerOption,
    SetOption,
    StoreArgument,
    examples,
    interval_option,
    out_option,
)
from flintmq.cli.output import output
from flintmq.cli.text import note_lines, printable, size
from flintmq.cli.values import store_config

if TYPE_CHECKING:
    from flintmq.spark.jobs.dispatch.job import Dispatched

EPILOG = examples(
    "flintmq spark dispatch /var/rocketmq/store --out /tmp/derived --once",
    "flintmq spark dispatch /var/rocketmq/store --out /tmp/derived --once --master 'local[2]' --json",
)


@dataclass(frozen=True)
class DispatchWords:
    store: StoreArgument
    into: Annotated[str, out_option("Directory of queues and index; may be STORE, see below.")]
    once: bool = flag("--once", "End at the present end of the log.")
    interval: Annotated[float, interval_option("Seconds until the next look at the log.")] = 1.0
    anew: bool = flag("--anew", "Remove the queues and the index in DIR and rebuild all of them.")
    peer: PeerOption = "5.3.3"
    master: MasterOption = None
    access: AccessOption = "pread"
    settings: SetOption = None
    as_json: JsonOption = False


def command(words: DispatchWords) -> int:
    """Keep queues and index current while the log is written.

    Writes consumequeue/, consumequeue_ext/, batchconsumequeue/ and index/ in DIR, with the bytes that rebuild writes.
    Runs until SIGINT or SIGTERM, which ends it after one more round; stopped or killed, the next run continues at the
    end of the last round. DIR may be STORE itself if the engine was opened with dispatch="external", or if no process
    writes it.
    """
    from flintmq.spark.jobs.dispatch.job import dispatch
    from flintmq.storage.files.store_url import outside_store

    out, config = output(words.as_json), store_config(words.settings)
    into = outside_store(words.into, words.store, config, root_itself=True)  # before Spark starts
    with spark_job("dispatch", words.master, out) as (spark, progress):
        done = dispatch(
            spark,
            words.store,
            into,
            config,
            words.peer,
            once=words.once,
            anew=words.anew,
            interval_s=words.interval,
            access=words.access,
            stop=signals.stop_event(),
            on_round=lambda sums: out.note(f"round {sums.rounds}: {sums.units} units, up to log offset {sums.end}"),
            progress=progress if words.once else None,
        )
    out.result(done, lambda value: _render(value, into))
    return 0


def _render(done: Dispatched, into: str) -> Iterable[Any]:
    if not done.rounds:
        yield f"nothing new up to log offset {done.end}"
    else:
        yield f"records  {done.records} in {size(done.log_bytes)} of log, offsets {done.begin} to {done.end}"
        yield f"queues   {done.queues}, {done.units} units added"
        yield f"index    {done.index_files} files, {done.keys} keys added"
    yield from note_lines(done.notes)
    yield f"result   {printable(into)}"
