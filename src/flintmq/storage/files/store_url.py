"""Resolves a store's path: a directory of this machine, or a URL of object storage.

Object storage is read through `flintmq.objects`, which is imported by name when the first URL is met: this layer must
not depend on its libraries.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from flintmq.config.keys import StoreConfig
from flintmq.config.s3 import S3Options
from flintmq.config.text import short
from flintmq.errors import MissingExtraError, UsageError
from flintmq.storage.files.filesystem import REAL, Effects

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_BUCKET = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_HOST = r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}"


class StorageKind(NamedTuple):
    bucket: str  # pattern of the part between `://` and the key
    example: str


KINDS = {
    "s3": StorageKind(_BUCKET, "s3://BUCKET/STORE"),
    "gs": StorageKind(_BUCKET, "gs://BUCKET/STORE"),
    "abfs": StorageKind(
        rf"{_BUCKET}@[a-z0-9]{{3,24}}\.(dfs|blob)\.[A-Za-z0-9.-]+",
        "abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/STORE",
    ),
    "hdfs": StorageKind(rf"{_HOST}(:[0-9]{{1,5}})?", "hdfs://HOST:PORT/STORE"),
    "oss": StorageKind(_BUCKET, "oss://BUCKET/STORE"),
}
"""Scheme -> kind."""
_SAME = {"s3a": "s3", "abfss": "abfs"}
_REMOTE = tuple(f"{kind}://" for kind in KINDS)
FOLDERS = (
    "commitlog",
    "consumequeue",
    "consumequeue_ext",
    "batchconsumequeue",
    "index",
    "config",
    "timerlog",
    "compaction",
    "quarantine",
)
"""Directories in a store's root. The target of a link in their place belongs to the store."""
_BESIDE_LOG = ("checkpoint", "config", "consumequeue")


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a URL of object storage, in the form of store_path."""
    return os.fspath(path).startswith(_REMOTE)


def is_utf8(path: str) -> bool:
    """Return whether a path is UTF-8; columns and manifests cannot hold another one."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def path_text(path: str | os.PathLike[str]) -> str:
    """Return a path as text.

    Raises UsageError: it is empty, which would be the current directory; or is in bytes.
    """
    text: object = os.fspath(path)
    if not isinstance(text, str):
        raise UsageError(f"{short(repr(text))[1:-1]}: a path in bytes; give text, such as os.fsdecode(path)")
    if not text:
        raise UsageError("the path is empty; give a directory, which is '.' for the current one")
    return text


def store_path(path: str | os.PathLike[str]) -> str:
    """Normalise a store's path: a directory, or a URL of object storage.

    A `file:` URL becomes its path; a URL of object storage has the form `SCHEME://BUCKET/KEY`.
    The scheme `s3a:` is the same as `s3:`, and `abfss:` as `abfs:`. The bucket is
    `CONTAINER@ACCOUNT.dfs.core.windows.net` on Azure, and `HOST:PORT` of the name node on HDFS.
    """
    text = path_text(path)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return text
    kind = scheme[1].lower()
    if kind == "file":
        parts = urlsplit(text)
        if parts.netloc in ("", "localhost"):
            return path_text(unquote(parts.path))
    kind = _SAME.get(kind, kind)
    if kind not in KINDS:
        known = ", ".join(_REMOTE)
        raise UsageError(f"{short(text)}: stores are read from directories, file://, {known}; copy it to one of these")
    named = re.fullmatch(rf"://(?P<bucket>{KINDS[kind].bucket})(?P<key>(/.*)?)", text[len(scheme[1]) :], re.DOTALL)
    if named is None:
        raise UsageError(f"{short(text)}: names no bucket; write {KINDS[kind].example}")
    steps = [step for step in named["key"].split("/") if step]
    if any(step in (".", "..") for step in steps):
        raise UsageError(f"{short(text)}: . and .. mean nothing on object storage; write the whole key")
    return f"{kind}://" + "/".join([named["bucket"], *steps])


def absolute(path: str | os.PathLike[str]) -> str:
    """Normalise a store's path as store_path does, and make a directory's path absolute."""
    text = store_path(path)
    return text if is_remote(text) else os.path.abspath(text)


