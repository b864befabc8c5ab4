"""Reads the head of a schema registry's clients, and the schemas that it names.

The head comes before a body: a zero byte and the schema's id, 4 bytes big-endian. Source: the wire format of
Confluent's Schema Registry, which others follow for Avro. A registry is asked over HTTP (`GET URL/schemas/ids/ID`), or
is a directory with files ID.avsc.
"""

from __future__ import annotations

import base64
import http.client
import json
import netrc
import os
import urllib.error
import urllib.parse
import urllib.request

from flintmq.errors import StoreAccessError, UsageError
from flintmq.lake.bodies.ddl import SCHEMA_BYTES_MAX, read_file
from flintmq.lake.bodies.failure import NO_HEAD, BadBody

HEAD_BYTES = 5
TIMEOUT_S = 10.0
UNKNOWN_MAX = 1000


def absolute_place(place: str) -> str:
    """Return a registry's place as other processes find it: a directory by its absolute path."""
    return place if "://" in place else os.path.abspath(place)


def split_head(body: bytes) -> tuple[int, bytes]:
    if len(body) < HEAD_BYTES or body[0]:
        raise BadBody(NO_HEAD)
    return int.from_bytes(body[1:HEAD_BYTES], "big"), body[HEAD_BYTES:]


class SchemaRegistry:
    """The schemas of a registry, each asked for once.

    `place`: an URL (http or https), or a directory. User and password are those of `https://user:password@host`, else
    those of the host in ~/.netrc, or in the file that NETRC names. Thread: one.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._texts: dict[int, str | None] = {}
        self._unknown = 0
        parts = urllib.parse.urlsplit(place)
        self._is_url = "://" in place
        if self._is_url and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise UsageError(
                f"schema registry {self.name[:80]!r}: give a URL http://HOST or https://HOST, or a directory"
            )

    @property
    def name(self) -> str:
        """The place without the password."""
        parts = urllib.parse.urlsplit(self._place)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() if self._is_url else self._place

    def text(self, schema_id: int) -> str | None:
        """Return the text of an Avro schema; None if the registry has none of this id."""
        if schema_id not in self._texts:
            self._texts[schema_id] = self._ask(schema_id) if self._is_url else self._read(schema_id)
            self._unknown += self._texts[schema_id] is None
            if self._unknown > UNKNOWN_MAX:
                raise StoreAccessError(
                    f"{self.name}: has none of {UNKNOWN_MAX} schemas that bodies name; give their own registry, or "
                    "leave the body head out"
                )
        return self._texts[schema_id]

    def _read(self, schema_id: int) -> str | None:
        if not os.path.isdir(self._place):
            raise StoreAccessError(f"{self._place}: no directory; give one with files ID.avsc, or the registry's URL")
        path = os.path.join(self._place, f"{schema_id}.avsc")
        return read_file(path).decode(errors="replace") if os.path.exists(path) else None

    def _ask(self, schema_id: int) -> str | None:
        try:
            answer = json.loads(self._get(f"/schemas/ids/{schema_id}"))
            if not isinstance(answer, dict) or answer.get("schemaType", "AVRO") != "AVRO":
                return None
            if answer.get("references"):
                raise StoreAccessError(
                    f"{self.name}: schema {schema_id} refers to others, which is not read; put the whole schema into "
                    f"a directory as {schema_id}.avsc and give that"
                )
            return str(answer["schema"])
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise self._failed(f"answers {error.code} for schema {schema_id}") from error
        except (OSError, http.client.HTTPException) as error:
            raise self._failed(f"does not answer ({type(error).__name__})") from error
        except (ValueError, KeyError) as error:
            raise self._failed(f"gives no schema for id {schema_id}") from error

    def _failed(self, what: str) -> StoreAccessError:
        return StoreAccessError(f"{self.name}: {what}; is it the schema registry, and is it up?")

    def _get(self, path: str) -> bytes:
        parts = urllib.parse.urlsplit(self._place)
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=parts.path.rstrip("/") + path).geturl()
        request = urllib.request.Request(url, headers={"Accept": "application/json"})
        user = self._user(parts)
        if user is not None:
            request.add_header("Authorization", "Basic " + base64.b64encode(user.encode()).decode())
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            content: bytes = answer.read(SCHEMA_BYTES_MAX)
        return content

    def _user(self, parts: urllib.parse.SplitResult) -> str | None:
        """Return `user:password`; None if there is none."""
        if parts.username is not None:
            return f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        path = os.environ.get("NETRC") or os.path.expanduser("~/.netrc")
        try:
            found = netrc.netrc(path).authenticators(parts.hostname or "")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError, netrc.NetrcParseError) as error:
            raise StoreAccessError(
                f"{path}: {error}; it is read for a password of {self.name}; mend it, or name another file in NETRC"
            ) from error
        return f"{found[0]}:{found[2]}" if found else None
