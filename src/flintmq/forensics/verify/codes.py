"""The codes of verify: each defect with its cost, advice and command, and each note.

`docs.py` writes them into docs/operations/verify.md.
"""

from __future__ import annotations

import shlex
from typing import Final, NamedTuple

from flintmq.format.start_fields import COSTS, CUT, REFUSED, STUCK

NOTHING: Final = "nothing needs mending"
IN_PLACE: Final = "flintmq salvage STORE --in-place"
_RECOVER: Final = "flintmq recover STORE"
_INTO: Final = "flintmq salvage STORE --out DIR"
_REBUILT: Final = "flintmq rebuild STORE --out DIR"
_MOVE: Final = "mv FILE DIR"  # a directory outside of the store


class Code(NamedTuple):
    """A defect.

    Attributes:
        mend: the command against it, with STORE for the store and DIR for a new directory. Before it, stop the broker,
            and bring back files that a backup or a replica has.
    """

    meaning: str
    cost: str
    advice: str
    mend: str = IN_PLACE


_SALVAGE: Final = "`flintmq salvage`"
_REBUILD: Final = f"{_SALVAGE} --in-place, or `flintmq rebuild`"

DEFECTS: Final[dict[str, Code]] = {
    # -- commit log
    "record-damaged": Code(
        "A range of the log holds no intact record, although records follow or it was flushed.",
        "its messages are lost; a start of RocketMQ that checks this file truncates the log here and drops the rest",
        f"before any broker starts on it: {_SALVAGE} --out DIR saves the rest, --in-place lets a broker start",
    ),
    "log-unordered": Code(
        "After an unclean stop, a sector was never written although later ones were.",
        "the records after it were never acknowledged as flushed; recovery truncates the log here",
        "nothing, if the store stopped by a power cut; else treat it as `record-damaged`",
        _RECOVER,
    ),
    "log-gap": Code(
        "A file of the log is missing, or two overlap: each name must be the name before plus the file size.",
        "every message of the missing range is lost; RocketMQ starts and stops reading at the gap",
        f"bring the file back from a backup or a replica, move away one too many; else {_SALVAGE} saves the rest",
    ),
    "log-file-size": Code(
        "A log file has another size than the others.",
        "RocketMQ refuses to start; messages in a part cut off are lost",
        f"bring it back from a backup, else {_SALVAGE} saves the rest",
    ),
    "stray-file": Code(
        "A file beside log or queue files whose name is no offset, such as `00000000000000000000.bak`.",
        "RocketMQ 5.3.3 to 5.5.0 refuse to start (an empty one that is the last by name they delete)",
        "move it out of the store; FlintMQ does not look at it",
        _MOVE,
    ),
    "log-file-unreadable": Code(
        "A log file cannot be read: permissions, an I/O error, not a regular file.",
        "its messages cannot be checked",
        "correct permissions or repair the disk, then verify again",
        _INTO,
    ),
    "blank-size": Code(
        "An end-of-file record does not give the number of bytes left in the file.",
        "no effect on reading: both FlintMQ and RocketMQ continue with the next file",
        f"none is needed ({_SALVAGE} --in-place corrects it); look at the disk or copy that changed it",
        NOTHING,
    ),
    "start-cut": Code(
        "A property that RocketMQ's start parses is no number: DELAY of SCHEDULE_TOPIC_XXXX, INNER_NUM, INNER_BASE.",
        COSTS[CUT],
        f"before any broker starts on it: {_SALVAGE} (it renames the property; the message stays)",
    ),
    "start-refused": Code(
        "A queue offset in INNER_MULTI_QUEUE_OFFSET is no number, and light queues are on (enableMultiDispatch).",
        COSTS[REFUSED],
        f"{_SALVAGE} (it renames the property, so that the message is in no light queue)",
    ),
    "timer-stuck": Code(
        "A record of the timer's topic has no number in TIMER_OUT_MS, the time when it is due.",
        COSTS[STUCK],
        f"{_SALVAGE} covers it; or start the broker with `timerSkipUnknownError=true`",
    ),
    # -- consume queues
    "queue-missing": Code(
        "The log has messages for a queue of a configured topic, and the queue has no files.",
        "consumers of the queue get none of its messages",
        _REBUILD,
    ),
    "queue-kind": Code(
        "A queue is of another type than topics.json gives its topic: in consumequeue/ and BatchCQ, or the other way.",
        "RocketMQ does not start: the queue type should be one and is the other",
        f"{_SALVAGE} moves it aside if topics.json names the topic; else delete it, or give the topic its `queue.type`",
    ),
    "queue-gap": Code(
        "A file of a queue is missing, or has a name that does not fit the file size.",
        "messages of the missing range are not served",
        _REBUILD,
    ),
    "queue-file-size": Code(
        "A queue file has another size than the others.",
        "RocketMQ refuses to start",
        _REBUILD,
    ),
    "queue-file-unreadable": Code(
        "A queue file cannot be read: permissions, an I/O error, not a regular file.",
        "its units cannot be checked",
        "correct permissions or repair the disk, then verify again",
        _REBUILT,
    ),
    "unit-missing": Code(
        "A record of the log has no unit in its queue, and the next start would not dispatch it.",
        "consumers never get the message; reads by queue offset miss it",
        _REBUILD,
    ),
    "unit-extra": Code(
        "A unit before the queue's end points at no record of this queue in the log.",
        "a reader finds nothing, or another message, at this queue offset",
        _REBUILD + "; if a record was changed (its topic, queue id or offset), look at the log first",
    ),
    "unit-wrong": Code(
        "A unit and its record differ in position, size, tags code or time.",
        "the message is not served, or tag filters skip it",
        _REBUILD,
    ),
    "unit-displaced": Code(
        "Units are at another queue offset than their records carry (RocketMQ appends after a hole).",
        "queue offsets shift: committed offsets point at other messages, an offset is assigned twice",
        _REBUILD,
    ),
    "ext-wrong": Code(
        "A unit's address points to no unit of the extension queue, or to one of another record.",
        "filters by tags or properties skip the message",
        _REBUILD,
    ),
    # -- index
    "index-file": Code(
        "An index file has a size or name that does not fit, or cannot be read.",
        "queries by key miss everything that it covers",
        _REBUILD,
    ),
    "index-header": Code(
        "A number in an index file's header does not agree with its items.",
        "queries by key and time skip the file or a part of it",
        _REBUILD,
    ),
    "index-order": Code(
        "Index files overlap: one begins before the one before it ends.",
        "queries can answer twice or miss",
        _REBUILD,
    ),
    "index-missing": Code(
        "A key of a record has no item, although the index covers the record.",
        "a query by this key misses the message",
        _REBUILD,
    ),
    "index-extra": Code(
        "An item belongs to no key of any record at its place.",
        "a query reads it without result; the real key is compared, so no answer is wrong",
        _REBUILD,
    ),
    "index-wrong": Code(
        "An item's hash or time is not that of the record's key.",
        "a query by this key or time range misses the message",
        _REBUILD,
    ),
    "index-chain": Code(
        "An item's link to the item before it in its slot is wrong; links must strictly descend.",
        "queries miss every older key of the slot; RocketMQ can loop for ever",
        _REBUILD,
    ),
    "index-slot": Code(
        "A hash slot does not point to its newest item.",
        "queries miss every key of the slot",
        _REBUILD,
    ),
    # -- small files
    "checkpoint-bad": Code(
        "The checkpoint is too short or holds a negative number.",
        "RocketMQ fails to start or replays more of the log than it needs",
        f"{_SALVAGE} --in-place, or delete the file: RocketMQ then replays the log from its start",
    ),
    "checkpoint-ahead": Code(
        "The checkpoint names records that the log does not have: flushed, dispatched or confirmed beyond its end.",
        "the end of the log is missing: messages that were flushed are lost",
        "look for a log file that was lost in a copy; bring it back before a broker starts (none is missing if "
        "the clock ran ahead and the records of that time have expired)",
    ),
    "mark-bad": Code(
        "FlintMQ's own mark of how far the log was flushed has a wrong checksum or shape.",
        "nothing is lost: the checkpoint's times are used instead, which are less exact about the flushed part",
        "delete the file",
        _RECOVER,
    ),
    "deleted-bad": Code(
        "FlintMQ's own note of deleted topics cannot be understood.",
        "FlintMQ writes the store no more; what readers show may include messages of deleted topics",
        "bring it back from a backup, or move it out of the store: then such messages may be in queues again",
        _MOVE,
    ),
    "config-bad": Code(
        "A configuration file is not what RocketMQ writes: no JSON of its dialect, or values of the wrong kind.",
        "RocketMQ falls back to the `.bak` file, else starts without these settings",
        f"mend the file; {_SALVAGE} --in-place copies the `.bak` over it",
    ),
    "offset-ahead": Code(
        "A committed offset (consumer group or delay level) is after the end of its queue, or negative.",
        "new messages up to that offset are never consumed by this group, or RocketMQ resets it; a negative one counts "
        "as none, so the group begins anew",
        f"check the queue's end first; {_SALVAGE} --in-place sets the offset to it, and a negative one to -1",
    ),
    "timer-log": Code(
        "The timer log holds an impossible unit, or one whose record is not in the log.",
        "timed messages are not delivered, or delivery stops there",
        f"RocketMQ recreates both from the timer topic when they are gone; {_SALVAGE} --in-place moves them away",
    ),
    "timer-wheel": Code(
        "A slot of the timer wheel does not agree with the timer log, or the file has a wrong size.",
        "timed messages of this slot are not delivered",
        "as for `timer-log`",
    ),
}

