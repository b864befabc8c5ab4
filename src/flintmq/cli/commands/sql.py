"""`flintmq sql`: queries about the messages, in SQL."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from flintmq.cli import signals
from flintmq.cli.body_option import BodyWords
from flintmq.cli.declare import Argument, option
from flintmq.cli.options import (
    AccessOption,
    DecompressOption,
    JsonOption,
    SetOption,
    SinceOption,
    SkipDamageOption,
    StoresArgument,
    UntilOption,
    catalog_option,
    examples,
    out_option,
    topics_option,
)
from flintmq.cli.output import Output, output, report_damage
from flintmq.cli.values import parse_size, paths_of, store_config, stores_given, time_range
from flintmq.config.text import check_choice
from flintmq.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from flintmq.frames.dataset import StoreDataset
    from flintmq.store.commitlog.report import Report

EPILOG = examples(
    'flintmq sql /var/rocketmq/store "select topic, count(*) from messages group by 1"',
    'flintmq sql /var/rocketmq/store "select keys, decode(body) as body from messages" --topic Orders --out o.csv',
)
SUFFIXES = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet", ".txt": "table"}


@dataclass(frozen=True)
class SqlWords(BodyWords):
    stores: StoresArgument
    question: Annotated[str, Argument("QUERY", "SQL about messages, queues and offsets.", text=True)]
    topic: Annotated[list[str] | None, topics_option("Only messages of this topic. May be repeated.")] = None
    since: SinceOption = None
    until: UntilOption = None
    kind: str | None = option("--format FORM", "table, csv, json or parquet; else by the suffix of FILE, else table.")
    target: Annotated[str | None, out_option("A new file for the whole answer.", "FILE", old=("--output",))] = None
    history: str | None = option(
        "--history TABLE", "The --out of an export of these stores: its rows, and those of the log that it has not yet."
    )
    catalog: Annotated[str | None, catalog_option("Of an Iceberg TABLE")] = None
    memory: str = option("--memory SIZE", "Memory that DuckDB may use before it uses temporary files.", "192MiB")
    decompress: DecompressOption = False
    skip_damage: SkipDamageOption = False
    access: AccessOption = "pread"
    settings: SetOption = None
    as_json: JsonOption = False


def command(words: SqlWords) -> int:
    """Query messages in SQL (DuckDB).

    The views are messages (the columns of scan --json; body is a blob, decode(body) its text, properties a map), queues
    (topic, queue_id, min_offset, max_offset, type) and offsets (consumer_group, topic, queue_id, next_offset). Only the
    columns in the query are read, and its filters on topic, queue_id, tags and store_timestamp are tested before
    anything is decoded. Rows are printed as they are found, in any number. Of several stores each view has two more
    columns, broker and store; a filter on them leaves stores unread. With --history the view messages has the columns
    of the table, and all that it holds, also what the stores no longer have. With --body the column body is decoded,
    and body_raw and body_error have the bytes and the reason of one that does not decode; if the query reads neither,
    stderr counts these, and the exit code is 1. Of several statements only the last one
    may answer, and none writes into a store. CSV is for spreadsheets: texts are escaped, none is a formula, and null is
    empty; json and parquet have each value as it was.
    """
    form, limit = _form(words.kind, words.target, words.as_json), parse_size("--memory", words.memory)
    stores, config = stores_given(words.stores), store_config(words.settings)
    if words.target is not None:
        from flintmq.storage.files.store_url import check_out

        for path in paths_of(stores, config):
            check_out(words.target, path, config)
    if words.catalog is not None and words.history is None:
        raise UsageError("--catalog is for --history, the directory of an Iceberg table")
    first, end = time_range(words.since, words.until)
    from flintmq.frames.dataset import dataset
    from flintmq.frames.sql import ask
    from flintmq.store.commitlog.report import LOST, UNDECODED, Report

    out, report = output(form == "json"), Report()
    with out.progress("reading") as progress:

        def offered(topics: list[str] | None) -> StoreDataset:
            return dataset(
                stores,
                topics or None,
                since=first,
                until=end,
                decompress=words.decompress,
                access=words.access,
                config=config,
                strict=not words.skip_damage,
                report=report,
                progress=progress,
                history=words.history,
                catalog=words.catalog,
                **words.keywords(),
            )

        # First, by a check as that of scan: a dataset refuses unknown topics as a mistake in an argument.
        if words.topic and not (words.history is not None and _has_all(offered(None), words.topic)):
            from flintmq.forensics.topic_tail import one_must_have

            one_must_have(paths_of(stores, config), words.topic, config)
        messages = offered(words.topic)
        shown = _tell(out, report, frozenset())
        with ask(messages, words.question, limit) as answer:
            if words.target is None:
                from flintmq.cli.sql_output import lines

                out.lines(lines(form, answer))
            else:
                _write(form, words.target, answer)
    _tell(out, report, shown)
    if undecoded := report.note_counts[UNDECODED]:
        out.note(
            f"{undecoded} of the bodies read could not be decoded as {words.body}, and are null; ask for body_error too"
        )
    return report_damage(out, report) or (1 if report.note_counts[LOST] or undecoded else 0)


def _tell(out: Output, report: Report, shown: frozenset[str]) -> frozenset[str]:
    """Print the notes on stores that were left out, and on messages that are lost.

    Texts in `shown` are not repeated. A read with history looks for its stores anew, and knows what it lacks only when
    the logs are planned.
    """
    from flintmq.cluster.members import NO_STORE, SAME_STORE
    from flintmq.store.commitlog.report import LOST, NOT_IN_STORES, OF_STREAM

    codes = (NO_STORE, SAME_STORE, NOT_IN_STORES, OF_STREAM, LOST)
    texts = dict.fromkeys(note.text for note in report.notes if note.code in codes)
    for text in texts:
        if text not in shown:
            out.note(text)
    return shown | texts.keys()


def _has_all(messages: Any, topics: list[str]) -> bool:
    import pyarrow.dataset as ds

    return all(messages.head(1, filter=ds.field("topic") == topic, columns=["topic"]).num_rows for topic in topics)


def _form(kind: str | None, target: str | None, as_json: bool) -> str:
    from flintmq.cli.sql_output import FORMATS

    if as_json and kind not in (None, "json"):
        raise UsageError(f"--json and --format {kind} exclude each other; leave one out")
    if kind is not None:
        check_choice("--format", kind, FORMATS)
    form = "json" if as_json else kind
    if form is None and target is not None:
        form = SUFFIXES.get(os.path.splitext(target)[1].lower())
        if form is None:
            raise UsageError(f"--out {target}: its suffix names no format; give --format, one of: {', '.join(FORMATS)}")
    if form == "parquet" and target is None:
        raise UsageError("--format parquet needs a file; give --out FILE")
    return form or "table"


def _write(form: str, target: str, answer: pa.RecordBatchReader) -> None:
    """Write to a temporary file, then rename it: all of the answer or no file."""
    from flintmq.cli.sql_output import lines, write_lines, write_parquet
    from flintmq.storage.files.full_disk import naming
    from flintmq.storage.files.whole_file import new_file

    with naming(target), new_file(target) as part:
        if form == "parquet":
            write_parquet(part, answer)
        else:
            write_lines(part, lines(form, answer))
        signals.check()
