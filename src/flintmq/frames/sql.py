"""Answers a SQL query over a store by DuckDB: rows as a stream, bounded memory.

Needs the extra `duckdb`. DuckDB's own memory has a limit and spills to a temporary directory; the batches of the scan,
Python and the libraries take about 150 MiB more.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from flintmq.arrow.members import member_text
from flintmq.arrow.schema import member_columns, narrow
from flintmq.config.text import check_integer
from flintmq.errors import CorruptStoreError, MissingExtraError, UsageError
from flintmq.frames.dataset import StoreDataset
from flintmq.frames.statements import DENIED, FREE, LOCKED, close, refuse_lost_answers
from flintmq.store.commitlog.report import LOST
from flintmq.store.layout.config_reader import absent_text, offsets_outside
from flintmq.store.view import StoreView, open_store

log = logging.getLogger("flintmq.store")

MEMORY_BYTES = 192 << 20
THREADS = 2  # more threads use more memory, and the scan feeds them one batch at a time
ANSWER_BYTES = 4 << 20  # approximate size of a batch of results
MOST_ROWS = 4096
MOST_NOTES = 20
SAMPLE = 1000  # approximate number of records from which the size of records is estimated

_QUEUES: list[tuple[str, pa.DataType]] = [
    ("topic", pa.string()),
    ("queue_id", pa.int32()),
    ("min_offset", pa.int64()),
    ("max_offset", pa.int64()),
    ("type", pa.string()),
]
_OFFSETS: list[tuple[str, pa.DataType]] = [
    ("consumer_group", pa.string()),
    ("topic", pa.string()),
    ("queue_id", pa.int32()),
    ("next_offset", pa.int64()),
]

QUEUES, OFFSETS = pa.schema(_QUEUES), pa.schema(_OFFSETS)


@contextmanager
def ask(messages: StoreDataset, question: str, memory: int = MEMORY_BYTES) -> Iterator[pa.RecordBatchReader]:
    """Run a query on the views `messages`, `queues` and `offsets`; read the result in the block.

    Args:
        messages: the store, or several.
        question: SQL, one statement or several, of which only the last may answer.
        memory: bytes that DuckDB may use before it spills to a temporary directory, which is removed at the end.

    Raises:
        UsageError: (also while reading) DuckDB rejects the query; the text is its reason in one line. Or an earlier
            statement answers too.
        MissingExtraError: DuckDB is not installed.
        FlintError: the store cannot be read.
        OSError: the block raised it, which cannot write the answer.

    Security: the query is the caller's own, and may read and write the files that it names in quotes outside the
    stores, no others (`frames/statements.py`). Nothing is downloaded.
    """
    if not isinstance(question, str):
        raise UsageError(f"the question is {question!r:.60}, of type {type(question).__name__}; give SQL as text")
    memory = check_integer("memory", memory, "give bytes")
    if not question.strip(" \t\r\n;"):
        raise UsageError("the question is empty; ask for instance: select topic, count(*) from messages group by 1")
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtraError("SQL needs DuckDB: pip install 'flintmq[duckdb]'") from error
    failures = (duckdb.Error, pa.ArrowException, OSError)
    with tempfile.TemporaryDirectory(prefix="flintmq-sql-") as folder:
        connection = connect(folder, memory)
        given = False
        try:
            statements = connection.extract_statements(question)
            refuse_lost_answers(statements)
            messages = messages.with_years()
            connection.register("messages", messages)
            for name, table in _tables(messages, question):
                connection.register(name, table)
            stores = [place for place, _ in messages.places()]
            question = close(connection, statements, question, stores, messages.config)
            messages = _faster(connection, messages, question)
            connection.register("messages", messages)
            answer: Any = connection.sql(question)
            if answer is None:  # no statement, or one without rows
                given = True
                yield pa.RecordBatchReader.from_batches(pa.schema([]), iter(()))
                return
            stream = getattr(answer, "to_arrow_reader", None) or answer.fetch_record_batch
            rows = stream(_batch_rows(messages))
            given = True
            yield pa.RecordBatchReader.from_batches(rows.schema, _answers(rows, messages, failures))
            del rows, answer, stream
        except failures as error:
            if given and isinstance(error, OSError):  # of the block, which cannot write; reading has its own
                raise
            raise _plain(error, messages) from None
        finally:
            connection.close()


def connect(folder: str, memory: int = MEMORY_BYTES) -> Any:
    """Open a database in memory, which spills to the folder."""
    import duckdb

    settings: dict[str, Any] = {
        "memory_limit": f"{memory >> 10}KiB",
        "temp_directory": folder,
        "threads": min(THREADS, os.cpu_count() or 1),
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_persistent_secrets": "false",
        "python_enable_replacements": "false",  # no variable of ours is a table
    }
    connection = duckdb.connect(":memory:", config=settings)
    connection.execute("set timezone = 'UTC'")
    return connection


def _faster(connection: Any, messages: StoreDataset, question: str) -> StoreDataset:
    """Return the dataset with views, for all rows of mapped files, if DuckDB takes them.

    DuckDB pushes no filter into a dataset with views, and a scan that drops rows early is faster than any views. By
    pread views need memory for the whole log, and copies for the columns alone, so views are no faster there.
    """
    all_bytes = messages.history is None and messages.bodies is None and messages.predicate.everything
    if not all_bytes or messages.options.access != "map":
        return messages
    try:
        (statement,) = connection.extract_statements(question)
        explain = f"explain (format json) {statement.query}"
        if statement.type.name != "SELECT" or '"Filters"' in str(connection.execute(explain).fetchall()):
            return messages
        views = messages.with_views()
        connection.register("messages", views)
        connection.execute(explain).fetchall()
        return views
    except Exception:  # DuckDB reports what is wrong with the question when it is asked
        return messages


def _answers(rows: Any, messages: StoreDataset, failures: Any) -> Iterator[pa.RecordBatch]:
    try:
        yield from rows
    except failures as error:
        raise _plain(error, messages) from None


def _plain(error: Exception, messages: StoreDataset) -> Exception:
    """Return the error to raise: that of the scan, or DuckDB's objection to the query."""
    if messages.failure is not None:
        return messages.failure
    if unknown := re.search(r"Table with name (.{1,80}?) does not exist", str(error)):
        return UsageError(f"SQL: there is no table {unknown[1]}; the views are messages, queues and offsets")
    if denied := DENIED.search(str(error)):
        return UsageError(
            f"SQL: {denied[1]} is inside a store, where no query touches files, or the query has it not in quotes; "
            "give another place, as one text"
        )
    if locked := LOCKED.search(str(error)):
        return UsageError(f"SQL: no query sets {locked[1]}; it may begin with: set {' | '.join(FREE)} = ...")
    text = " ".join(re.sub(r"\s*\n\s*LINE \d+:.*", "", str(error), flags=re.DOTALL).split())
    if "Out of Memory" in text:
        text = text.partition(" Possible solutions")[0]
        return UsageError(f"{text[:300]}; give more by --memory, or ask for fewer columns or rows")
    return UsageError(f"SQL: {text[:500]}")


