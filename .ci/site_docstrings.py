"""Rewrites docstrings as griffe can read them, which writes the reference of the site.

Where parameters share a line (`begin, end: bytes of the log`) each gets its own. The signature that a compiled class
carries in its docstring (it ends with `--`) goes.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

SHARED = re.compile(r"^( +)((?:\w+, )+\w+): (.*(?:\n\1 .*)*)", re.MULTILINE)
SIGNATURE = re.compile(r"\A\w+\(.*?\)\n--\n\s*", re.DOTALL)


def readable(text: str) -> str:
    """Rewrite a docstring so that griffe finds each parameter."""
    text = SIGNATURE.sub("", text)
    return SHARED.sub(
        lambda shared: "\n".join(f"{shared[1]}{name}: {shared[3]}" for name in shared[2].split(", ")), text
    )


class Readable(griffe.Extension):
    """Rewrites each docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value)
