"""Declares every error of FlintMQ, as one tree. Each class has its exit code.

    FlintError                        exit  meaning
    ├── UsageError (ValueError)        2    an option, name or value that cannot be used
    │   ├── ConfigError                2    an unknown RocketMQ key, or a value it cannot have
    │   └── UnknownTopicError          7    a topic that no store has
    ├── StoreError                     3    something about the store directory itself
    │   ├── NotAStoreError             2    the path has no RocketMQ store
    │   ├── UnsupportedFormatError     4    a store kind FlintMQ does not read (RocksDB queues, DLedger log)
    │   ├── StoreAccessError           5    a file cannot be read or written (permissions, I/O error, file kind)
    │   ├── StoreLockedError           6    another process writes this store
    │   ├── PutFailedError             3    a message that is not stored, with the rule that refused it
    │   ├── PutUnknownError           12    a message that may be stored or not
    │   ├── ReplicationError          12    a follower that does not go on, with its reason
    │   │   ├── DivergedError         12    the master's log is not the one that was followed
    │   │   ├── OffsetGoneError       12    the master deleted what is next here
    │   │   └── DamagedStreamError    12    the master sent a record that does not count
    │   └── CorruptStoreError          1    bytes that contradict each other, with file and position
    │       └── LostLogError           1    missing log files to which mark, checkpoint or queues refer
    ├── MessageNotFoundError (LookupError)  7    the queue, offset or id has no message
    ├── FormatError (ValueError)       1    bytes that do not form the requested value (no file known yet)
    ├── MissingExtraError (ImportError)  8    an optional dependency is not installed
    ├── JavaNotFoundError              9    Spark needs Java and none was found
    ├── RemotingError                 12    a broker or name server that refuses a request
    └── UnfinishedError               11    the given time was over before the work was done

Exit code 0 means that all is well, 1 that damage or a mismatch was found.
"""

from __future__ import annotations

import re

_SECRET = re.compile(
    r"(?P<user>[A-Za-z][\w+.-]*://)[^/@\s'\"]*:(?!\d*/)[^\s'\"]*@"
    r"|(?P<query>[?&][\w.-]*(?:sig|signature|token|secret|password|credential)=)[^&#\s'\"]+",
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """Replace user and password of URLs in a text, and signatures in their queries, by `***`.

    What a user typed wrong is shown to him, and lands in the mail of his cron.
    """
    if "://" not in text:
        return text
    return _SECRET.sub(lambda found: f"{found['user']}***@" if found["user"] else f"{found['query']}***", text)


class FlintError(Exception):
    """Base of all errors of FlintMQ.

    The text is one line: `PLACE: CAUSE; ADVICE`, or the cause alone.

    Attributes:
        place: a path or another name; "" if the cause has it.
        cause: what is wrong.
        advice: the next step; "" if the cause has it.
    """

    exit_code = 3

    def __init__(self, *args: object, place: str = "", advice: str = "") -> None:
        cause = " ".join(map(str, args))
        self.place, self.cause, self.advice = map(without_secrets, (place, cause, advice))
        super().__init__(self.without_advice + (f"; {self.advice}" if advice else ""))

    @property
    def without_advice(self) -> str:
        """The text up to the advice."""
        return f"{self.place}: {self.cause}" if self.place else self.cause


class UsageError(FlintError, ValueError):
    """The caller asked for the impossible: an unknown column, a bad time, a negative offset."""

    exit_code = 2


class ConfigError(UsageError):
    """A RocketMQ configuration key that does not exist, or a value that it cannot have."""


class UnknownTopicError(UsageError):
    """No store that is read has a topic of this name; the text names a similar one."""

    exit_code = 7


class StoreError(FlintError):
    """Something is wrong with the store directory."""


class NotAStoreError(StoreError):
    """The path does not exist or has no `commitlog` directory."""

    exit_code = 2


class UnsupportedFormatError(StoreError):
    """FlintMQ does not read such a directory: consume queues in RocksDB, or a DLedger log."""

    exit_code = 4


class StoreAccessError(StoreError):
    """A file of the store cannot be opened, read or written."""

    exit_code = 5


class StoreLockedError(StoreError):
    """Another process holds the store's lock."""

    exit_code = 6


class PutFailedError(StoreError):
    """A put stored nothing; the text names the rule that refused it."""


class PutUnknownError(StoreError):
    """A put may be stored or not. Look for the message before you put it again."""

    exit_code = 12


class ReplicationError(StoreError):
    """A follower does not go on; nothing of what it has was changed.

    Attributes:
        reason: "diverged", "behind", "gone", "damaged", "geometry", "config" or "protocol".
    """

    exit_code = 12

    def __init__(self, reason: str, text: str) -> None:
        self.reason = reason
        super().__init__(text)

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the reason when the error crosses a process boundary."""
        return type(self), (self.reason, str(self))


class DivergedError(ReplicationError):
    """The master's log is another one than was followed: it differs, or ends before."""


class OffsetGoneError(ReplicationError):
    """The master deleted the files with the bytes that are next here."""


class DamagedStreamError(ReplicationError):
    """The master sent bytes that are no record that counts."""


class CorruptStoreError(StoreError):
    """Damage in a file of the store.

    Attributes:
        file: path of the damaged file.
        position: byte position in that file.
        reason: the contradiction, in a few words.
    """

    exit_code = 1

    def __init__(self, file: str, position: int, reason: str, advice: str = "") -> None:
        self.file, self.position, self.reason = file, position, reason
        super().__init__(reason, place=f"{file}, position {position}", advice=advice)

    def __reduce__(self) -> tuple[object, ...]:
        """Keep file and position when the error crosses a process boundary."""
        return type(self), (self.file, self.position, self.reason, self.advice)


class LostLogError(CorruptStoreError):
    """Files of the log are missing, although mark, checkpoint or a queue refers to them."""


class MessageNotFoundError(FlintError, LookupError):
    """There is no message at this place."""

    exit_code = 7


class FormatError(FlintError, ValueError):
    """Bytes that do not form the requested value.

    Attributes:
        position: byte position in the buffer where the contradiction was found.
    """

    exit_code = 1

    def __init__(self, reason: str, position: int = 0) -> None:
        self.reason, self.position = reason, position
        super().__init__(reason, place=f"position {position}")

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the text unchanged when the error crosses a process boundary."""
        return FormatError, (self.reason, self.position)


class MissingExtraError(FlintError, ImportError):
    """An optional part is not installed; the text names the extra that contains it."""

    exit_code = 8


class JavaNotFoundError(FlintError):
    """Spark needs Java, and none was found."""

    exit_code = 9


class RemotingError(FlintError):
    """A broker or a name server refuses a request, or its answer cannot be read."""

    exit_code = 12


class UnfinishedError(FlintError):
    """The given time was over before the work was done."""

    exit_code = 11
