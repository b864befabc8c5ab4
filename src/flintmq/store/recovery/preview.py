"""Reports the findings and steps of a start, without a lock and without a write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from flintmq.config.key_effects import refuse_to_write
from flintmq.config.keys import StoreConfig
from flintmq.format.start_fields import COSTS
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.files.store_url import local_only
from flintmq.store.commitlog.files import LogFiles, has_data
from flintmq.store.commitlog.records import record_at
from flintmq.store.commitlog.resync import next_record
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.start_records import wrong_records
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.layout import directories
from flintmq.store.layout.config_reader import BrokerConfig
from flintmq.store.layout.followed import is_followed
from flintmq.store.layout.given_sizes import open_root
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.layout.small_files import StoreFiles
from flintmq.store.read.queue_lookup import QueueLookup
from flintmq.store.recovery.decisions import Decisions
from flintmq.store.recovery.find_end import EndSearch, check_files, without_empty_last
from flintmq.store.recovery.lost_log import lost_directory
from flintmq.store.recovery.truncate import unused_files

READ_FILES = 3  # of the log, which RocketMQ reads at each start, and more of them after a kill
MOST_SHOWN = 20


def missed_messages(broker: BrokerConfig, bounds: Callable[[str, int], int | None]) -> Iterator[str]:
    """Yield a line for each queue of which a group has not consumed messages that have expired.

    `bounds`: the smallest queue offset of a queue (topic, queue id); None if there is no such queue.
    """
    least: dict[tuple[str, int], tuple[int, str]] = {}
    for (topic, group), queues in broker.consumer_offsets.items():
        for queue_id, offset in queues.items():
            least[topic, queue_id] = min(least.get((topic, queue_id), (offset, group)), (offset, group))
    for (topic, queue_id), (offset, group) in sorted(least.items()):
        begin = bounds(topic, queue_id)
        if begin is not None and offset < begin:
            yield (
                f"queue {topic}/{queue_id} begins at offset {begin}, and group {group} has consumed up to {offset}: "
                f"{begin - offset} messages are gone (expired, or the log's first files are missing)"
            )


def _start_records(files: LogFiles, end: int) -> Iterator[str]:
    """Yield a line for each record that RocketMQ cannot bear, in files that any start reads."""
    begin = files.files[-READ_FILES:][0].start if files.files else end
    walk = LogWalk(files, begin=begin, end=end, strict=False)
    found = ((piece, *each) for piece in walk for each in wrong_records(piece))
    for piece, row, wrong in islice(found, MOST_SHOWN):
        place = f"the record at log offset {piece.base + piece.positions[row]}: {wrong}"
        yield f"{place}; {COSTS[wrong.field.effect]}; FlintMQ keeps it, and `flintmq salvage --in-place` mends it"


def preview(root: str, config: StoreConfig, effects: Effects = REAL, *, accept_lost: bool = False) -> dict[str, object]:
    """Return the findings of `recover`: the log's end and what follows it.

    Writes nothing and takes no lock.
    """
    refuse_to_write(config)
    root = local_only(root)
    if not lost_directory(root, config, effects, accept=accept_lost):
        root = open_root(root, config, effects)
        directories.refuse_rocksdb_queues(root, effects)
    now = Snapshot(root, config, effects)
    facts, broker, files = now.facts, now.broker, without_empty_last(now.log)
    check_files(files, files.file_size)
    searched = Decisions(root)
    copy = is_followed(root, effects)
    search = EndSearch(root, files, facts, StoreFiles(root, effects).checkpoint, effects, searched, followed=copy)
    end, _, verdict = search.find(reread=False, accept_lost=accept_lost)
    later_records, offset = 0, next_record(files, end)
    while offset is not None:
        message = record_at(files, offset)
        later_records += 1
        offset = next_record(files, offset + (message.size if message is not None else 1))
    last = files.find(end)
    if later_records and copy:
        cut = f"{later_records} records after the log's end would be truncated; they come again from the master"
    elif later_records:
        cut = f"{later_records} records after the log's end would be copied to quarantine/ and truncated"
    elif last is not None and has_data(last, effects, end - last.start):
        cut = "the bytes after the log's end are not a whole record and would be zeroed"
    else:
        cut = "nothing would be truncated"
    decisions = [f"the last stop was {'clean' if facts.clean else 'unclean'}", cut]
    decisions += ["queues or index lag the log; a start completes them"] if facts.lagging else []
    decisions += searched.lines[:1] if search.lost else []
    decisions += _start_records(files, end)
    stay = unused_files(files, end, effects) if copy else []
    for file in files.files:
        if file.start > max(end, files.min_offset) and file not in stay:
            what = "bytes after the log's end" if has_data(file, effects) else "nothing yet (it was made ahead)"
            decisions.append(f"{file.path}, which holds {what}, would be removed")
    if files.min_offset > 0 and broker.consumer_offsets:
        lookup = QueueLookup(now)
        with_files = lookup.file_names()

        def begin_of(topic: str, queue_id: int) -> int | None:
            name = QueueName(topic, queue_id)
            return lookup.bounds(name).min if name in with_files else None

        decisions += missed_messages(broker, begin_of)
    return {"end": end, "verdict": verdict.value, "decisions": decisions}
