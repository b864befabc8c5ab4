"""Adds data files to an Iceberg table.

PyIceberg's own `add_files` compares the schema of each file with the table's, and works out for each which columns have
statistics: 4 ms of processor time a file, while nothing else runs. The files of an export have one schema, which was
compared with the table's before the first of them was written; so here a file costs the reading of its footer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Transaction


def add_files(transaction: Transaction, places: Sequence[str], properties: Mapping[str, str]) -> None:
    """Add a snapshot with data files to a transaction; the table has all columns of the files.

    Args:
        transaction: the transaction.
        places: paths of files that the table does not have yet.
        properties: of the snapshot's summary.

    Raises:
        ValueError: the table has one of the files.
        OSError: a file cannot be read.
    """
    from pyiceberg.table import TableProperties

    table, metadata = transaction._table, transaction.table_metadata
    if metadata.current_snapshot() is not None:
        there = {task.file.file_path for task in table.scan().plan_files()}
        for place in places:
            if place in there:
                raise ValueError(f"the table has {place} already")
    if metadata.name_mapping() is None:  # the files name their columns, and do not number them
        mapping = metadata.schema().name_mapping.model_dump_json()
        transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
    files = data_files(table.io, metadata, places)
    # Merging is a setting of the table (lake/iceberg.py), which somebody may have changed.
    merges = metadata.properties.get(TableProperties.MANIFEST_MERGE_ENABLED, "false").lower() == "true"
    update = transaction.update_snapshot(snapshot_properties=dict(properties))
    with update.merge_append() if merges else update.fast_append() as snapshot:
        for file in files:
            snapshot.append_data_file(file)


def data_files(io: Any, metadata: Any, places: Sequence[str]) -> list[DataFile]:
    """Return the entries of a manifest for Parquet files, which have the columns of the table.

    Raises:
        OSError: a file cannot be read.
    """
    import pyarrow.parquet as pq
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

    schema, spec = metadata.schema(), metadata.spec()
    collected, ids = compute_statistics_plan(schema, metadata.properties), parquet_path_to_id_mapping(schema)
    found = []
    for place in places:
        file = io.new_input(place)
        with file.open() as stream:
            footer = pq.read_metadata(stream)
        statistics = data_file_statistics_from_parquet_metadata(
            parquet_metadata=footer, stats_columns=collected, parquet_column_mapping=ids
        )
        found.append(
            DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=place,
                file_format=FileFormat.PARQUET,
                partition=statistics.partition(spec, schema),
                file_size_in_bytes=len(file),
                sort_order_id=None,
                spec_id=metadata.default_spec_id,
                equality_ids=None,
                key_metadata=None,
                **statistics.to_serialized_dict(),
            )
        )
    return found
