"""Declares the reasons why a body does not decode."""

from __future__ import annotations

NOT_COMPRESSED = "flagged as compressed, and is not"
NO_UTF8 = "not UTF-8"
NO_JSON = "not JSON"
TOO_DEEP = "JSON that is nested too deep"
NOT_OF_SCHEMA = "not of the schema"
LEFT_OVER = "bytes after the value"
NO_HEAD = "no registry head"
UNKNOWN_SCHEMA = "unknown schema id"
UNREAD_SCHEMA = "a schema with types that have no column"
OTHER_MESSAGE = "another message of the schema"
NO_CHANGE = "not a change of a row"
NO_KEY = "null in the upsert key"
LEFT_OUT = "a value that Debezium left out"
INNER_BATCH = "an inner batch, which --explode takes apart"
EMPTIES = "a statement that may delete rows"


class BadBody(ValueError):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
