"""Finds the stores that a pattern names: `/data/{broker}/store`, `s3://bucket/*/store`.

`*` stands for any text without `/`, and so does `{broker}`, once. Both match no name that begins with a dot, as in a
shell, and not `lost+found`, which a file system has at its root. What `{broker}` matched is the broker's name, or else
what the last `*` matched.
"""

from __future__ import annotations

import os
import re

from flintmq.cluster.member import Member
from flintmq.errors import UsageError
from flintmq.storage.files.filesystem import Effects

BROKER = "{broker}"
OF_FILE_SYSTEM = "lost+found"
_WILD = re.compile(r"(\*+|\{broker\})")


def is_pattern(text: str) -> bool:
    return _WILD.search(text) is not None


def matches(path: str, effects: Effects) -> list[Member]:
    """List the directories that match, whether or not they are stores."""
    if path.count(BROKER) > 1:
        raise UsageError(f"{path}: {BROKER} occurs twice; write * for the other")
    steps = path.split("/")
    wild = [number for number, step in enumerate(steps) if is_pattern(step)]
    named = next((number for number in wild if BROKER in steps[number]), wild[-1])
    found = [("", "")]  # a path, and the broker's name if it is known yet
    fixed: list[str] = []
    for number, step in enumerate(steps):
        if number not in wild:
            fixed.append(step)
            continue
        folders = [("/".join([above, *fixed] if above else fixed) or "/", broker) for above, broker in found]
        form = _form(step)
        found = [
            ("/".join([folder.rstrip("/"), name]), broker if number != named else _broker(form, name))
            for folder, broker in folders
            for name in sorted(effects.listdir(folder))
            if form.fullmatch(name) and name != OF_FILE_SYSTEM and effects.is_dir(os.path.join(folder, name))
        ]
        fixed = []
    return [Member("/".join([above, *fixed]), broker) for above, broker in found]


def _form(step: str) -> re.Pattern[str]:
    parts = (
        "(?P<broker>.+)" if part == BROKER else "(.*)" if part.startswith("*") else re.escape(part)
        for part in _WILD.split(step)
    )
    return re.compile(("" if step.startswith(".") else r"(?!\.)") + "".join(parts), re.DOTALL)


def _broker(form: re.Pattern[str], name: str) -> str:
    found = form.fullmatch(name)
    assert found is not None  # the caller has matched it
    return found["broker"] if "broker" in form.groupindex else found[form.groups]
