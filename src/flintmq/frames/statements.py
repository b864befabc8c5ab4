"""Checks which statements of a question may answer, and which files they may touch.

Only the last statement's answer is given, so an earlier one that answers would be lost. A SELECT writes no file, so one
may read any. A question with another statement (COPY, EXPORT, ATTACH, SET of a file for a log, PREPARE of one of these)
is kept out of the stores by DuckDB itself: it may then touch only the files and directories that the question names in
quotes, and of these none in a store or above one. No text has to be understood for that, nor can a path be composed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from flintmq.config.keys import StoreConfig
from flintmq.config.releases import is_older
from flintmq.errors import FlintError, UsageError
from flintmq.storage.filesystem import REAL
from flintmq.storage.store_url import is_remote, outside_store
from flintmq.store.layout import directories

KEEPS_OUT = (1, 5)
"""The first version of DuckDB whose every statement keeps to the files that it may touch."""
ANSWERS = ("SELECT", "EXPLAIN", "MULTI")  # MULTI: a PIVOT
READS = ("SELECT", "LOAD")
BESIDE = (".wal", ".wal.checkpoint", ".checkpoint.wal", ".wal.recovery", ".recovery.wal", ".tmp")
"""Ends of the names of files that DuckDB keeps beside a database."""
DENIED = re.compile(r'Cannot access (?:file|directory) "(.{1,300}?)" - file system operations are disabled')

_QUOTED = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?P<text>(?:[^']|'')*)'|"(?P<name>(?:[^"]|"")*)"|\$(?P<tag>\w*)\$(?P<body>.*?)\$(?P=tag)\$""",
    re.DOTALL,
)


def refuse_lost_answers(statements: Iterable[Any]) -> None:
    """Check that only the last statement answers.

    Raises:
        UsageError: another one does.
    """
    kinds = [statement.type.name for statement in statements]
    early = next((number for number, kind in enumerate(kinds[:-1], 1) if kind in ANSWERS), None)
    if early is not None:
        raise UsageError(
            f"SQL: statement {early} of {len(kinds)} has an answer, and only that of the last one is given; ask one "
            "question at a time"
        )


def keep_out(
    connection: Any, statements: Iterable[Any], question: str, stores: Iterable[str], config: StoreConfig
) -> str:
    """Keep the statements out of the stores, if one of them may write a file.

    Args:
        connection: to DuckDB; the files that it may touch are restricted.
        statements: of the question.
        question: SQL.
        stores: paths of the stores.
        config: the keys that are known.

    Returns:
        The question without the statements that were run already.

    Raises:
        UsageError: this DuckDB cannot keep them out.
        Whatever loading an extension raises.
    """
    statements = list(statements)
    if all(statement.type.name in READS for statement in statements):
        return question
    loads = [statement for statement in statements if statement.type.name == "LOAD"]
    for statement in loads:  # a restricted connection loads none
        connection.execute(statement)
    places = sorted(_allowed(question, list(stores), config))
    files = [place + end for place in places for end in ("", *BESIDE)]
    files += [os.path.join(os.path.dirname(place), f"tmp_{os.path.basename(place)}") for place in places]
    _check_version(connection)
    connection.execute(f"set allowed_paths = {_list(files)}")
    connection.execute(f"set allowed_directories = {_list(places)}")
    connection.execute("set enable_external_access = false")
    if not loads:
        return question
    return ";\n".join(statement.query for statement in statements if statement.type.name != "LOAD")


def _check_version(connection: Any) -> None:
    """Refuse a DuckDB that does not keep each statement to the files that it may touch.

    Raises:
        UsageError: it is older than 1.5. Before 1.2 there are no such settings; 1.4 writes `profile_output` anywhere,
            and takes no relative path.
    """
    version = connection.execute("select version()").fetchone()[0]
    if is_older(version, KEEPS_OUT):
        raise UsageError(
            f"SQL: DuckDB {version} cannot keep such a statement out of the store; install duckdb 1.5 or newer"
        )


def _allowed(question: str, stores: list[str], config: StoreConfig) -> Iterator[str]:
    """Yield the paths in quotes that are neither in a store nor above one."""
    inside = [place for store in stores for place in _places(store, config)]
    for text in set(_quoted(question)):
        path = re.sub(r"^file:(//(localhost)?)?(?=/)", "", text)
        if not path or "\0" in path:
            continue
        if is_remote(path):
            path = re.split(r"[*?\[{]", path)[0]
            spellings = {path} if _is_outside(path, stores, config) else set()
        else:
            path = os.path.expanduser(path)
            wild = re.search(r"[*?\[{]", path)
            path = path if wild is None else os.path.dirname(path[: wild.start()]) or os.curdir
            spellings = {os.path.abspath(path), os.path.realpath(path)}
            if any(f"{place}/".startswith(f"{os.path.realpath(path).rstrip('/')}/") for place in inside):
                continue
            if not _is_outside(path, stores, config):
                continue
        yield from spellings


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
            outside_store(path, store, config, urls=True)
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
