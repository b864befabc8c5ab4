"""Who writes into a sink: a streaming query is known by the id in its checkpoint, wherever that lies.

FlintMQ 0.1 knew a query by the text of its checkpointLocation. What it noted is taken over by the query that has this
checkpoint now, if it is the same one: a checkpoint that was removed and made anew is another query.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from flintmq.errors import UsageError
from flintmq.spark.jobs.replay.exactly_once import WriterIds
from flintmq.storage.store_url import local_only

PREFIX = "sink "  # of names in the ledger


def tag(query: str | None) -> str:
    """What the names of a query's staged files begin with; empty for a write without a name."""
    return "" if query is None else hashlib.sha256(query.encode("utf-8", "surrogatepass")).hexdigest()[:16] + "-"


def id_in(checkpoint: str) -> str | None:
    """The query's id in a checkpoint directory of this machine; None if it has none that can be read."""
    place = _metadata(checkpoint)
    try:
        with open(place, encoding="utf-8") as file:
            found = json.loads(file.read(4096)).get("id")
    except (OSError, ValueError, AttributeError):
        return None
    return found if isinstance(found, str) and found else None


def take_over(ledger: WriterIds, giver: str, checkpoint: str, batch: int) -> None:
    """Give a query what 0.1 noted under the text of its checkpoint, if that was the same query.

    Spark goes on with the batch behind the last or with the last one once more, and begins a new query with 0. So only
    where the last one was 0 the numbers cannot tell; then a query that began before the note is the same.
    """
    if not checkpoint or ledger.get(giver) is not None:
        return
    for name, value in ledger.of(PREFIX).items():
        if "checkpoint" in value or value.get("batch") is None or _place(name[len(PREFIX) :]) != _place(checkpoint):
            continue
        last = value["batch"]
        if batch == last + 1 or batch == last > 0 or (batch == last == 0 and _began_before(checkpoint, ledger.path)):
            ledger.rename(name, giver, {**value, "checkpoint": checkpoint})
            return


def _began_before(checkpoint: str, path: str) -> bool:
    try:
        return os.stat(_metadata(checkpoint)).st_mtime_ns <= os.stat(path).st_mtime_ns
    except OSError:
        return False  # to put a batch again is better than to lose it


def _metadata(checkpoint: str) -> str:
    return os.path.join(_place(checkpoint), "metadata")


def _place(checkpoint: str) -> Any:
    """A checkpoint's place in one form."""
    try:
        return os.path.abspath(local_only(checkpoint))
    except UsageError:
        return checkpoint.rstrip("/")
