"""Identifies a streaming query by the id in its checkpoint, wherever the checkpoint is.

FlintMQ 0.1 identified a query by the text of its checkpointLocation. Its records are taken over by the query that has
this checkpoint now, if it is the same one: a checkpoint that was removed and created again is another query.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from flintmq.errors import UsageError
from flintmq.spark.jobs.replay.exactly_once import WriterIds
from flintmq.storage.files.store_url import local_only

PREFIX = "sink "  # of names in the ledger


def tag(query: str | None) -> str:
    """Return the prefix of the names of a query's staged files; empty for an unnamed write."""
    return "" if query is None else hashlib.sha256(query.encode("utf-8", "surrogatepass")).hexdigest()[:16] + "-"


def id_in(checkpoint: str) -> str | None:
    """Return the query's id from a local checkpoint directory; None if there is no readable id."""
    place = _metadata(checkpoint)
    try:
        with open(place, encoding="utf-8") as file:
            found = json.loads(file.read(4096)).get("id")
    except (OSError, ValueError, AttributeError):
        return None
    return found if isinstance(found, str) and found else None


def take_over(ledger: WriterIds, writer_id: str, checkpoint: str, batch: int) -> None:
    """Rename the record that 0.1 kept under a checkpoint's text, if it is of the same query.

    Spark continues with the batch after the last one or repeats the last one, and begins a new query with 0. So the
    numbers are ambiguous only if the last batch was 0; then a query that began before the record was written is the
    same.
    """
    if not checkpoint or ledger.get(writer_id) is not None:
        return
    for name, value in ledger.of(PREFIX).items():
        if "checkpoint" in value or value.get("batch") is None or _place(name[len(PREFIX) :]) != _place(checkpoint):
            continue
        last = value["batch"]
        if batch == last + 1 or batch == last > 0 or (batch == last == 0 and _began_before(checkpoint, ledger.path)):
            ledger.rename(name, writer_id, {**value, "checkpoint": checkpoint})
            return


def _began_before(checkpoint: str, path: str) -> bool:
    try:
        return os.stat(_metadata(checkpoint)).st_mtime_ns <= os.stat(path).st_mtime_ns
    except OSError:
        return False  # to put a batch again is better than to lose it


def _metadata(checkpoint: str) -> str:
    return os.path.join(_place(checkpoint), "metadata")


def _place(checkpoint: str) -> Any:
    try:
        return os.path.abspath(local_only(checkpoint))
    except UsageError:
        return checkpoint.rstrip("/")
