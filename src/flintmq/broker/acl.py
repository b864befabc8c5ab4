"""Lets users do what an ACL says: who signs a request, and what that user may do.

A request is signed with the user's password: HMAC-SHA1 of its fields and body by remoting, of its date by gRPC. Of a
user's rules the most exact one that fits decides, and of equal ones the one that denies. Upstream:
DefaultAuthenticationProvider, DefaultAuthorizationProvider, AclAuthorizationHandler; of plain_acl.yml
PlainPermissionManager.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import ipaddress
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from flintmq.broker import plain_acl
from flintmq.broker.needs import ACTIONS, ANY, CLUSTER, FREE, GROUP, NEEDS, TOPIC, bounded
from flintmq.broker.requests import Need, Refused, Request, Unsigned
from flintmq.config.text import short
from flintmq.errors import FlintError, FormatError, StoreAccessError, UsageError
from flintmq.format import config_json
from flintmq.format.text import java_encode
from flintmq.remoting.names import NO_PERMISSION
from flintmq.storage.files.filesystem import REAL

log = logging.getLogger("flintmq.broker")

LOOK_S: Final = 1.0  # between two looks at the file
FILE_MAX: Final = 1 << 20  # bytes
LATE: Final = timedelta(minutes=15)  # that a date of gRPC may be off
OLD: Final = 399  # RocketMQ 4.9.3; clients until then leave UNSIGNED out of what they sign
UNSIGNED: Final = "_UNIQUE_KEY_QUERY"
_DATE: Final = "%Y%m%dT%H%M%SZ"
_PATTERN = re.compile(r"[0-9a-fA-F.:*]+")

Source: TypeAlias = Callable[[str], object]
"""Returns whether an address is one of these."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A user's permission, or its denial.

    Attributes:
        name: of the resource, or how it begins.
        sources: addresses to which it applies; none: to all.
    """

    kind: str
    name: str
    is_prefix: bool
    actions: frozenset[str]
    sources: tuple[Source, ...]
    allows: bool

    @property
    def order(self) -> tuple[bool, bool, int, bool]:
        """Return the place among rules: exact ones before others, long beginnings before short ones."""
        return self.kind == ANY, self.is_prefix, -len(self.name), self.allows

    def fits(self, need: Need, name: str, host: str) -> bool:
        return (
            self.kind in (ANY, need.kind)
            and (name.startswith(self.name) if self.is_prefix else name == self.name)
            and not self.actions.isdisjoint(need.actions)
            and (not self.sources or _is_one(host, self.sources))
        )


@dataclass(frozen=True, slots=True)
class User:
    """A user; `trusted`: addresses from which the name alone is enough, for anything."""

    name: str
    password: bytes = field(repr=False)
    is_super: bool
    rules: tuple[Rule, ...]
    trusted: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Acl:
    """The users of a file; `trusted`: addresses from which anything may come unsigned."""

    users: Mapping[str, User]
    trusted: tuple[Source, ...]


class Guard:
    """Checks each request by an ACL, which is read again when its file changes.

    Thread: the loop's.

    Raises (when it is made): UsageError, StoreAccessError: as `read`.
    """

    def __init__(self, path: str, cluster: str) -> None:
        self._path, self._cluster = path, cluster
        self._stamp = _stamp(path)
        self._acl = read(path)
        self._nobody = os.urandom(20)  # by it signatures of unknown users are computed, which takes as long

    async def keep_reading(self) -> None:
        """Read the file again when it changes; one that is broken changes nothing."""
        while True:
            await asyncio.sleep(LOOK_S)
            stamp = await asyncio.to_thread(_stamp, self._path)
            if stamp == self._stamp:
                continue
            self._stamp = stamp
            try:
                self._acl = await asyncio.to_thread(read, self._path)
            except FlintError as error:
                log.error("the ACL of before counts on: %s", error)
            else:
                log.info("%s: the ACL is read again: %d users", self._path, len(self._acl.users))

    def remoting(self, request: Request) -> Request:
        """Return a request that its user may send.

        Raises Refused: the user may not, or is none.
        """
        frame = request.frame
        signed = "".join(
            value
            for name, value in sorted(frame.fields.items())
            if name != "Signature" and not (name == UNSIGNED and frame.version <= OLD)
        )
        try:
            signature = base64.b64decode(frame.fields.get("Signature", ""), validate=True)
        except ValueError:
            signature = b""
        host = request.peer.address.rpartition(":")[0].strip("[]")
        user = self._user(frame.fields.get("AccessKey", ""), java_encode(signed) + frame.body, signature, host)
        if user is None:
            return request
        needs = NEEDS.get(frame.code)
        if needs is None and frame.code not in FREE:
            raise _refused(user, f"request {frame.code}", host, "no matched policies.")
        for need in bounded(needs(request) if needs is not None else ()):
            self._check(user, host, need)
        return replace(request, may=lambda need: self._check(user, host, need))

    def grpc(self, authorization: str, date: str, host: str) -> Callable[[Need], None]:
        """Return what checks a need of the user who signed a call of gRPC.

        Raises Unsigned: nobody known has.
        """
        parts = dict(part.strip().partition("=")[::2] for part in authorization.partition(" ")[2].split(","))
        try:
            signature = binascii.unhexlify(parts.get("Signature", ""))
        except ValueError:
            signature = b""
        user = self._user(parts.get("Credential", "").partition("/")[0], java_encode(date), signature, host, date)
        return lambda need: None if user is None else self._check(user, host, need)

    def _user(self, name: str, signed: bytes, signature: bytes, host: str, date: str | None = None) -> User | None:
        """Return who has signed; None: whoever it is may do anything.

        Raises Unsigned: nobody known has.
        """
        user = self._acl.users.get(name)
        if _is_one(host, self._acl.trusted) or (user is not None and _is_one(host, user.trusted)):
            return None
        if not name:
            raise Unsigned("username cannot be null.")
        found = hmac.digest(self._nobody if user is None else user.password, signed, "sha1")
        if not hmac.compare_digest(found, signature) or user is None:
            raise Unsigned("check signature failed.")
        if date is not None:
            _check_date(date)
        return None if user.is_super else user

    def _check(self, user: User, host: str, need: Need) -> None:
        name = self._cluster if need.kind == CLUSTER else need.name
        for rule in user.rules:
            if rule.fits(need, name, host):
                if rule.allows:
                    return
                raise _refused(user, f"{need.kind}:{name}", host, "the decision is deny.")
        raise _refused(user, f"{need.kind}:{name}", host, "no matched policies.")


def _refused(user: User, what: str, host: str, why: str) -> Refused:
    return Refused(NO_PERMISSION, f"User:{user.name} has no permission to access {what[:200]} from {host}, {why}")


def _check_date(text: str) -> None:
    """Raise Unsigned for a date that is old, or to come.

    It is UTC, and may be this machine's own time, which the clients of Java, Go and Python write.
    """
    try:
        date = datetime.strptime(text, _DATE)
    except ValueError:
        raise Unsigned(f"x-mq-date-time {text!a:.100} is no date such as 20260131T235959Z") from None
    if min(abs(date - datetime.now(UTC).replace(tzinfo=None)), abs(date - datetime.now())) > LATE:
        raise Unsigned(f"x-mq-date-time {text} is more than 15 minutes off")


def _is_one(host: str, sources: Iterable[Source]) -> bool:
    return any(source(host) for source in sources)


# -- its file ----------------------------------------------------------------------------------------------------------


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read(path: str) -> Acl:
    """Read an ACL: JSON, or a plain_acl.yml of RocketMQ 4.x, by the file's name.

    Raises:
        UsageError: the file holds something else.
        StoreAccessError: it cannot be read.
    """
    try:
        data = REAL.read_file(path, FILE_MAX + 1)
    except OSError as error:
        raise StoreAccessError(f"{path}: cannot be read: {error.strerror or error}") from None
    if data is None or len(data) > FILE_MAX:
        raise UsageError(f"{path}: " + ("is not there" if data is None else f"has more than {FILE_MAX} bytes"))
    try:
        told = plain_acl.parse(data) if path.endswith((".yml", ".yaml")) else config_json.parse(data)
        users = [_user(one) for one in _list(told, "users")]
        _only(told, {"users", "trusted"})
        if len({user.name for user in users}) < len(users):
            raise UsageError("two users have one name")
        return Acl({user.name: user for user in users}, _sources(told, "trusted"))
    except (UsageError, FormatError) as error:
        raise UsageError(f"{path}: no ACL: {error}") from None


def _user(told: object) -> User:
    told = _object(told, "a user")
    _only(told, {"username", "password", "type", "rules", "trusted"})
    name, kind = _text(told, "username"), told.get("type", "normal")
    if not isinstance(kind, str) or kind.lower() not in ("super", "normal"):
        raise UsageError(f"the type of {short(name)} is super or normal, not {short(kind)}")
    rules = sorted((_rule(one) for one in _list(told, "rules")), key=lambda rule: rule.order)
    password = java_encode(_text(told, "password"))
    return User(name, password, kind.lower() == "super", tuple(rules), _sources(told, "trusted"))


def _rule(told: object) -> Rule:
    told = _object(told, "a rule")
    _only(told, {"resource", "actions", "sources", "decision"})
    resource = _text(told, "resource")
    kind, colon, name = resource.partition(":")
    kinds = {ANY: ANY, **{one.lower(): one for one in (TOPIC, GROUP, CLUSTER)}}
    if kind.lower() not in kinds or (not name if colon else kind != ANY):
        raise UsageError(f"the resource {short(resource)} is none such as Topic:NAME, Group:BEGIN* or Cluster:*")
    words = {action.lower(): {action} for action in ACTIONS} | {"all": set(ACTIONS)}
    actions = frozenset[str]()
    for action in _list(told, "actions"):
        if str(action).lower() not in words:
            raise UsageError(f"the action {short(action)} is none of {', '.join(ACTIONS)}, All")
        actions |= words[str(action).lower()]
    decision = str(told.get("decision", "Allow")).lower()
    if decision not in ("allow", "deny"):
        raise UsageError(f"the decision {short(decision)} is neither Allow nor Deny")
    is_prefix = not colon or name.endswith("*")
    return Rule(
        kinds[kind.lower()], name.removesuffix("*"), is_prefix, actions, _sources(told, "sources"), decision == "allow"
    )


def _sources(told: Mapping[Any, Any], name: str) -> tuple[Source, ...]:
    return tuple(_source(one) for one in _list(told, name))


def _source(told: object) -> Source:
    """Return what knows addresses: one, a network such as 10.1.0.0/16, or such as 10.1.*."""
    text = str(told)
    if "*" in text and _PATTERN.fullmatch(text):
        return re.compile(re.escape(text).replace(r"\*", ".*")).fullmatch
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise UsageError(f"{short(told)} is no address, no network and no pattern such as 10.1.*") from None
    return lambda host: _is_in(host, network)


def _is_in(host: str, network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address) in network


def _list(told: Mapping[Any, Any], name: str) -> list[Any]:
    found = told.get(name, [])
    if not isinstance(found, list):
        raise UsageError(f"{name} is no list")  # what it is may hold a password
    return found


def _object(told: object, what: str) -> Mapping[Any, Any]:
    if not isinstance(told, dict):
        raise UsageError(f"{what} is no object")
    return told


def _text(told: Mapping[Any, Any], name: str) -> str:
    found = told.get(name)
    if not isinstance(found, str) or not found:
        raise UsageError(f"a {name} is missing")
    return found


def _only(told: Mapping[Any, Any], known: set[str]) -> None:
    unknown = sorted(str(name) for name in told.keys() - known)
    if unknown:
        raise UsageError(f"{short(unknown[0])} is none of {', '.join(sorted(known))}")
