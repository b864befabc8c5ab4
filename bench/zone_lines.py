"""Z1: scans for the newest messages and for one key in 10 GiB, with zone maps and without."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path
from unittest.mock import patch

from data import OVERHEAD, SIZES, warm
from harness import Context, Result, measure, timed

from flintmq import open_store
from flintmq.cli.body_option import Bodies
from flintmq.cli.commands.scan import MessageScan, Selection
from flintmq.config.keys import StoreConfig
from flintmq.store.commitlog.predicate import Predicate
from flintmq.testing import write_store

LARGE = 10  # times `mib`


def scan(path: Path, cache: Path, maps: str, since: int | None, key: str | None) -> int:
    """Scan as `flintmq scan --since --key` does, with a cache of this line's or no maps; return how many it found."""
    keys = frozenset([key] if key else [])
    selection = Selection(Predicate(since=since, any_key=keys or None), keys)
    with patch.dict(os.environ, {"XDG_CACHE_HOME": str(cache), "FLINTMQ_ZONE_MAPS": maps}):
        return sum(1 for _ in MessageScan(str(path), selection, StoreConfig(), Bodies(False)))


def z1(context: Context) -> dict[str, Result]:
    """The newest thousandth of a log, and a key in its middle."""
    path, cache = context.scratch / "zones", context.scratch / "cache"
    context.say(f"  making zones: {LARGE * context.mib} MiB of log with 1KB bodies")
    count = (LARGE * context.mib << 20) // (SIZES["1KB"] + OVERHEAD)
    warm(write_store(path, count, body_bytes=SIZES["1KB"], bodies="random"))
    with open_store(path) as view:
        queue = view.queues()[0]
        [middle] = view.read(queue.topic, queue.queue_id, queue.max_offset // 2, 1)
        [late] = view.read(queue.topic, queue.queue_id, queue.max_offset * 999 // 1000, 1)
    assert middle.keys
    asked: dict[str, tuple[int | None, str | None]] = {
        "since": (late.store_timestamp, None), "key": (None, middle.keys.split(" ")[0]),
    }  # fmt: skip
    scan(path, cache, "on", None, "none")
    results = {}
    for name, (since, key) in asked.items():
        cases = {maps: partial(scan, path, cache, maps, since, key) for maps in ("on", "off")}
        assert cases["on"]() == cases["off"]() > 0
        found = measure(context, {f"maps {maps}": timed(case) for maps, case in cases.items()}, warm=True)
        results[f"Z1.{name}"] = found.result(found["maps off wall"] / found["maps on wall"])
    shutil.rmtree(path)
    return results


FAMILIES = {"Z1": z1}