def effects_for(path: str | os.PathLike[str], options: S3Options | None = None) -> Effects:
    """Return the Effects that read a store: the real disk, or object storage.

    `options`: how to reach object storage; the environment supplies missing options.
    """
    url = store_path(path)
    if not is_remote(url):
        return REAL
    try:
        if not url.startswith("hdfs:"):
            importlib.import_module("obstore")
        objects = importlib.import_module("flintmq.objects.object_store")
    except ImportError as error:
        raise MissingExtraError(
            f"{os.fspath(path)}: reading object storage needs obstore; `pip install 'flintmq[objects]'` brings it"
        ) from error
    effects: Effects = objects.ObjectStore((options or S3Options()).with_environment())
    return effects


def local_only(path: str | os.PathLike[str]) -> str:
    text = store_path(path)
    if is_remote(text):
        raise UsageError(
            f"{short(text)}: this writes to directories only; give one, and copy it there afterwards "
            "(`aws s3 sync DIR URL`)"
        )
    return text


def check_out(
    out: str, root: str, config: StoreConfig | None = None, begins: tuple[bytes, ...] = (), kind: str = "file"
) -> None:
    """Refuse the file that a command is to write, before its work.

    It may be new, or one that the command wrote before: a regular file that begins so. Anything else that is there, a
    device or a pipe above all, would be gone.

    Raises:
        UsageError: it is in the store, something else is there, or its directory is not.
        OSError: what is there cannot be read.
    """
    outside_store(out, root, config)
    path = os.path.realpath(out)
    if os.path.isdir(path):
        raise UsageError(f"{out} is a directory; give the name of a file in it")
    if os.path.lexists(out):
        if not begins:
            raise UsageError(f"{out} exists; remove it or give another name")
        if not os.path.isfile(path) or not _begins(path, begins):
            raise UsageError(f"{out} exists and is not a {kind} of this command; remove it or give another name")
    elif not os.path.isdir(os.path.dirname(path)):
        raise UsageError(f"{os.path.dirname(path)} is not a directory; make it first, or give another --out")


def _begins(path: str, begins: tuple[bytes, ...]) -> bool:
    with open(path, "rb") as file:
        return file.read(max(map(len, begins))).startswith(begins)


def outside_store(
    target: str | os.PathLike[str],
    root: str | os.PathLike[str],
    config: StoreConfig | None = None,
    *,
    root_itself: bool = False,
    urls: bool = False,
) -> str:
    """Refuse a target inside the store that is read: no command writes in its source.

    To the store belong its root, the targets of links among the root's directories, and the directories in
    `storePathCommitLog` and `readOnlyCommitLogStorePaths`. Links, `..` and relative paths are followed, and directories
    are compared by device and inode, not by name: neither another spelling nor a mount hides one.

    `root_itself`: the root itself may be the target, though nothing below it.
    """
    path, source = store_path(target) if urls else local_only(target), store_path(root)
    if is_remote(path) and f"{path}/".startswith(f"{source.rstrip('/')}/"):
        raise UsageError(f"{path} is inside the store, where this command writes nothing; give another place")
    if is_remote(source) or is_remote(path):
        return path
    config = config or StoreConfig()
    places = [identity(place) for place in _places(source, config)]
    taken = {place for place in places if place is not None}
    # A link may be replaced in its own directory, or be followed when it is written to: check both places.
    folder, name = os.path.split(os.path.abspath(path))
    beside = os.path.join(os.path.realpath(folder), name)
    for real in {os.path.realpath(path), beside}:
        own = root_itself and identity(real) == identity(os.path.realpath(source))
        if not own and any(identity(above) in taken for above in _upward(real)):
            raise UsageError(f"{path} is inside the store, where this command writes nothing; give another place")
    return path


def _places(root: str, config: StoreConfig) -> Iterator[str]:
    yield os.path.realpath(root)
    for name in FOLDERS:
        yield os.path.realpath(os.path.join(root, name))
    logs = f"{config.store_path_commit_log},{config.read_only_commit_log_store_paths}".split(",")
    yield from (os.path.realpath(path.strip()) for path in logs if path.strip())
    # A directory that only holds links to a store's log counts as that store.
    parent = os.path.dirname(os.path.realpath(os.path.join(root, "commitlog")))
    if any(os.path.lexists(os.path.join(parent, name)) for name in _BESIDE_LOG):
        yield parent


def identity(path: str) -> tuple[int, int] | None:
    """Return device and inode of a directory; None if there is none, or on object storage."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _upward(path: str) -> Iterator[str]:
    yield path
    while (above := os.path.dirname(path)) != path:
        path = above
        yield path
