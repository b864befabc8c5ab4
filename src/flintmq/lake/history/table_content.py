"""Tells the content of a table of exports, and how much of the logs no export has read.

Three columns of the table are read, and the ends of the logs. What differs between the two only a comparison of all
messages tells (`diff_table.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.cluster.member import ONLY
from flintmq.cluster.members import Stores
from flintmq.config.keys import StoreConfig
from flintmq.lake.export.export import check_logs
from flintmq.lake.history.diff_table import plans_of
from flintmq.lake.read.members import logs_of
from flintmq.lake.read.scan import ScanPlan
from flintmq.lake.table.table_rows import TableVersion, milliseconds, open_table
from flintmq.lake.table.target import CHOICES, StoreProgress
from flintmq.store.commitlog.records import record_at
from flintmq.store.commitlog.report import LOST, Report

PLACE, TIME = "physical_offset", "store_timestamp"
OF_FILE: Any = [([], "count_all"), (PLACE, "min"), (TIME, "min"), (TIME, "max")]
OF_ALL: Any = [("count_all", "sum"), (f"{PLACE}_min", "min"), (f"{TIME}_min", "min"), (f"{TIME}_max", "max")]


@dataclass(frozen=True)
class BrokerContent:
    """The part of a table that is of one broker, and the end of its store's log.

    Attributes:
        broker: empty of an only store.
        begin: log offset of the first message; None: there is none.
        end: log offset from which on the next export reads.
        first_time, last_time: store times of the first and the last message, Unix time in ms.
        log_end: where the store's log ends; None, as what follows: the store is not at hand.
        log_time: store time of the last record of its log.
        unread: bytes of its log that no export has read yet, of whatever topic.
        lost: bytes of its log that were deleted before an export had read them.
    """

    broker: str
    messages: int
    begin: int | None
    end: int
    first_time: int | None
    last_time: int | None
    log_end: int | None
    log_time: int | None
    unread: int | None
    lost: int | None


@dataclass(frozen=True)
class TableContent:
    """The content of a table of exports.

    Attributes:
        table: its directory or URL.
        format: parquet, delta or iceberg.
        number: of its newest export.
        made: when that was published, Unix time in ms.
        messages, files: all of the table.
        options: keywords of its exports (CHOICES) -> value, where that is not the usual one.
        notes: sentences, such as on stores that are left out.
        lacks: messages that no export has, or the end of a log, are gone.
    """

    table: str
    format: str
    number: int
    made: int
    messages: int
    files: int
    options: dict[str, Any]
    brokers: list[BrokerContent]
    notes: list[str]
    lacks: bool


def table_content(
    table: str, stores: Stores | None = None, config: StoreConfig | None = None, *, catalog: str | None = None
) -> TableContent:
    """Return the content of a table of exports.

    Args:
        table: its directory, or its URL.
        stores: those that it is of; None: nothing is said of them.
        config: RocketMQ's keys, for settings that the files do not show.
        catalog: of an Iceberg table, NAME:NAMESPACE.TABLE; None: its own.

    Raises:
        UsageError, NotAStoreError, UnsupportedFormatError, StoreAccessError, OSError: as compare_table.
    """
    manifest, version = open_table(table, catalog, (config or StoreConfig()).s3, whole=False)
    choice, report = CHOICES | manifest.choice, Report()
    plans = [] if stores is None else plans_of(table, manifest, stores, config, report)
    check_logs(table, manifest, logs_of(plans), report)
    there, rows = {member.broker: plan for member, plan in plans}, _rows_of(version, choice["many"])
    brokers = [
        _content(broker, manifest.stores.get(broker), rows.get(broker, NO_ROW), there.get(broker))
        for broker in sorted({*manifest.stores, *rows, *there})
    ]
    options = {name: choice[name] for name, usual in CHOICES.items() if choice[name] != usual}
    return TableContent(
        table, version.to, manifest.number, 1000 * manifest.made, sum(one.messages for one in brokers),
        len(version.files), options, brokers, [note.text for note in report.notes],
        bool(report.note_counts[LOST] or any(one.lost for one in brokers)),
    )  # fmt: skip


NO_ROW = (0, None, None, None)


@lru_cache(maxsize=4)
def _rows_of(version: TableVersion, many: bool) -> dict[str, tuple[Any, ...]]:
    """Return of each broker the number of rows, first log offset, first and last time in ms.

    A version does not change: what was read of it counts until there is a new one.
    """
    by = ["broker"] if many else []
    wanted = pa.schema([*(pa.field(name, pa.string()) for name in by), *map(SPARK_SCHEMA.field, (PLACE, TIME))])
    parts = [pa.Table.from_batches(version.batches([file], wanted), wanted) for file in version.files]
    sums = [part.group_by(by).aggregate(OF_FILE) for part in parts or [wanted.empty_table()]]
    whole = pa.concat_tables(sums).group_by(by).aggregate(OF_ALL)
    for end in ("min", "max"):
        whole = whole.append_column(end, milliseconds(whole[f"{TIME}_{end}_{end}"]))
    rows = whole.select(["count_all_sum", f"{PLACE}_min_min", "min", "max"]).to_pylist()
    brokers: Any = whole["broker"].to_pylist() if many else [ONLY]
    return dict(zip(brokers, (tuple(row.values()) for row in rows), strict=True))


def _content(broker: str, progress: StoreProgress | None, row: tuple[Any, ...], plan: ScanPlan | None) -> BrokerContent:
    messages, first, *times = row
    end = 0 if progress is None else progress.next
    log: Sequence[int | None] = (None,) * 4
    if plan is not None:
        begin, last = plan.log.min_offset, None if plan.last is None else record_at(plan.log, plan.last)
        lost = 0 if progress is None else max(begin - progress.end, 0)
        time = None if last is None else last.store_timestamp
        log = plan.log_end, time, max(plan.log_end - max(end, begin), 0), lost
    return BrokerContent(broker, messages, first, end, *times, *log)
