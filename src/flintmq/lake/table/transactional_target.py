"""Publishes exports into tables whose format commits: Delta and Iceberg.

    DIR/_flintmq/000001.json              the manifest of export 1
    DIR/_staging/, DIR/_flintmq.lock      as in a directory of Parquet exports

An export is two values: what the table must still be (`Requirements`), and what is added to it (`Actions`). One commit
applies them, and its order makes each message be there exactly once:

1. The manifest is durable first: the next run reads it for every number that the table has.
2. The files get their names, which are durable before the commit that refers to them.
3. One commit of the table adds the files, and the number of the export with them.

The table's number decides: files and manifests with a number that the table does not have are remains of a run that
died, and the next run uses that number again.

There is one exception: a table that was put back to an older state keeps the number of its newest export, but not its
rows. So each format looks for the export from which the present rows come; the next export begins where that one ended,
with a new number.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from flintmq.arrow.schema import FIRST_COLUMNS
from flintmq.errors import FlintError, StoreError, UsageError
from flintmq.lake.bodies.column import RAW
from flintmq.lake.files.table_folder import BucketFolder
from flintmq.lake.shape.changes import OFFSET
from flintmq.lake.table.target import Manifest, StagedFile, Target, encoded

if TYPE_CHECKING:
    import pyarrow as pa

ATTEMPTS = 5  # commits of an export while others, such as a compaction, change the table
Paths = frozenset[str] | None
T = TypeVar("T")  # a table as it was when it was loaded


@dataclass(frozen=True)
class Requirements:
    """Says what a table must still be when an export is committed.

    `table_id`: of a table that was dropped, or made again at its path, the numbers may be the same, and not the rows.
    None: there is no table.
    """

    newest: int = 0  # number of the newest export that it ever had; 0: none
    current: int = 0  # number of the export that its rows come from: an older one if the table was put back
    table_id: str | None = None


NO_TABLE = Requirements()


@dataclass(frozen=True)
class Actions:
    manifest: Manifest
    schema: pa.Schema
    files: Sequence[StagedFile]
    places: Sequence[str]  # of the files, below the table's directory
    old: Paths = None  # of the table's files, those whose place they take; None: they are added

    @property
    def partition_by(self) -> list[str]:
        return list(self.manifest.choice["partition_by"])


class TransactionalTarget(Target, Generic[T]):
    """A table of a format that commits; see Target.

    `claims_first`: whether the manifest is written before the table is looked at and made, or after that. Both are
    before the files.
    """

    kind: ClassVar[str]
    put_back: ClassVar[str]  # how the format says that a table has an older state again, in errors
    claims_first: ClassVar[bool]
    place: Callable[[int, str, str], str]
    _seen: Requirements  # by `last`, and by the publications since

    @abstractmethod
    def _table(self, version: int | None = None) -> T | None:
        """Load the table; None if there is none."""

    @abstractmethod
    def _version(self, table: T) -> int:
        """Return the version of the table."""

    @abstractmethod
    def _state(self, table: T) -> Requirements:
        """Return what the table is now.

        Raises StoreAccessError: nothing shows any more which export its rows come from.
        """

    @abstractmethod
    def _fields(self, table: T) -> Sequence[Any]:
        """Return name, type and nullability of each column of the table."""

    @abstractmethod
    def _wanted(self, schema: pa.Schema, partition_by: Sequence[str]) -> Sequence[Any]:
        """Return what `_fields` does of a table for these files."""

    @abstractmethod
    def _create(self, actions: Actions) -> tuple[T, Requirements]:
        """Make the table, without rows; return also what it is now."""

    @abstractmethod
    def _add(self, table: T, actions: Actions) -> None:
        """Add the files, the number, and new columns, to the table as it was loaded."""

    @abstractmethod
    def data(self) -> Mapping[str, Callable[[list[str]], pa.Table]]:
        """Return the files of the table as it is now, each with a function that reads columns of it."""

    @abstractmethod
    def columns(self) -> pa.Schema | None:
        """Return the columns of the table as it is now; None if there is none."""

    def given_again(self, names: Collection[str]) -> list[str]:
        """Return those of the table's and these names that another column had before."""
        return []

    @abstractmethod
    def _conflict(self) -> type[Exception]:
        """Return the error of `_add` where somebody else committed since the table was loaded."""

    @abstractmethod
    def _in_one_line(self) -> AbstractContextManager[None]:
        """Turn errors of the format's library during a commit into those of `publish`."""

    def _refuse_remains(self) -> None:
        """Raise UsageError if the directory has files of a table that is not there."""

    def _close(self) -> None:
        """Close what `_table` opened."""

    @contextmanager
    def _read(self, version: int | None = None) -> Iterator[T | None]:
        try:
            yield self._table(version)
        finally:
            self._close()

    def last(self) -> Manifest | None:
        table = self._table()
        self._seen = seen = NO_TABLE if table is None else self._state(table)
        if seen.current < seen.newest:
            self.notes["table_was_put_back"] = 1
        if isinstance(self.folder, BucketFolder) and table is not None:
            self.folder.sweep_lost(seen.newest)
        return self.manifest_of(seen.current) if seen.current else None

    def committed(self) -> tuple[Manifest | None, int]:
        with self._read() as table:
            if table is None:
                self._refuse_remains()
                return None, 0
            number = self._state(table).current
            return (self.manifest_of(number), self._version(table)) if number else (None, 0)

    def columns_at(self, version: int) -> frozenset[str]:
        with self._read(version) as table:
            return frozenset() if table is None else frozenset(field.name for field in self._fields(table))

    def number_after(self, last: Manifest | None) -> int:
        # Below a URL a run that died keeps the number that it claimed, as nobody knows that it is dead.
        return max(self._seen.newest, self.folder.claimed()) + 1

    def publish(self, manifest: Manifest, files: Sequence[StagedFile], schema: pa.Schema, old: Paths = None) -> None:
        """Publish an export by one commit; see Target.

        `old`: files of the table, by `data`, whose place the files take; None: they are added.
        """
        requirements, actions = self.prepare(manifest, files, schema)
        with self._in_one_line():
            self.commit(requirements, replace(actions, old=old))

    def prepare(
        self, manifest: Manifest, files: Sequence[StagedFile], schema: pa.Schema
    ) -> tuple[Requirements, Actions]:
        """Return what the table must still be, and what is added to it; nothing is written."""
        number = manifest.number
        assert number > self._seen.newest  # files have the number in their names, and no number is used twice
        places = [self.folder.final_place(f.path) or self.place(number, *os.path.split(f.place)) for f in files]
        assert len(set(places)) == len(files)  # one would replace another
        return self._seen, Actions(manifest, schema, files, places)

    def commit(self, requirements: Requirements, actions: Actions) -> None:
        """Apply the actions to the table, if it is what they require: see the head of the module."""
        number, manifest = actions.manifest.number, encoded(actions.manifest)
        # The manifest before the files, in both orders: a file whose name has the number is of an export that can be
        # read.
        if self.claims_first:
            self.folder.claim(number, manifest)
        table, requirements = self._opened(requirements, actions)
        if not self.claims_first:
            self.folder.claim(number, manifest)
        with self._taken_back(actions):
            # Names are durable before the commit: a table's log must not refer to what a power cut takes.
            self.folder.bring([(file.path, place) for file, place in zip(actions.files, actions.places, strict=True)])
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    self._add(table, actions)
                    break
                except self._conflict():
                    # Somebody else committed since the table was loaded: look again whose rows it has.
                    if attempt == ATTEMPTS:
                        raise
                    table, requirements = self._opened(requirements, actions)
        # The next micro-batch of this run requires the table as this one has left it.
        self._seen = replace(requirements, newest=number, current=number)

    def _opened(self, requirements: Requirements, actions: Actions) -> tuple[T, Requirements]:
        """Load the table again, or make it; return also what it must be from now on."""
        # Loaded anew: since the last look somebody may have put the table back, dropped it, or exported into it.
        table = self._table()
        if requirements != (NO_TABLE if table is None else self._state(table)):
            raise StoreError(
                f"{self.where} was {self.put_back}, made again, or exported into, during this export; run it again"
            )
        return self._create(actions) if table is None else (table, requirements)

    @contextmanager
    def _taken_back(self, actions: Actions) -> Iterator[None]:
        """Remove the files of an export from a disk if the block, which brings them, fails.

        Not those of an export that the table has, or may have: its commit may have succeeded before the error.
        """
        try:
            yield
        except BaseException:
            with suppress(FlintError, OSError):
                if not self.folder.remote and self._newest_number() < actions.manifest.number:
                    for place in actions.places:
                        (self.root / place).unlink(missing_ok=True)
            raise

    def _still_there(self, there: Collection[str], old: frozenset[str]) -> None:
        """Refuse to take files out of a table that are not in it any more."""
        if not old.issubset(there):
            raise StoreError(f"{self.where}: others wrote files of the table anew during this export; run it again")

    def _newest_number(self) -> int:
        """Return the number of the newest export that the table ever had, as it is now; 0 for none."""
        table = self._table()
        return 0 if table is None else self._state(table).newest

    def _missing(self, table: T, schema: pa.Schema, partition_by: Sequence[str]) -> list[Any]:
        """Return the fields that the table lacks: properties, and columns added to the schema later.

        A table of messages never lacks the first columns; one of changes may get any.
        """
        there = {field.name: field for field in self._fields(table)}
        wanted = {field.name: field for field in self._wanted(schema, partition_by)}
        missing = [field for name, field in wanted.items() if name not in there]
        always = () if OFFSET in schema.names else (*FIRST_COLUMNS, RAW, *partition_by)
        other = [field.name for field in missing if field.name in always]
        other += [name for name, field in wanted.items() if name in there and there[name].type != field.type]
        other += [name for name, field in there.items() if not field.nullable and name not in wanted]
        if other:
            raise UsageError(
                f"{self.where} is {self.kind} with other columns than this export ({', '.join(other[:3])}); "
                "give an empty directory"
            )
        return missing