NOTES: Final[dict[str, str]] = {
    "offset-absent": "No topic of the committed offsets is in the store: the file may be another broker's.",
    "abort": "The `abort` file is there: the store is in use, did not stop cleanly, or its queues lag its log.",
    "live": "A process holds the store's lock. Its writes meanwhile are not judged.",
    "spare-file": "A log file of zeros after the last used one, allocated in advance.",
    "empty-file": "An empty file, which RocketMQ deletes at start.",
    "torn-tail": "Bytes after the log's end that are not a record: the last write was cut short.",
    "stale-tail": "Old records after the log's end, left over from an earlier truncation; the text names the proof.",
    "named-after": "The newest index file names a record after the log's end, though the store stopped cleanly: the "
    "end of the log may be missing, or the log be of another store.",
    "time-step": "Store times go back, or the checkpoint's is above all: the clock was set back. The records count.",
    "vanished": "A log file was deleted while the log was read, as retention does.",
    "text-odd": "A topic is empty, or a topic or property string is not UTF-8 or holds a NUL.",
    "light-offsets": "A queue offset in INNER_MULTI_QUEUE_OFFSET is no number; `start-refused` if light queues are on.",
    "topic-name": "A topic's name cannot be a directory; its records have no queue.",
    "no-queues": "There are no consume queues at all; they can be rebuilt from the log.",
    "queue-unconfigured": "The log has messages of a topic that is no longer configured and has no queue.",
    "queue-restarted": "A queue's offsets begin again in the log: the topic was deleted and created again.",
    "units-pre-blank": "Units that fill the start of a queue whose first messages are gone.",
    "units-expired": "Units of a part of the log that has been deleted.",
    "units-ghost": "Units after the last one that the log gives their queue, left over from a truncation of the log.",
    "units-lost": "Units of messages in a damaged range of the log: they show the losses.",
    "units-pending": "Records without a unit, which the next start will dispatch (`abort` is there).",
    "units-doubled": "Units at the offsets of lost messages, which `salvage --in-place` points to the next message.",
    "lmq-displaced": "A light queue's units are at other offsets than their records carry.",
    "delay-level": "Times of delivery that fit another `messageDelayLevel` than the one known.",
    "index-uncovered": "A range of the log that no index file covers; RocketMQ drops some after an unclean stop.",
    "index-pending": "Keys without an item, which the next start will enter (`abort` is there).",
    "index-expired": "Items of a part of the log that has been deleted.",
    "index-ghost": "Items after the last key of the log, left over from a truncation of the log.",
    "index-lost": "Items of messages in a damaged range of the log.",
    "index-doubled": "Keys entered twice, as RocketMQ does after an unclean stop.",
    "checkpoint-missing": "There is no checkpoint; RocketMQ creates one at start.",
    "checkpoint-rest": "The checkpoint holds more than the six numbers known.",
    "unknown-file": "A file or directory that RocketMQ 5.3.3 to 5.5.0 do not create.",
    "not-checked": "A part of the store that verify does not check.",
}


def mend(code: str, root: str) -> str:
    """Return the command for a defect of the store at `root`, quoted; DIR is left to choose."""
    return DEFECTS[code].mend.replace("STORE", shlex.quote(f"./{root}" if root.startswith("-") else root))


def in_place(code: str) -> bool:
    """Return whether `flintmq salvage --in-place` mends this defect."""
    return DEFECTS[code].mend == IN_PLACE
