"""Z1 and Z2: scans of the newest messages and of one key, with zone maps and without; making maps beside a verify."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data import OVERHEAD, SIZES, log_bytes, warm
from harness import Context, Result, figures, measure

from flintmq import open_store
from flintmq.testing import Written, write_store

MIB = 10 << 10
BODY = "1KB"


def large(context: Context) -> Written:
    """A store of 10 GiB, less in a quick run."""
    if "zones" not in context.stores:
        mib = 1024 if context.quick else MIB
        context.say(f"  making zones: {mib} MiB of log with {BODY} bodies")
        count = (mib << 20) // (SIZES[BODY] + OVERHEAD)
        context.stores["zones"] = write_store(context.scratch / "zones", count, body_bytes=SIZES[BODY], bodies="random")
    written: Written = context.stores["zones"]
    warm(written)
    return written


@contextmanager
def cache(folder: Path, maps: bool) -> Iterator[None]:
    """Set the environment: a cache of these lines, or no maps."""
    before = dict(os.environ)
    os.environ |= {"XDG_CACHE_HOME": str(folder), "FLINTMQ_ZONE_MAPS": "on" if maps else "off"}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def scan(written: Written, folder: Path, maps: bool, since: int | None, key: str | None) -> int:
    """Scan as `flintmq scan --since --key` does; return the number of messages."""
    from flintmq.cli.body_option import Bodies
    from flintmq.cli.commands.scan import MessageScan, Selection
    from flintmq.config.keys import StoreConfig
    from flintmq.store.commitlog.predicate import Predicate

    keys = frozenset([key] if key else [])
    selection = Selection(Predicate(since=since, any_key=keys or None), keys)
    with cache(folder, maps):
        return sum(1 for _ in MessageScan(str(written.path), selection, StoreConfig(), Bodies(False)))


def z1(context: Context) -> list[Result]:
    """The newest thousandth of a log, and a key in its middle."""
    written, folder, found = large(context), context.scratch / "cache", []
    with open_store(written.path) as view:
        queue = view.queues()[0]
        [middle] = view.read(queue.topic, queue.queue_id, queue.max_offset // 2, 1)
        [late] = view.read(queue.topic, queue.queue_id, queue.max_offset * 999 // 1000, 1)
    assert middle.keys
    asked: dict[str, tuple[int | None, str | None]] = {
        "since": (late.store_timestamp, None), "key": (None, middle.keys.split(" ")[0]),
    }  # fmt: skip
    scan(written, folder, True, None, "none")
    for name, (since, key) in asked.items():
        cases = {
            word: lambda maps=maps, since=since, key=key: scan(written, folder, maps, since, key)
            for word, maps in (("maps", True), ("none", False))
        }
        assert cases["maps"]() == cases["none"]() > 0
        samples = measure(context, cases)
        ratio = samples["none"].wall / samples["maps"].wall
        what = f"scan --{name} of {log_bytes(written) >> 20} MiB: speed with zone maps / without"
        found.append(Result(f"Z1.{name}", what, ratio, 20, bound="8 MiB of zone", detail=figures(samples)))
    return found


def z2(context: Context) -> list[Result]:
    """A scan that makes the maps beside a verify."""
    from flintmq.forensics.verify.run import verify

    written, folder = large(context), context.scratch / "cache"
    samples = measure(
        context,
        {
            "scan that makes maps": lambda: scan(written, folder, True, None, "none"),
            "verify": lambda: verify(str(written.path)),
        },
        before=lambda: shutil.rmtree(folder, ignore_errors=True),
    )
    what = f"a scan that makes zone maps of {log_bytes(written) >> 20} MiB: time / verify"
    ratio = samples["scan that makes maps"].wall / samples["verify"].wall
    return [Result("Z2", what, ratio, 1.15, at_most=True, bound="checksums", detail=figures(samples))]


LINES = {"Z1": z1, "Z2": z2}
