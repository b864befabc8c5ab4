"""Reads the plain_acl.yml of RocketMQ 4.x as the ACL that it means.

Of YAML it knows what these files have: names with values, lists, comments and quotes; all else is refused by its line.
Upstream: PlainPermissionManager, Permission.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from flintmq.errors import UsageError
from flintmq.format.config_json import JsonObject
from flintmq.format.group_topics import RETRY
from flintmq.format.text import java_decode

log = logging.getLogger("flintmq.broker")

DEPTH_MAX: Final = 8
DENIED: Final = "DENY"
_PERMISSIONS: Final[Mapping[str, list[str]]] = {
    "PUB": ["Pub"],
    "SUB": ["Sub"],
    "PUB|SUB": ["Pub", "Sub"],
    "SUB|PUB": ["Pub", "Sub"],
    DENIED: ["All"],
}
_COMMENT = re.compile(r"(^|\s)#.*")
_NAMED = re.compile(r"(\w+):(?:\s+(.*))?")
_ITEM = re.compile(r"-(?:\s+|$)")

_Lines = deque[tuple[int, int, str]]
"""Lines that are not read yet: number, indentation, text."""


def parse(data: bytes) -> JsonObject:
    """Return the users of a plain_acl.yml, in the form of our own files.

    Raises UsageError: it is none.
    """
    lines = _Lines()
    for number, raw in enumerate(java_decode(data).splitlines(), 1):
        text = _COMMENT.sub("", raw).rstrip()
        if text and text != "---":
            lines.append((number, len(text) - len(text.lstrip()), text.lstrip()))
    told = _block(lines) if lines else {}
    if lines or not isinstance(told, dict):
        raise UsageError(f"line {lines[0][0] if lines else 1} belongs to nothing")
    users = [_user(one) for one in told.get("accounts") or []]
    return {"users": users, "trusted": told.get("globalWhiteRemoteAddresses") or []}


def _user(told: object) -> JsonObject:
    if not isinstance(told, dict):
        raise UsageError("an account has no names with values")
    return {
        "username": told.get("accessKey"),
        "password": told.get("secretKey"),
        "type": "super" if str(told.get("admin")).lower() == "true" else "normal",
        "rules": [*_rules(told, "Topic", "topic"), *_rules(told, "Group", "group")],
        "trusted": [text for text in str(told.get("whiteRemoteAddress") or "").split(",") if text],
    }


def _rules(account: Mapping[str, Any], kind: str, name: str) -> Iterator[JsonObject]:
    """Yield the rules of an account for topics, or for groups.

    One that is not named has the default. As with 4.x the topic of retries is its group, and an unknown permission is
    DENY.
    """
    found = {"*": str(account.get(f"default{kind}Perm") or DENIED)}
    for text in account.get(f"{name}Perms") or []:
        resource, _, permission = (part.strip() for part in str(text).partition("="))
        if "*" in resource:
            raise UsageError(f"{kind} {resource!a:.100}: a name of 4.x has no *")
        found[resource] = permission
    for resource, permission in found.items():
        if not permission:
            raise UsageError(f"{kind} {resource!a:.100}: there is none of {', '.join(_PERMISSIONS)}")
        if permission not in _PERMISSIONS:
            log.warning("%s %.100a: the permission %.20a is read as %s", kind, resource, permission, DENIED)
            permission = DENIED
        of_group = kind == "Topic" and resource.startswith(RETRY)
        named = f"Group:{resource.removeprefix(RETRY)}" if of_group else f"{kind}:{resource}"
        decision = "Deny" if permission == DENIED else "Allow"
        yield {"resource": named, "actions": _PERMISSIONS[permission], "decision": decision}


def _block(lines: _Lines, level: int = 0) -> Any:
    """Take a list, or names with values, of the first line's indentation."""
    number, depth, text = lines[0]
    if level > DEPTH_MAX:
        raise UsageError(f"line {number} is nested too deep")
    if not _ITEM.match(text):
        return dict(_named(lines, depth, level))
    found = []
    while lines and lines[0][1] == depth and (item := _ITEM.match(lines[0][2])):
        number, _, text = lines.popleft()
        rest = text[item.end() :]
        if _NAMED.fullmatch(rest):
            lines.appendleft((number, depth + item.end(), rest))
            found.append(_block(lines, level + 1))
        else:
            found.append(_scalar(number, rest))
    return found


def _named(lines: _Lines, depth: int, level: int) -> Iterator[tuple[str, Any]]:
    while lines and lines[0][1] == depth and not _ITEM.match(lines[0][2]):
        number, _, text = lines.popleft()
        named = _NAMED.fullmatch(text)
        if named is None:
            raise UsageError(f"line {number} is neither NAME: VALUE nor - VALUE")
        has_more = lines and (lines[0][1] > depth or (lines[0][1] == depth and _ITEM.match(lines[0][2])))
        yield named[1], _scalar(number, named[2]) if named[2] else _block(lines, level + 1) if has_more else None


def _scalar(number: int, text: str) -> str:
    quote = text[:1]
    if quote in ("'", '"') and len(text) > 1 and text.endswith(quote) and "\\" not in text:
        return text[1:-1]
    if not quote or quote in "'\"[]{}&|>%@`!":
        raise UsageError(f"line {number} has a value of a form that is not read here")
    return text
