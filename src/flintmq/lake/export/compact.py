"""Combines small files of one export that have the same topic and date, up to a target size.

A task writes a file for each topic and date that it meets, so a log of many topics read by many tasks makes many small
files. If a target size is set, a second stage of tasks combines the small files of one export, in log order, before
readers see them. Files of other exports are never touched, because readers already have them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow.parquet as pq

from flintmq.config.text import check_choice
from flintmq.errors import UsageError
from flintmq.lake.files.task_folders import Attempt, TaskFolders
from flintmq.lake.shape.columns import ExportColumns
from flintmq.lake.shape.parquet import PARTITIONS, PartitionedWriter, WrittenFile, folder_of
from flintmq.lake.table.target import StagedFile
from flintmq.objects.object_file import readable

COMPRESSION = ("snappy", "zstd", "lz4", "gzip", "none")
ALL_PARTITIONS = (PARTITIONS, *((name,) for name in PARTITIONS), ())
TARGET_LEAST = 64 << 10
BATCH_ROWS = 8192
LOTS_PER_TASK = 2  # so that a slow one does not delay the others

RunTasks = Callable[[Callable[[Any], dict[str, Any]], Sequence[Any]], list[dict[str, Any]]]


@dataclass(frozen=True)
class FileOptions:
    """The options for writing files.

    `partition_by`: columns in which all rows of a file agree: some of PARTITIONS, in their order.
    """

    compression: str = "snappy"
    target_bytes: int | None = None  # approximate size of files; None: no limit
    shape: ExportColumns = field(default_factory=ExportColumns)
    partition_by: tuple[str, ...] = PARTITIONS
    dead_letters: bool = False  # whether rows whose bodies do not decode are also written into a file of their own

    def __post_init__(self) -> None:
        if self.partition_by not in ALL_PARTITIONS:
            raise UsageError(
                f"partition by {','.join(map(str, self.partition_by))[:60]!r} is not one of: "
                f"{'; '.join(','.join(some) or 'none' for some in ALL_PARTITIONS)}"
            )
        check_choice("compression", self.compression, COMPRESSION)
        if self.target_bytes is not None and self.target_bytes < TARGET_LEAST:
            raise UsageError(f"target file size {self.target_bytes} is too small; give 64KiB or more")

    @property
    def final(self) -> bool:
        """True if the files of tasks are those of the table: nothing combines or merges them."""
        return self.target_bytes is None and self.shape.changes is None

    def writer(self, attempt: Attempt) -> PartitionedWriter:
        changes = self.shape.changes
        return PartitionedWriter(
            attempt.folder,
            self.shape.schema() if changes is None else changes.staged(),
            self.compression,
            self.target_bytes if changes is None else None,
            self.partition_by,
            durable=not attempt.remote,
        )


def staged(file: WrittenFile, name: str) -> StagedFile:
    """Return a file that a task wrote.

    `name`: its final name without suffix: unique in an export, in log order.
    """
    place = os.path.join(folder_of(file.values), f"{name}.parquet")
    return StagedFile(file.path, place, file.size, file.rows, file.values, file.stats)


def parts_of(writer: PartitionedWriter, begin: str) -> list[StagedFile]:
    """Return the files of a closed writer; `begin` is the prefix of their names."""
    return [staged(file, f"{begin}-{os.path.basename(file.path).removesuffix('.part')}") for file in writer.files]


def combined(
    parts: Sequence[StagedFile], options: FileOptions, tasks: TaskFolders, parallel: int, run: RunTasks
) -> list[StagedFile]:
    target = None if options.shape.changes is not None else options.target_bytes
    bins = [] if target is None else together(parts, target)
    if not bins:
        return list(parts)
    lots = [lot for n in range(LOTS_PER_TASK * parallel) if (lot := bins[n :: LOTS_PER_TASK * parallel])]
    answers = run(partial(combine, tasks, options), lots)
    taken = {part.path for some in bins for part in some}
    return [part for part in parts if part.path not in taken] + [
        StagedFile(*part) for answer in answers for part in answer["files"]
    ]


def together(parts: Iterable[StagedFile], target: int) -> list[list[StagedFile]]:
    """Group files to combine: neighbours of a folder that have at most `target` bytes together."""
    folders: dict[str, list[list[StagedFile]]] = {}
    for part in sorted(parts, key=lambda part: part.name):
        bins = folders.setdefault(part.folder, [[]])
        if sum(one.size for one in bins[-1]) + part.size > target:
            bins.append([])
        bins[-1].append(part)
    return [some for bins in folders.values() for some in bins if len(some) > 1]


def combine(tasks: TaskFolders, options: FileOptions, lot: Sequence[Sequence[StagedFile]]) -> dict[str, Any]:
    """Run one task: write each group of files as one file in the attempt's own directory."""
    made: list[StagedFile] = []
    for some in lot:
        with tasks.attempt("combined") as attempt:
            with options.writer(attempt) as writer:
                for part in some:
                    with readable(part.path, tasks.s3) as source, pq.ParquetFile(source) as file:
                        for batch in file.iter_batches(BATCH_ROWS):
                            writer.write(batch)
                writer.close()
            assert sum(file.rows for file in writer.files) == sum(part.rows for part in some)  # readers lose nothing
            names = [some[0].name, *(f"{some[0].name}-{n}" for n in range(2, len(writer.files) + 1))]
            files = sorted(writer.files, key=lambda file: file.path)
            made += [staged(f, name)._replace(path=attempt.keep(f.path)) for f, name in zip(files, names, strict=True)]
    return {"files": made}
