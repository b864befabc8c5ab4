"""Declares the words of the two exports once, runs these, and prints their results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from flintmq.cli import signals
from flintmq.cli.body_option import BodyWords
from flintmq.cli.declare import flag, option
from flintmq.cli.options import (
    DecompressOption,
    SkipDamageOption,
    StoresArgument,
    TopicsOption,
    catalog_option,
    interval_option,
    out_option,
)
from flintmq.cli.output import Output, Progress
from flintmq.cli.text import note_lines, printable, size
from flintmq.cli.values import parse_partitions, parse_size, paths_of, stores_given
from flintmq.errors import UsageError
from flintmq.lake.export.choices import ExportChoices, refuse_inside

if TYPE_CHECKING:
    from flintmq.config.keys import StoreConfig
    from flintmq.lake.export.export import Exported
    from flintmq.lake.export.workers import Workers

BROKERS_SHOWN = 30


@dataclass(frozen=True)
class ExportWords(BodyWords):
    """Declares the arguments and options of `flintmq export` and `flintmq spark export`.

    What is named as in ExportChoices is a keyword of `flintmq.export`.
    """

    stores: StoresArgument
    into: Annotated[str, out_option("The table: a directory, made if missing, or a URL.", "TABLE", old=())]
    to: Literal["parquet", "delta", "iceberg"] = option("--to FORMAT", "parquet, delta or iceberg.", "parquet")
    topics: TopicsOption = None
    compression: Literal["snappy", "zstd", "lz4", "gzip", "none"] = option(
        "--compression CODEC", "snappy, zstd, lz4, gzip or none.", "snappy"
    )
    decompress: DecompressOption = False
    explode: bool = flag("--explode", "Each message of an inner batch as a row of its own.")
    skip_damage: SkipDamageOption = False
    follow: bool = flag(
        "--follow", "Continue with new messages until SIGINT or SIGTERM; see --once.", old=("--stream",)
    )
    once: bool = flag("--once", "With --follow: end at the present end of the log.")
    interval: Annotated[float | None, interval_option("With --follow: seconds between micro-batches (10).")] = None
    max_offsets: int | None = option("--max-offsets N", "Most messages of a micro-batch.", min=1)
    properties: list[str] | None = option(
        "--property NAME[:COLUMN]",
        "This property as a column of text, instead of the map of all. May be repeated.",
        text=True,
    )
    upsert_key: str | None = option(
        "--upsert-key COLUMNS", "The table has the last row of each key: columns of the bodies (delta, iceberg)."
    )
    delete_when: str | None = option(
        "--delete-when FORM", "With --upsert-key: bodies of debezium or canal, or COLUMN=VALUE of rows that delete."
    )
    dead_letters: str | None = option(
        "--dead-letters DIR", "Messages whose bodies do not decode go there too, with the reason."
    )
    target_file_size: str | None = option("--target-file-size SIZE", "Approximate size of files, such as 128MiB.")
    partition_by: str = option("--partition-by COLUMNS", "topic_name,date or one of them, or none.", "topic_name,date")
    checkpoint: str | None = option("--checkpoint DIR", "Keep a copy of the export's progress there.")
    catalog: Annotated[str | None, catalog_option("With --to iceberg")] = None

    def checked(self, config: StoreConfig) -> ExportWords:
        """Refuse wrong words before Spark starts; return the words with `into` as a path."""
        from flintmq.storage.files.store_url import store_path

        paths = paths_of(stores_given(self.stores), config)
        refuse_inside(paths, self.into, (self.checkpoint, self.dead_letters), config)
        into = store_path(self.into)
        if not self.follow and (self.once or self.interval is not None or self.max_offsets is not None):
            raise UsageError(
                "--once, --interval and --max-offsets are for --follow; an export without it ends at the end of the log"
            )
        self.choices()  # refuses a wrong size
        return replace(self, into=into)

    def choices(self) -> ExportChoices:
        size = self.target_file_size
        found = {name: value for name, value in vars(self).items() if name in ExportChoices.__annotations__}
        found |= {
            "fail_on_data_loss": not self.skip_damage,
            "partition_by": parse_partitions(self.partition_by),
            "upsert_key": None if self.upsert_key is None else self.upsert_key.split(","),
            "target_file_size": None if size is None else parse_size("--target-file-size", size),
        }
        return cast(ExportChoices, found)

    def run(self, config: StoreConfig, workers: Workers, out: Output, progress: Progress) -> Exported:
        root, choices = stores_given(self.stores), self.choices()
        if not self.follow:
            from flintmq.lake.export.export_once import export

            return export(root, self.into, config, workers=workers, progress=progress, **choices)
        from flintmq.lake.export.export_stream import INTERVAL_S, export_stream

        return export_stream(
            root,
            self.into,
            config,
            workers=workers,
            max_offsets=self.max_offsets,
            interval_s=INTERVAL_S if self.interval is None else self.interval,
            once=self.once,
            stop=signals.stop_event(),
            on_batch=lambda done: out.note(batch_line(done)),
            **choices,
        )


def offset_lines(done: Exported) -> Iterable[str]:
    """Yield the log offsets of an export, a line for each of several stores."""
    if not done.brokers:
        yield f"log      offsets {done.begin} to {done.end}"
    for broker, (begin, end) in list(done.brokers.items())[:BROKERS_SHOWN]:
        yield f"log      offsets {begin} to {end} of {printable(broker)}"
    if len(done.brokers) > BROKERS_SHOWN:
        yield f"         and of {len(done.brokers) - BROKERS_SHOWN} other brokers"


def batch_line(done: Exported) -> str:
    where = f"of {len(done.brokers)} brokers" if done.brokers else f"up to log offset {done.end}"
    return f"export={done.number}: {done.rows} rows {where}"


def render(done: Exported, into: str, upsert_key: str | None = None) -> Iterable[Any]:
    if not done.number:
        yield f"nothing new up to log offset {done.end}" if done.end else "nothing new"
    else:
        made = "" if done.rows else "; a table without rows, as there is nothing to export yet"
        what = "rows" if upsert_key is None else "messages"
        yield f"exported {done.rows} {what} in {done.files} files, {size(done.bytes)}{made}"
        yield from offset_lines(done)
    if done.damages:
        yield f"skipped {done.damages} damaged places, {done.lost_bytes} bytes"
    if done.bad_bodies:
        where = "in the column body_raw" if upsert_key is None else "among the dead letters"
        yield f"bodies   {done.bad_bodies} could not be converted; their bytes are {where}"
        for reason, count in sorted(done.bad_reasons.items()):
            yield f"         {count} {reason}"
    yield from note_lines(done.notes, done.note_texts)
    yield f"result   {printable(into)}"
