"""What a store's path means: a directory of this machine, or a URL of object storage.

Object storage is read through `flintmq.arrow.objects`, which is loaded by name when the first URL is met: this layer
knows no Arrow.
"""

from __future__ import annotations

import importlib
import os
import re
from urllib.parse import unquote, urlsplit

from flintmq.config_s3 import S3Options
from flintmq.config_text import short
from flintmq.errors import MissingExtraError, UsageError
from flintmq.storage.effects import REAL, Effects

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_OBJECT = re.compile(r"\w+://(?P<bucket>[A-Za-z0-9][A-Za-z0-9._-]{0,62})(?P<key>(/.*)?)", re.ASCII | re.DOTALL)
PREFIX = "s3://"


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a URL of object storage, as store_path gives it."""
    return os.fspath(path).startswith(PREFIX)


def store_path(path: str | os.PathLike[str]) -> str:
    """A store's path in one form: of `file:` URLs the path, of object storage `s3://BUCKET/KEY` (`s3a:` is the same).

    Raises:
        UsageError: a URL of another kind, or one without a bucket.
    """
    text = os.fspath(path)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return text
    kind = scheme[1].lower()
    parts = urlsplit(text)
    if kind == "file" and parts.netloc in ("", "localhost"):
        return unquote(parts.path)
    if kind not in ("s3", "s3a"):
        raise UsageError(f"{short(text)}: stores are read from directories, file:// and s3://; copy it to one of these")
    named = _OBJECT.fullmatch(text)
    if named is None:
        raise UsageError(f"{short(text)}: names no bucket; write s3://BUCKET/STORE")
    steps = [step for step in named["key"].split("/") if step]
    if any(step in (".", "..") for step in steps):
        raise UsageError(f"{short(text)}: . and .. mean nothing on object storage; write the whole key")
    return PREFIX + "/".join([named["bucket"], *steps])


def absolute(path: str | os.PathLike[str]) -> str:
    """store_path, with a directory's path made independent of where a process works."""
    text = store_path(path)
    return text if is_remote(text) else os.path.abspath(text)


def effects_for(path: str | os.PathLike[str], options: S3Options | None = None) -> Effects:
    """What reads a store: the real disk, or object storage.

    Args:
        path: of the store.
        options: how to reach object storage; the environment stands for what they leave open.

    Raises:
        UsageError: as store_path.
        MissingExtraError: a URL, and pyarrow is not installed.
    """
    if not is_remote(store_path(path)):
        return REAL
    try:
        objects = importlib.import_module("flintmq.arrow.objects")
    except ImportError as error:
        raise MissingExtraError(
            f"{os.fspath(path)}: reading object storage needs pyarrow; `pip install flintmq[arrow]` brings it"
        ) from error
    effects: Effects = objects.ObjectStore((options or S3Options()).with_environment())
    return effects


def local_only(path: str | os.PathLike[str]) -> str:
    """The path of a directory that is written to.

    Raises:
        UsageError: it is a URL of object storage, where FlintMQ writes nothing.
    """
    text = store_path(path)
    if is_remote(text):
        raise UsageError(
            f"{short(text)}: FlintMQ writes to directories only; give one, and copy it there afterwards "
            "(`aws s3 sync DIR URL`)"
        )
    return text
