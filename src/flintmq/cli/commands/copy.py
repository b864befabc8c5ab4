"""`flintmq copy`: a consistent copy of a store, also of a live one, whole or filtered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from flintmq.cli.declare import flag
from flintmq.cli.options import (
    JsonOption,
    PeerOption,
    SetOption,
    SinceOption,
    StoreArgument,
    TopicsOption,
    UntilOption,
    examples,
    out_option,
)
from flintmq.cli.output import output
from flintmq.cli.text import note_lines, printable, size
from flintmq.cli.values import store_config, time_range
from flintmq.errors import UsageError

if TYPE_CHECKING:
    from flintmq.forensics.copy import Copied
    from flintmq.forensics.salvage.into import Salvaged

EPILOG = examples(
    "flintmq copy /var/rocketmq/store --out /tmp/copied",
    "flintmq copy /var/rocketmq/store --out /tmp/copied --topic Orders --since 2024-11-20 --json",
)


@dataclass(frozen=True)
class CopyWords:
    store: StoreArgument
    into: Annotated[str, out_option("The copy: a directory, missing or empty, or a URL such as s3://BUCKET/KEY.")]
    topic: TopicsOption = None
    since: SinceOption = None
    until: UntilOption = None
    skip_damage: bool = flag("--skip-damage", "With a filter: skip damage, and report it at the end with exit code 1.")
    peer: PeerOption = "5.3.3"
    settings: SetOption = None
    as_json: JsonOption = False


def command(words: CopyWords) -> int:
    """Copy a store, also while a broker writes it.

    Both RocketMQ and FlintMQ open the copy. A whole copy has the same bytes up to the end of the log at that moment.
    With --topic, --since or --until it is a new store of these messages alone: offsets begin at 0, committed offsets
    follow, and copy.jsonl in it maps old to new. The copy appears only when it is complete; a killed run leaves nothing
    at DIR, and the next run starts again. At a URL it leaves objects that no reader takes for a store; the next run
    says so.
    """
    out, config = output(words.as_json), store_config(words.settings)
    first, end = time_range(words.since, words.until)
    if not words.topic and first is None and end is None:
        if words.skip_damage:
            raise UsageError("--skip-damage belongs to --topic, --since, --until; a whole copy of a store at rest "
                             "keeps damage as it is, and `flintmq salvage` leaves it out")  # fmt: skip
        from flintmq.forensics.copy import copy_whole

        with out.progress("copy") as progress:
            done = copy_whole(words.store, words.into, config, words.peer, progress)
        out.result(done, _whole)
        return 1 if done.damages else 0
    from flintmq.forensics.copy import copy_some
    from flintmq.store.commitlog.predicate import Predicate

    predicate = Predicate(topics=frozenset(words.topic) if words.topic else None, since=first, until=end)
    with out.progress("copy") as progress:
        some = copy_some(words.store, words.into, predicate, config, words.peer, progress, not words.skip_damage)
    out.result(some, _some)
    if not some.records:
        out.note("no message matches, so the copy has none; flintmq inspect shows the topics and times")
    return 1 if some.lost_ranges or some.dropped or some.notes.get("config-lost") else 0


def _whole(done: Copied) -> Iterable[Any]:
    yield f"log      offsets {done.begin} to {done.end}, {size(done.end - done.begin)}"
    yield f"files    {done.files} with {size(done.data_bytes)} of data"
    if done.live:
        yield "state    a writer was at work or had died: queues and index were recovered, the copy is stopped cleanly"
    for text in done.damages:
        yield f"damage   {printable(text)}; the copy has it too: `flintmq verify` reports all, `flintmq salvage` mends"
    for name in done.left_out:
        yield f"left out {printable(name)}: a link, no file of a store, or vanished meanwhile"
    yield f"result   {printable(done.into)}"


def _some(done: Salvaged) -> Iterable[Any]:
    yield f"log      {done.records} records, {size(done.log_bytes)}"
    if done.lost_ranges or done.dropped:
        yield f"lost     {done.lost_ranges} damaged ranges, {size(done.lost_bytes)}; {done.dropped} records dropped"
    yield f"queues   {done.queues} with {done.units} units"
    yield f"index    {done.index_files} files with {done.keys} keys"
    yield f"offsets  {done.offsets} committed offsets were translated"
    yield from note_lines(done.notes)
    yield f"result   {printable(done.into)}; old and new offsets: {printable(done.report)}"
