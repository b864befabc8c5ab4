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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from flintmq.broker import plain_acl
from flintmq.broker.needs import ACTIONS, ANY, CLUSTER, GROUP, TOPIC, bounded, of_request, of_topic
from flintmq.broker.requests import Need, Refused, Request, Unsigned
from flintmq.broker.served_store import check_letters
from flintmq.config.text import short
from flintmq.errors import FlintError, FormatError, StoreAccessError, UsageError
from flintmq.format import config_json
from flintmq.format.group_topics import RETRY
from flintmq.format.text import java_encode
from flintmq.remoting.names import NO_PERMISSION
from flintmq.storage.files.filesystem import REAL

log = logging.getLogger("flintmq.broker")

LOOK_S: Final = 1.0  # between two looks at the file; it counts once two of them see the same
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
        actions: those about which it decides.
        allowed: those of them that the user may do.
        sources: addresses to which it applies; none: to all.
    """

    kind: str
    name: str
    is_prefix: bool
    actions: frozenset[str]
    allowed: frozenset[str]
    sources: tuple[Source, ...]

    @property
    def place(self) -> tuple[str, bool, str]:
        return self.kind, self.is_prefix, self.name

    def fits(self, need: Need, host: str) -> bool:
        return not self.actions.isdisjoint(need.actions) and (not self.sources or _is_one(host, self.sources))


@dataclass(frozen=True, slots=True)
class User:
    """A user.

    Attributes:
        rules: by kind, whether it is a prefix, and name; of equal ones those that deny come first.
        lengths: of the prefixes, long ones first.
        trusted: addresses from which the name alone is enough.
    """

    name: str
    password: bytes = field(repr=False)
    is_super: bool
    rules: Mapping[tuple[str, bool, str], Sequence[Rule]]
    lengths: Sequence[int]
    trusted: tuple[Source, ...]

    def decision(self, kinds: Sequence[str], name: str, need: Need, host: str) -> bool | None:
        """Return whether the most exact rule of these kinds allows a need, or None."""
        for rule in self._rules_of(kinds, name):
            if rule.fits(need, host):
                return not rule.allowed.isdisjoint(need.actions)
        return None

    def _rules_of(self, kinds: Sequence[str], name: str) -> Iterator[Rule]:
        """Yield the rules for a resource, the most exact ones first.

        They are looked up: thousands of names times thousands of rules would hold the loop for seconds.
        """
        for one in kinds:
            yield from self.rules.get((one, False, name), ())
            for length in self.lengths:
                yield from self.rules.get((one, True, name[:length]), ())


NOBODY: Final = User("", b"", False, {}, (), ())
"""Represents whoever sends from an address that is trusted."""


@dataclass(frozen=True, slots=True)
class Acl:
    """The users of a file.

    Attributes:
        trusted: addresses from which anything may come unsigned.
        is_old: it is of RocketMQ 4.x, where a user's own trusted addresses are such, too.
    """

    users: Mapping[str, User]
    trusted: tuple[Source, ...]
    is_old: bool

    def lets_all(self, user: User, host: str) -> bool:
        """Return whether a user may do anything."""
        return user.is_super or _is_one(host, self.trusted) or (self.is_old and _is_one(host, user.trusted))


class Guard:
    """Checks each request by an ACL, which is read again when its file changes.

    Thread: the loop's.

    Raises (when it is made): UsageError, StoreAccessError: as `read`.
    """

    def __init__(self, path: str, cluster: str) -> None:
        self._path, self._cluster = path, cluster
        self._stamp = _stamp(path)
        self._acl = read(path)
        if not self._acl.users and not self._acl.trusted:
            log.warning("%s: it has neither users nor trusted addresses: all requests are refused", path)
        self._nobody = os.urandom(20)  # by it signatures of unknown users are computed, which takes as long

    async def keep_reading(self) -> None:
        """Read the file again when it has changed, and changes no more.

        One that is broken changes nothing. Half a file may be a whole one without its last rules, which deny.
        """
        before = self._stamp
        while True:
            await asyncio.sleep(LOOK_S)
            seen, before = before, await asyncio.to_thread(_stamp, self._path)
            if before == self._stamp or before != seen:
                continue
            self._stamp = before
            try:
                found = await asyncio.to_thread(read, self._path)
                if await asyncio.to_thread(_stamp, self._path) != before:
                    continue
                if found.is_old and not found.users:
                    raise UsageError(f"{self._path}: it has no accounts")
                self._acl = found
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
        request.peer.user = user.name
        return replace(request, may=self._checked(user, host, of_request(request)))

    def grpc(
        self, authorization: str, date: str, host: str, needs: Iterable[Need] = ()
    ) -> tuple[str, Callable[[Need], None]]:
        """Return the user who signed a call of gRPC, and what checks more needs than these.

        Raises:
            Unsigned: nobody known has.
            Refused: the user may not.
        """
        parts = dict(part.strip().partition("=")[::2] for part in authorization.partition(" ")[2].split(","))
        try:
            signature = binascii.unhexlify(parts.get("Signature", ""))
        except ValueError:
            signature = b""
        user = self._user(parts.get("Credential", "").partition("/")[0], java_encode(date), signature, host, date)
        return user.name, self._checked(user, host, needs)

    def _user(self, name: str, signed: bytes, signature: bytes, host: str, date: str | None = None) -> User:
        """Return who has signed, or need not.

        Raises Unsigned: nobody known has.
        """
        if _is_one(host, self._acl.trusted):
            return NOBODY
        user = self._acl.users.get(name)
        if user is not None and _is_one(host, user.trusted):
            return user
        if not name:
            raise Unsigned("username cannot be null.")
        found = hmac.digest(self._nobody if user is None else user.password, signed, "sha1")
        if not hmac.compare_digest(found, signature) or user is None:
            raise Unsigned("check signature failed.")
        if date is not None:
            _check_date(date)
        return user

    def _checked(self, user: User, host: str, needs: Iterable[Need]) -> Callable[[Need], None]:
        """Return what checks more needs of a user who has these: by the ACL that counts by then.

        Raises Refused: the user may not.
        """
        if not self._acl.lets_all(user, host):
            for need in bounded(needs):
                self._check(user, host, need)

        def may(need: Need) -> None:
            acl = self._acl
            now = acl.users.get(user.name)
            if now is None or now.password != user.password:  # who signed by an old one has no rights any more
                now = replace(NOBODY, name=user.name)
            if not acl.lets_all(now, host):
                self._check(now, host, need)

        return may

    def _check(self, user: User, host: str, need: Need) -> None:
        kind, name = need.kind, need.name
        kinds: Sequence[str] = (kind, ANY)
        if kind == CLUSTER:
            if name and user.decision((TOPIC,), name, need, host) is False:
                raise _refused(user, f"{TOPIC}:{name}", host, False)
            # Messages of all topics wait in a topic that is named: `*` is all topics, and a Deny of one leaves it so.
            kinds, name = (CLUSTER,) if name else kinds, self._cluster
        may = user.decision(kinds, name, need, host)
        if not may:
            raise _refused(user, f"{kind}:{name}", host, may)


def _refused(user: User, what: str, host: str, decision: bool | None) -> Refused:
    why = "no matched policies." if decision is None else "the decision is deny."
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
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


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
        is_old = path.endswith((".yml", ".yaml"))
        told = plain_acl.parse(data) if is_old else config_json.parse(data)
        users = [_user(one, is_old=is_old) for one in _list(told, "users")]
        _only(told, {"users", "trusted"})
        if len({user.name for user in users}) < len(users):
            raise UsageError("two users have one name")
        return Acl({user.name: user for user in users}, _sources(told, "trusted"), is_old)
    except (UsageError, FormatError, Refused) as error:
        raise UsageError(f"{path}: no ACL: {error}") from None


def _user(told: object, *, is_old: bool) -> User:
    told = _object(told, "a user")
    _only(told, {"username", "password", "type", "rules", "trusted"})
    name, kind = _text(told, "username"), told.get("type", "normal")
    if not isinstance(kind, str) or kind.lower() not in ("super", "normal"):
        raise UsageError(f"the type of {short(name)} is super or normal, not {short(kind)}")
    rules = dict[tuple[str, bool, str], list[Rule]]()
    made = filter(None, (_rule(one, is_old=is_old) for one in _list(told, "rules")))
    for rule in sorted(made, key=lambda rule: len(rule.allowed)):
        rules.setdefault(rule.place, []).append(rule)
    lengths = sorted({len(begin) for _, is_prefix, begin in rules if is_prefix}, reverse=True)
    password = java_encode(_text(told, "password"))
    return User(name, password, kind.lower() == "super", rules, lengths, _sources(told, "trusted"))


def _rule(told: object, *, is_old: bool) -> Rule | None:
    """Return a rule.

    One of 4.x decides about all actions: what it does not allow it denies. None: it would do nothing, and the log says
    so.

    Raises:
        UsageError: it is none, or would do nothing.
        Refused: its name is none.
    """
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
    if not actions:
        raise UsageError(f"the rule for {short(resource)} has no actions")
    kind, begin, is_prefix = kinds[kind.lower()], name.removesuffix("*"), not colon or name.endswith("*")
    if kind in (TOPIC, GROUP) and begin:
        check_letters(kind.lower(), begin)
        of_retries = begin.startswith(RETRY) or (is_prefix and RETRY.startswith(begin) and len(begin) > 1)
        if of_retries or (kind == TOPIC and decision == "allow" and of_topic(begin).kind == CLUSTER):
            why = f"{short(resource)} has no rights of its own, but those of a group, or of the cluster"
            if not is_old:
                raise UsageError(why)
            log.warning("left out: %s", why)
            return None
    allowed = actions if decision == "allow" else frozenset[str]()
    return Rule(kind, begin, is_prefix, frozenset(ACTIONS) if is_old else actions, allowed, _sources(told, "sources"))


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