def _batch_rows(messages: StoreDataset) -> int:
    """Return how many rows make about ANSWER_BYTES, estimated from the first records."""
    options = replace(messages.options, strict=False, threads=1, batch_bytes=4 * SAMPLE)
    reader = messages.with_options(options).read(narrow(["size"]), messages.predicate)
    first = next(reader, None)
    sizes: list[Any] = first.column(0).to_pylist() if first is not None else []
    mean = max(1, sum(sizes) // max(1, len(sizes)))
    return int(max(64, min(MOST_ROWS, ANSWER_BYTES // mean)))


def _tables(messages: StoreDataset, question: str) -> Iterator[tuple[str, pa.Table]]:
    """Make the views other than messages that the query may name, from the stores' own files."""
    named = {name for name in ("queues", "offsets") if re.search(rf"\b{name}\b", question, re.IGNORECASE)}
    if not named:
        return
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in sorted(named)}
    for path, words in messages.places():
        for column, value in words.items():
            member_text(column, value)
        with open_store(path, config=messages.config) as view:
            if "queues" in named:
                _find_lost_queues(view, messages)
                found["queues"] += [{**queue._asdict(), **words} for queue in view.queues()]
            if "offsets" in named:
                found["offsets"] += [{**row, **words} for row in _offsets(view)]
    members = [(name, pa.string()) for name in member_columns(messages.many)]
    for name, rows in found.items():
        yield name, pa.Table.from_pylist(rows, pa.schema([*(QUEUES if name == "queues" else OFFSETS), *members]))


def _find_lost_queues(view: StoreView, messages: StoreDataset) -> None:
    """Find the queues that lack directories, and check that the log has its end.

    Raises:
        CorruptStoreError: (strict) it does not.
    """
    any(map(view.read_log_of, view.configured_topics))  # of one topic: then of all
    try:
        view.check_end()
    except CorruptStoreError as error:
        if messages.options.strict:
            raise
        messages.report.note(LOST, f"the view queues may lack messages: {error}")


def _offsets(view: StoreView) -> Iterator[dict[str, Any]]:
    ends = {(queue.topic, queue.queue_id): queue.max_offset for queue in view.queues()}
    found, absent = offsets_outside(view.broker, lambda topic, queue_id: ends.get((topic, queue_id)))
    for text in [*(one.text for one in found[:MOST_NOTES]), *([absent_text(absent)] if absent else [])]:
        log.warning("%s: %s", view.root, text)
    for (topic, group), queues in sorted(view.broker.consumer_offsets.items()):
        for queue_id, offset in sorted(queues.items()):
            yield {"consumer_group": group, "topic": topic, "queue_id": queue_id, "next_offset": offset}
