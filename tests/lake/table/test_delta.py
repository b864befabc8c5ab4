"""Delta tables: read by deltalake itself and by Polars; one transaction an export; remains of runs that died."""

import json
import sys

import polars
import pytest
from deltalake import DeltaTable

from flintmq.config.keys import StoreConfig
from flintmq.errors import MissingExtraError, StoreAccessError, UsageError
from flintmq.lake.export.export_once import export
from flintmq.lake.table.delta import DeltaTarget


def run(store, out, path=None, **named):
    return export(str(path or store.path), str(out), StoreConfig.from_keys(store.config), to="delta", **named)


def offsets(out):
    return sorted(DeltaTable(str(out)).to_pyarrow_table(columns=["physical_offset"])["physical_offset"].to_pylist())


@pytest.mark.parametrize("name", ["basic", "flags"])
def test_a_batch_export(golden, tmp_path, name):
    store = golden(name)
    done = run(store, tmp_path)
    want = sorted(row["physical_offset"] for row in store.live)
    assert offsets(tmp_path) == want and done.rows == len(want)
    table = DeltaTable(str(tmp_path))
    assert table.metadata().partition_columns == ["topic_name", "date"]
    assert table.transaction_version("flintmq-export") == 1 and len(table.file_uris()) == done.files
    rows = polars.scan_delta(str(tmp_path)).select("topic", "topic_name", "physical_offset").collect()
    assert sorted(rows["physical_offset"].to_list()) == want, "another reader finds the files, whatever their names"
    short = rows.filter(polars.col("topic").str.len_bytes() < 60)
    assert (short["topic"] == short["topic_name"]).all()
    version = table.version()
    assert run(store, tmp_path).rows == 0 and DeltaTable(str(tmp_path)).version() == version


def test_remains_of_a_run_that_died(golden, tmp_path, monkeypatch):
    """Files and a manifest without a transaction are no rows; the number is written anew."""
    store = golden("basic")
    with monkeypatch.context() as patched:
        patched.setattr(DeltaTable, "create_write_transaction", lambda *_, **__: 1 / 0)
        patched.setattr(DeltaTarget, "_newest_number", lambda _: 1)  # who dies takes nothing back
        with pytest.raises(ZeroDivisionError):
            run(store, tmp_path)
    assert offsets(tmp_path) == [] and list(tmp_path.glob("topic_name=*/**/*.parquet"))
    assert run(store, tmp_path).number == 1
    assert offsets(tmp_path) == sorted(row["physical_offset"] for row in store.live)


def test_the_manifest_is_lost(golden, tmp_path):
    run(golden("basic"), tmp_path)
    (tmp_path / "_flintmq" / "000001.json").unlink()
    with pytest.raises(StoreAccessError, match=r"000001\.json: not a readable manifest"):
        run(golden("basic"), tmp_path)


def test_kinds_do_not_mix(golden, tmp_path):
    store = golden("basic")
    export(str(store.path), str(tmp_path / "p"))
    with pytest.raises(UsageError, match="other things than exports"):
        run(store, tmp_path / "p")
    run(store, tmp_path / "d")
    with pytest.raises(UsageError, match="other things than exports"):
        export(str(store.path), str(tmp_path / "d"))
    with pytest.raises(UsageError, match="'csv' is not one of: parquet, delta"):
        export(str(store.path), str(tmp_path / "c"), to="csv")


def test_the_log_tells_of_rows(golden, tmp_path):
    run(golden("basic"), tmp_path)
    log = "\n".join(file.read_text() for file in sorted((tmp_path / "_delta_log").glob("*.json")))
    added = [entry["add"] for entry in map(json.loads, log.splitlines()) if "add" in entry]
    assert sum(json.loads(add["stats"])["numRecords"] for add in added) == 3000


@pytest.mark.parametrize("release", ["1.1.0", "1.5.1"])
def test_one_that_is_too_old_is_named_before_anything_is_written(golden, tmp_path, monkeypatch, release):
    """It would commit the rows without the number of their export, and the next export would refuse the table."""
    monkeypatch.setattr("deltalake.__version__", release)
    with pytest.raises(MissingExtraError, match=rf"needs deltalake 1\.6 or later: .* \(here is {release}\)$"):
        run(golden("basic"), tmp_path / "table")
    assert not list(tmp_path.rglob("*.parquet"))


def test_without_deltalake(golden, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'flintmq\[delta\]'"):
        run(golden("basic"), tmp_path)
