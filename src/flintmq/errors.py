"""Every error FlintMQ raises, as one tree. Each class owns the exit code of the command line.

    FlintError                        exit  what it says to the reader
    ├── UsageError (ValueError)        2    an option, name or value that cannot be used
    │   └── ConfigError                2    an unknown RocketMQ key, or a value it cannot have
    ├── StoreError                     3    something about the store directory itself
    │   ├── NotAStoreError             2    the path holds no RocketMQ store
    │   ├── UnsupportedFormatError     4    a store kind FlintMQ does not read (RocksDB queues, DLedger log)
    │   ├── StoreAccessError           5    a file cannot be read or written (permissions, I/O error, file kind)
    │   ├── StoreLockedError           6    another process writes this store
    │   ├── PutFailedError             3    a message that is not stored, with the rule that refused it
    │   ├── PutUnknownError           12    a message that may be stored or not
    │   └── CorruptStoreError          1    bytes that contradict each other, with file and position
    │       └── LostLogError           1    log files are missing of which mark, checkpoint or queues tell
    ├── MessageNotFoundError (LookupError)  7    the queue, offset or id holds no message
    ├── FormatError (ValueError)       1    bytes that do not form the value asked for (no file known yet)
    ├── MissingExtraError (ImportError)  8    an optional dependency is not installed
    ├── JavaNotFoundError              9    Spark needs Java and none was found or could be brought
    └── UnfinishedError               11    the time that was given is up before the work was done

Exit code 0 means fine, 1 means that damage or a mismatch was found.
"""

from __future__ import annotations


class FlintError(Exception):
    """Base of all errors of FlintMQ. The text is one line: what, where, what to do next."""

    exit_code = 3


class UsageError(FlintError, ValueError):
    """The caller asked for something that cannot be: an unknown column, a bad time, a negative offset."""

    exit_code = 2


class ConfigError(UsageError):
    """A RocketMQ configuration key that does not exist, or a value that it cannot have."""


class StoreError(FlintError):
    """Something is wrong with the store directory."""


class NotAStoreError(StoreError):
    """The path does not exist or holds no `commitlog` directory."""

    exit_code = 2


class UnsupportedFormatError(StoreError):
    """The directory is of a kind that FlintMQ does not read, such as consume queues in RocksDB or a DLedger log."""

    exit_code = 4


class StoreAccessError(StoreError):
    """A file of the store cannot be opened, read or written."""

    exit_code = 5


class StoreLockedError(StoreError):
    """Another process holds the store's lock."""

    exit_code = 6


class PutFailedError(StoreError):
    """A put that stored nothing; the text names the rule that refused it."""


class PutUnknownError(StoreError):
    """A put that may or may not be there after a restart. Look for it before it is put again."""

    exit_code = 12


class CorruptStoreError(StoreError):
    """Damage in a file of the store.

    Attributes:
        file: path of the damaged file.
        position: byte position in that file.
        reason: what does not hold there, in a few words.
    """

    exit_code = 1

    def __init__(self, file: str, position: int, reason: str, advice: str = "") -> None:
        self.file, self.position, self.reason = file, position, reason
        super().__init__(f"{file}, position {position}: {reason}" + (f"; {advice}" if advice else ""))

    def __reduce__(self) -> tuple[object, ...]:
        """Keep file and position when the error crosses a process boundary."""
        return _corrupt, (type(self), self.file, self.position, self.reason, str(self))


class LostLogError(CorruptStoreError):
    """Files of the log are missing although the mark, the checkpoint or a queue tells of what they held."""


def _corrupt(kind: type[CorruptStoreError], file: str, position: int, reason: str, text: str) -> CorruptStoreError:
    error = kind(file, position, reason)
    error.args = (text,)
    return error


class MessageNotFoundError(FlintError, LookupError):
    """No message at the place that was asked for."""

    exit_code = 7


class FormatError(FlintError, ValueError):
    """Bytes that do not form the value asked for.

    Attributes:
        position: byte position in the buffer where the contradiction was seen.
    """

    exit_code = 1

    def __init__(self, reason: str, position: int = 0) -> None:
        self.reason, self.position = reason, position
        super().__init__(f"position {position}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the text as it is when the error crosses a process boundary."""
        return FormatError, (self.reason, self.position)


class MissingExtraError(FlintError, ImportError):
    """An optional part is not installed; the text names the extra that brings it."""

    exit_code = 8


class JavaNotFoundError(FlintError):
    """Spark needs Java, and none was found or could be brought."""

    exit_code = 9


class UnfinishedError(FlintError):
    """The time that was given is up before the work was done.

    What was done until then is right as far as it goes; the text tells how to go on.
    """

    exit_code = 11
