"""Refuses a store without log files unless it never held a message.

Otherwise its disk is not mounted, a copy left the log out, or `storePathCommitLog` is wrong or missing. Evidence of
messages is the durable mark, the checkpoint or a queue. If only the last files are missing, the walk (`commitlog/walk`)
notices; missing first files have expired.
"""

from __future__ import annotations

import os

from flintmq.config.keys import StoreConfig
from flintmq.errors import LostLogError
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.store.commitlog.end_of_log import ACCEPT, LOST_ADVICE, StopFacts, evidence_beyond, read_facts
from flintmq.store.commitlog.files import LogFile, LogFiles, has_data
from flintmq.store.layout import directories
from flintmq.store.layout.queue_name import queue_names


def queue_with_units(root: str, effects: Effects) -> str:
    """Return a queue (`topic/queue id`) whose files hold a unit; empty if there is none."""
    for kind in (directories.QUEUES, directories.BATCH_QUEUES):
        for name in queue_names(root, kind, effects):
            folder = os.path.join(root, kind, name.topic, str(name.queue_id))
            for file in effects.listdir(folder, os.path.join(root, kind)):
                path = os.path.join(folder, file)
                size = effects.size(path)
                if size and has_data(LogFile(path, 0, size), effects):
                    return f"{name.topic}/{name.queue_id}"
    return ""


def refuse_without_log(root: str, log: LogFiles, facts: StopFacts) -> None:
    """Check that a store without log files never held a message."""
    if log.files:
        return
    evidence = evidence_beyond(facts, 0, 0)
    if not evidence and (queue := queue_with_units(root, log.effects)):
        evidence = f"the queue {queue!a} holds units"
    if evidence:
        folder = log.directories[0] if log.directories else os.path.join(root, directories.LOG)
        raise LostLogError(folder, 0, f"the log has no files, but {evidence}", LOST_ADVICE + ACCEPT)


def new_log_directories(root: str, config: StoreConfig, effects: Effects) -> list[str]:
    """Return the directories that `storePathCommitLog` names and that are to be made.

    RocketMQ makes any that is missing. Here only a store that never held a message gets them: beside messages the disk
    is not mounted, or the key is wrong, and an empty directory in its place would pass for the log.
    """
    places = directories.log_directories(root, config, effects, absent=True)
    missing = [place.path for place in places if place.writable and not effects.is_dir(place.path)]
    if missing and config.store_path_commit_log.strip():
        log = LogFiles.discover([os.path.join(root, directories.LOG), *(p.path for p in places)], effects=effects)
        try:
            if not log.files:
                refuse_without_log(root, log, read_facts(root, effects))
                return missing
        except LostLogError:
            pass
        directories.log_directories(root, config, effects)  # refuses
    return []


def lost_directory(root: str, config: StoreConfig, effects: Effects = REAL, *, accept: bool = False) -> bool:
    """Return whether `commitlog/` is missing despite evidence of messages, and that is accepted.

    Raises LostLogError: it is, and the user does not: nobody may make it there.
    """
    folder = os.path.join(root, directories.LOG)
    if config.store_path_commit_log.strip() or not effects.is_dir(root) or effects.is_dir(folder):
        return False
    try:
        none = LogFiles((), 0, 0, (), effects, (folder,))
        refuse_without_log(root, none, read_facts(root, effects))
    except LostLogError:
        if not accept:
            raise
        return True
    return False
