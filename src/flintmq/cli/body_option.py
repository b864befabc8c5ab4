"""The body that a command shows: as stored, or with `--decompress` the producer's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flintmq.errors import FormatError

if TYPE_CHECKING:
    from flintmq.cli.output import Output
    from flintmq.message import StoredMessage


class Bodies:
    """Returns bodies to show, and counts those that fail to decompress and are shown as stored.

    One broken body must not end a scan of millions; it must not pass unnoticed either.
    """

    def __init__(self, decompress: bool) -> None:
        self.decompress = decompress
        self.failed = 0
        self.first_failure = ""

    def of(self, message: StoredMessage) -> bytes:
        if not self.decompress:
            return message.body
        from flintmq.format.compression import original_body

        try:
            return original_body(message.body, message.sys_flag)
        except FormatError as error:
            self.failed += 1
            if not self.first_failure:
                self.first_failure = f"offset {message.physical_offset}: {error.reason}"
            return message.body

    def report_failures(self, out: Output) -> int:
        """Report failed decompressions on stderr; return the exit code, 1 if there were any."""
        if self.failed:
            out.note(f"{self.failed} bodies could not be decompressed and are shown as stored; {self.first_failure}")
        return 1 if self.failed else 0
