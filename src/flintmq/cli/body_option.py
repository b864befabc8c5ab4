"""The body that a command shows: as stored, the producer's, or decoded.

`--decompress` gives the producer's, and `--body` decodes that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from flintmq.cli.declare import flag, option
from flintmq.errors import FormatError

if TYPE_CHECKING:
    from flintmq.cli.message_lines import DecodedBody
    from flintmq.cli.output import Output
    from flintmq.frames.bodies import BodyDecoder
    from flintmq.message import StoredMessage


@dataclass(frozen=True, kw_only=True)
class BodyWords:
    """Declares the options about the form of bodies.

    Each is a keyword of scan_arrow and of exports.
    """

    body: Literal["bytes", "text", "json", "avro", "protobuf"] = option(
        "--body FORM", "Bodies as bytes, text, json, avro or protobuf.", "bytes", old=("--bodies",)
    )
    body_schema: str | None = option("--body-schema DDL|FILE", "Schema of --body json, avro or protobuf.")
    body_message: str | None = option("--body-message NAME", "Full name of the message of --body protobuf.")
    body_head: bool = flag("--body-head", "Bodies begin with the 5 bytes of a schema registry (avro, protobuf).")
    schema_registry: str | None = option(
        "--schema-registry URL|DIR",
        "Registry of the schemas that heads of --body avro name, or a directory with ID.avsc.",
    )

    def keywords(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(BodyWords)}

    def shown(self, decompress: bool) -> Bodies:
        """Check the options; return the bodies to show."""
        words = self.keywords()
        if words == BodyWords().keywords():
            return Bodies(decompress)
        from flintmq.frames.bodies import bodies_of

        return Bodies(True, bodies_of(*words.values()), self.body)


class Bodies:
    """Returns bodies to show, and counts those that fail, which are shown as they are.

    One broken body must not end a scan of millions; it must not pass unnoticed either.
    """

    def __init__(self, decompress: bool, decoder: BodyDecoder | None = None, form: str = "bytes") -> None:
        self.decompress, self.decoder, self.form = decompress, decoder, form
        self.failed = 0
        self.first_failure = ""

    def of(self, message: StoredMessage) -> bytes:
        if not self.decompress:
            return message.body
        from flintmq.format.compression import original_body

        try:
            body = original_body(message.body, message.sys_flag)
        except FormatError as error:
            if self.decoder is None:
                self._fail(message, error.reason)
                return message.body
            return self._decoded(self.decoder, message, message.body, packed=True)
        return body if self.decoder is None else self._decoded(self.decoder, message, body)

    def _decoded(self, decoder: BodyDecoder, message: StoredMessage, body: bytes, packed: bool = False) -> DecodedBody:
        from flintmq.cli.json_value import json_text
        from flintmq.cli.message_lines import DecodedBody

        value, error = decoder.value(body, packed)
        if error is not None:
            self._fail(message, error)
        if self.form == "json" and isinstance(value, str):  # its text; no text in JSON has a line break
            text = shown = re.sub(r"\s*[\r\n]\s*", " ", value)
        else:
            text = json_text(value)
            shown = value if isinstance(value, str) else text
        return DecodedBody(body if error is not None else shown.encode(), text, error)

    def _fail(self, message: StoredMessage, reason: str) -> None:
        self.failed += 1
        if not self.first_failure:
            self.first_failure = f"offset {message.physical_offset}: {reason}"

    def report_failures(self, out: Output) -> int:
        """Report failures on stderr; return the exit code, 1 if there were any."""
        if self.failed:
            what = f"{self.failed} of the bodies could not be decoded as {self.form}"
            if self.decoder is None:
                what = f"{self.failed} bodies could not be decompressed and are shown as stored"
            out.note(f"{what}; {self.first_failure}")
        return 1 if self.failed else 0
