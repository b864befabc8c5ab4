"""Keeps questions to the files that they name, and checks which statement answers.

The type of a statement says nothing of its effect: table functions write (`enable_logging`), a WITH hides them, and a
later DuckDB has more of them. So DuckDB itself is closed for every question, before anything of it is bound: it may
touch only the files and directories that the question names in quotes, and of these none in a store or above one; it
loads no extension, whose code asks nobody; its settings are locked. No text has to be understood for that, nor can a
path be composed. Settings that touch no file may be made before the lock, by the first statements.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import Any

from flintmq.config.keys import StoreConfig
from flintmq.config.releases import is_older
from flintmq.errors import FlintError, UsageError
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.store_url import is_remote, outside_store
from flintmq.store.layout import directories

KEEPS_OUT = (1, 5)
"""The first version of DuckDB whose every statement keeps to the files that it may touch."""
LOCKS_LOG = (2, 0)
"""The first version whose log is a setting; an earlier one starts it by a function, and aborts if it may not write."""
ANSWERS = ("SELECT", "EXPLAIN", "MULTI")  # MULTI: a PIVOT
FREE = (
    *("threads", "memory_limit", "timezone", "preserve_insertion_order", "integer_division", "pivot_limit"),
    *("default_null_order", "default_order", "default_collation"),
)
"""Settings that a question may begin with: they change how DuckDB computes, and touch no file."""
BESIDE = (".wal", ".wal.checkpoint", ".checkpoint.wal", ".wal.recovery", ".recovery.wal", ".tmp")
"""Ends of the names of files that DuckDB keeps beside a database."""
LOCKED = re.compile(r'configuration option "(.{1,60}?)" - the configuration has been locked')
DENIED = re.compile(r'Cannot access (?:file|directory) "(.{1,300}?)" - file system operations are disabled')

_QUOTED = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?P<text>(?:[^']|'')*)'|"(?P<name>(?:[^"]|"")*)"|\$(?P<tag>\w*)\$(?P<body>.*?)\$(?P=tag)\$""",
    re.DOTALL,
)
_SETTING = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*set\s+(?:global\s+)?(\w+)\s*(?:=|\bto\b)", re.DOTALL | re.IGNORECASE
)


def refuse_lost_answers(statements: Iterable[Any]) -> None:
    """Check that only the last statement answers.

    Raises:
        UsageError: another one does.
    """
    kinds = [_kind(statement) for statement in statements]
    early = next((number for number, kind in enumerate(kinds[:-1], 1) if kind in ANSWERS), None)
    if early is not None:
        raise UsageError(
            f"SQL: statement {early} of {len(kinds)} has an answer, and only that of the last one is given; ask one "
            "question at a time"
        )


def _kind(statement: Any) -> str:
    try:
        return str(statement.type.name)
    except ValueError:  # a type that DuckDB has and its Python does not name
        return ""


def close(connection: Any, statements: Iterable[Any], question: str, stores: Iterable[str], config: StoreConfig) -> str:
    """Keep the connection to the files that the question names.

    Args:
        connection: to DuckDB; what it may touch and set is restricted.
        statements: of the question.
        question: SQL.
        stores: paths of the stores.
        config: the keys that are known.

    Returns:
        The question without the settings that it began with, which are made.

    Raises:
        UsageError: this DuckDB cannot be closed.
        Whatever a setting raises.
    """
    _check_version(connection, question)
    rest = list(statements)
    new = any(_kind(statement) != "SELECT" for statement in rest)
    places = sorted(set(_allowed(question, list(stores), config, new)))
    files = [place + end for place in places for end in ("", *BESIDE)]
    files += [os.path.join(os.path.dirname(place), f"tmp_{os.path.basename(place)}") for place in places]
    connection.execute(f"set allowed_paths = {_list(files)}")
    connection.execute(f"set allowed_directories = {_list(places)}")
    connection.execute("set enable_external_access = false")
    while rest and (setting := _SETTING.match(rest[0].query)) and setting[1].lower() in FREE:
        connection.execute(rest.pop(0))
    connection.execute("set lock_configuration = true")
    return ";\n".join(statement.query for statement in rest)


def _check_version(connection: Any, question: str) -> None:
    """Refuse a DuckDB that does not keep each statement to the files that it may touch.

    Raises:
        UsageError: it is older than 1.5. Before 1.2 there are no such settings; 1.4 writes `profile_output` anywhere,
            and takes no relative path. Or it is older than 2.0 and would start a log.
    """
    version = connection.execute("select version()").fetchone()[0]
    if is_older(version, KEEPS_OUT):
        raise UsageError(f"SQL: DuckDB {version} cannot be kept out of the store; install duckdb 1.5 or newer")
    if is_older(version, LOCKS_LOG) and "enable_logging" in question.casefold():
        raise UsageError(f"SQL: DuckDB {version} cannot be kept from a log; leave out enable_logging")


def _allowed(question: str, stores: list[str], config: StoreConfig, new: bool) -> Iterator[str]:
    """Yield the local paths in quotes that are neither in a store nor above one.

    Those of new files only if `new`.

    Instead of a pattern it is the directory that it begins with; or the files that match, if this one is above a store.
    """
    inside = [f"{place}/" for store in stores for place in _places(store, config)]
    outside = cache(partial(_is_outside, stores=stores, config=config))

    def above(path: str) -> bool:
        return any(place.startswith(f"{os.path.realpath(path).rstrip('/')}/") for place in inside)

    for text in set(_quoted(question)):
        path = os.path.expanduser(re.sub(r"^file:(//(localhost)?)?(?=/)", "", text))
        if not path or "\0" in path or is_remote(path):
            continue
        named = [path] if new or os.path.lexists(path) else []  # thousands of texts may be no paths
        if wild := re.search(r"[*?\[{]", path):
            folder = os.path.dirname(path[: wild.start()]) or os.curdir
            named = [path, *glob.iglob(path)] if above(folder) else [folder]
        for place in named:
            known = place if os.path.lexists(place) else os.path.dirname(os.path.abspath(place))
            if not above(place) and outside(known):
                yield from (os.path.abspath(place), os.path.realpath(place))


def _quoted(question: str) -> Iterator[str]:
    """Yield what a question has in quotes of any kind, outside its comments."""
    for found in _QUOTED.finditer(question):
        if found["text"] is not None:
            yield found["text"].replace("''", "'")
        elif found["name"] is not None:
            yield found["name"].replace('""', '"')
        elif found["body"] is not None:
            yield found["body"]


def _is_outside(path: str, stores: list[str], config: StoreConfig) -> bool:
    try:
        for store in stores:
            outside_store(path, store, config)
    except (FlintError, OSError, ValueError):  # also what is no path at all
        return False
    return True


def _places(store: str, config: StoreConfig) -> Iterator[str]:
    """Yield the real paths of a store's directory, of those in it, and of those of its log."""
    if is_remote(store):
        return
    logs = [place.path for place in directories.log_directories(store, config, REAL)]
    for place in (store, *(os.path.join(store, name) for name in REAL.listdir(store)), *logs):
        yield os.path.realpath(place)


def _list(texts: Iterable[str]) -> str:
    return "[" + ", ".join("'" + text.replace("'", "''") + "'" for text in texts) + "]"
