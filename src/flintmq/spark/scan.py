"""What source and export have in common: plan a read of a store, and scan one range of it into record batches."""

from __future__ import annotations

from dataclasses import dataclass

from flintmq.spark.options import ReadOptions
from flintmq.store import geometry
from flintmq.store.log import find_end
from flintmq.store.log_files import LogFiles
from flintmq.store.recovery import read_facts
from flintmq.store.report import Report
from flintmq.store.snapshot import list_log


@dataclass(frozen=True)
class Plan:
    """A read, fixed: what was asked for, of which files, between which log offsets. Goes to every task."""

    options: ReadOptions
    log: LogFiles
    begin: int
    end: int


def plan_scan(options: ReadOptions, report: Report) -> Plan:
    """Find the log and its end.

    Args:
        options: what is asked for.
        report: takes notes on how the log ends.

    Raises:
        NotAStoreError, UnsupportedFormatError: there is no store that can be read.
        StoreAccessError: a file may not be read.
    """
    root = geometry.open_root(options.path, options.config)
    log = list_log(root, options.config)
    end = find_end(log, read_facts(root), report).offset
    return Plan(options, log, min(log.min_offset, end), end)
