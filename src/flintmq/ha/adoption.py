"""Decides whether a follower may go on in a directory, by the file `flintmq.follow` there.

A directory with a log is a copy if a follower began it and nobody has written it since. In any other the log may have
records of its own, so the user has to adopt it; the comparison with the master decides then. Among files of something
else than a store none is begun, also not by adoption.
"""

from __future__ import annotations

from dataclasses import replace

from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError, ReplicationError, UsageError
from flintmq.storage.files.filesystem import Effects
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.layout import directories, followed
from flintmq.store.layout.followed import Followed
from flintmq.store.recovery.lost_log import new_log_directories

_SIGNS = (directories.LOG, directories.QUEUES, "checkpoint", "flintmq.mark", followed.FILE_NAME)
"""Of these a directory that was opened as a store has at least one."""
_NO_FILES = (directories.CONFIG, "lock", "lost+found")
"""What else a new directory may have: the broker's tables are written before the store is opened."""


def check_past(root: str, config: StoreConfig, effects: Effects, *, adopt: bool) -> None:
    """Check that a directory is new, a copy, or to be adopted. Nothing is changed."""
    found = None if adopt else followed.read(root, effects)
    if found is not None and found.mastered_at is None:
        return
    if is_new(root, config, effects):
        _refuse_strangers(root, effects)
        return
    if adopt:
        return
    if found is None:
        text = f"{root}: a log that no follower has written"
    else:
        text = f"{root}: it was opened as a master when its log ended at offset {found.mastered_at}"
    raise UsageError(
        f"{text}; follow into a new directory, or give --adopt to go on here if its last record is the master's"
    )


def _refuse_strangers(root: str, effects: Effects) -> None:
    """Check that a directory without a log has no files of something else, or is a store.

    A store that is there is opened whatever lies beside it.
    """
    names = effects.listdir(root)
    if any(name in _SIGNS for name in names):
        return
    strangers = [name for name in names if not name.startswith((".", "flintmq.")) and name not in _NO_FILES]
    if strangers:
        raise UsageError(
            f"{root} holds other things than a store ({strangers[0][:100]!a}); give --out a directory that is "
            "missing or empty, or a copy to go on with"
        )


def check_file_size(root: str, size: int, config: StoreConfig, effects: Effects) -> None:
    """Check that the log's files, if there are any, have the size of the broker's.

    Nothing is changed. The line does not tell the size: another would be noticed where the broker's first file ends.
    """
    found = _log_files(root, config, effects)
    if found.files and found.file_size != size:
        raise ReplicationError(
            "geometry",
            f"{root}: its log files have {found.file_size} bytes, and the broker's have {size}; follow into a new "
            "directory, without --set mappedFileSizeCommitLog",
        )


def note_begin(root: str, now: Followed, effects: Effects) -> None:
    """Note that a log is a copy from now on; a begin that was noted before stays.

    Durability: on return.
    """
    before = known(root, effects)
    # The same copy goes on: what is not settled about it stays noted.
    if before is not None and before.begin == now.begin:
        lacks = now.lacks if before.mastered_at is not None else before.lacks
        now = replace(now, chosen=before.chosen, unsure_from=before.unsure_from, lacks=lacks)
    if before != now:
        followed.write(root, now, effects)


def known(root: str, effects: Effects) -> Followed | None:
    """Return the note of a copy; None without one.

    None is also one that cannot be understood: its log is adopted.
    """
    try:
        return followed.read(root, effects)
    except CorruptStoreError:
        return None


def note_cut(root: str, offset: int, effects: Effects) -> None:
    """Note that the log is to be cut, so that a start after a kill goes on with it.

    Durability: on return.
    """
    found = followed.read(root, effects)
    assert found is not None, "a follower notes its begin when it opens the store"
    followed.write(root, replace(found, cut_at=offset), effects)


def note_compared(root: str, effects: Effects) -> None:
    """Note that the log was compared with the master's, and a power cut took nothing.

    Durability: on return.
    """
    found = followed.read(root, effects)
    if found is not None and found.unsure_from is not None:
        followed.write(root, replace(found, unsure_from=None), effects)


def note_lacks(root: str, lacks: str | None, effects: Effects) -> bool:
    """Note why the copy cannot be carried on as the master would go on; None: it can.

    Durability: on return.

    Returns:
        Whether that is another answer than before.
    """
    found = followed.read(root, effects)
    if found is None or found.lacks == lacks:
        return False
    followed.write(root, replace(found, lacks=lacks), effects)
    return True


def is_new(root: str, config: StoreConfig, effects: Effects) -> bool:
    """Return whether a directory holds no file of a log, or is not there."""
    new_log_directories(root, config, effects)
    return not _log_files(root, config, effects).files


def _log_files(root: str, config: StoreConfig, effects: Effects) -> LogFiles:
    listed = directories.log_directories(root, config, effects, absent=True)
    return LogFiles.discover([each.path for each in listed], effects=effects)
