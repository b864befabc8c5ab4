"""Tables on object storage: each row once, whoever dies, and whoever is faster."""

import os
import re
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.utils.config import Config

import flintmq
from flintmq.config.keys import StoreConfig
from flintmq.config.s3 import S3Options
from flintmq.errors import StoreAccessError, StoreError, UsageError
from flintmq.lake.export import export_once
from flintmq.lake.export.export_stream import export_stream
from flintmq.lake.history.diff_table import compare_table
from flintmq.objects.cloud import CloudBucket
from flintmq.objects.object_file import ObjectFile
from flintmq.objects.opening import bucket_of
from flintmq.testing import write_store
from tests.support.object_server import KEYS, running


@pytest.fixture(scope="module")
def server():
    with running() as server:
        yield server


def test_a_server_that_refuses_says_so(objects, tmp_path):
    """The error is the server's, not that of the look for a manifest which was not written."""
    write_store(tmp_path / "store", 3)
    config = StoreConfig().with_keys(objects.keys)  # nobody may write without keys there
    with pytest.raises(StoreAccessError, match="403 Forbidden"):
        export_once.export(str(tmp_path / "store"), "s3://stores/refused/lake", config, to="parquet")


@pytest.fixture
def url(server, monkeypatch, request, tmp_path):
    catalog = {"TYPE": "sql", "URI": f"sqlite:///{tmp_path}/catalog.db"}
    for name, value in {
        **KEYS,
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_REGION": "us-east-1",
        **{f"PYICEBERG_CATALOG__PROD__{key}": value for key, value in catalog.items()},
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # it is read once, at the first import
    return f"s3://stores/{abs(hash(request.node.name))}/lake"


def export(store, url, *args, to, **choices):
    return export_once.export(store, url, *args, to=to, **catalog(url, to), **choices)


def catalog(url, to):
    """The keyword that names the table of a URL in a catalog elsewhere."""
    name = re.sub("[^a-z0-9]", "_", url.removeprefix("s3://stores/"))
    return {"catalog": f"prod:lake.{name}"} if to == "iceberg" else {}


@pytest.fixture
def store(tmp_path):
    return made(tmp_path / "store", 300)


SMALL: dict[str, Any] = {"mappedFileSizeCommitLog": 1 << 18, "mappedFileSizeConsumeQueue": 2000}
TOPICS = ["Orders", "库存", "%DLQ%g"]


def made(root, messages):
    """A store with so many messages; one that is there gets as many as it lacks."""
    there = len(offsets(root)) if root.exists() else 0
    with flintmq.MessageStore(root, **SMALL) as store:
        for number in range(there, messages):
            assert store.put(flintmq.Message(TOPICS[number % 3], b"body %d" % number)).status.name == "PUT_OK"
    return root


def keys(url):
    bucket, key = bucket_of(url)
    return sorted(found.key.removeprefix(f"{key}/") for found in bucket.listed(key, True))


def rows(url, to):
    """Log offsets of all rows as a foreign reader finds them."""
    if to == "delta":
        from deltalake import DeltaTable

        options = {"aws_endpoint": os.environ["AWS_ENDPOINT_URL"], "allow_http": "true"}
        table = DeltaTable(url, storage_options=options).to_pyarrow_table()
        return sorted(table["physical_offset"].to_pylist())
    if to == "iceberg":
        from pyiceberg.catalog import load_catalog

        found = (
            load_catalog("prod", **{"s3.endpoint": os.environ["AWS_ENDPOINT_URL"]})
            .load_table(catalog(url, to)["catalog"].removeprefix("prod:"))
            .scan()
            .to_arrow()
        )
        return sorted(found["physical_offset"].to_pylist())
    bucket, key = bucket_of(url)
    found = []
    for one in bucket.listed(key, True):
        if one.key.endswith(".parquet") and "/_" not in one.key.removeprefix(key):
            with ObjectFile(bucket, one.key) as file:
                found += pq.ParquetFile(file).read(["physical_offset"])["physical_offset"].to_pylist()
    return sorted(found)


def offsets(store):
    return sorted(flintmq.scan_arrow(str(store), columns=["physical_offset"]).read_all()["physical_offset"].to_pylist())


def test_every_message_is_there_once_and_a_second_run_adds_what_is_new(url, tmp_path, to):
    store = made(tmp_path / "store", 300)
    first = export(store, url, to=to)
    assert (first.number, first.rows) == (1, 300)
    assert rows(url, to) == offsets(store)
    assert export(store, url, to=to).rows == 0
    grown = made(store, 500)
    second = export(grown, url, to=to)
    assert (second.number, second.rows) == (2, 200)
    assert rows(url, to) == offsets(grown)
    assert not [key for key in keys(url) if key.startswith("_staging")]


def test_a_stream_goes_on_there(url, tmp_path, to):
    first = export_stream(str(made(tmp_path / "store", 300)), url, to=to, once=True, **catalog(url, to), max_offsets=70)
    assert first.rows == 300 and first.number > 3
    grown = made(tmp_path / "store", 400)
    assert export_stream(str(grown), url, to=to, once=True, **catalog(url, to)).rows == 100
    assert rows(url, to) == offsets(grown)


def test_small_files_are_combined_there(url, store, to):
    done = export(store, url, to=to, target_file_size=1 << 20, partition_by=["topic_name"])
    assert done.files == 3
    assert rows(url, to) == offsets(store)


class Died(BaseException):
    """The process ended here."""


@pytest.mark.parametrize("call", ["put_file", "put_new", "copy", "put", "delete"])
@pytest.mark.parametrize("after", [False, True])
def test_a_run_that_dies_at_any_request_loses_and_doubles_nothing(url, store, monkeypatch, to, call, after):
    """Before and after each request in turn: then the next run makes the table whole."""
    real = getattr(CloudBucket, call)
    more = {"target_file_size": 1 << 20} if call == "copy" else {}  # combined files are staged in any format
    died = 0
    for survived in range(40):
        place, left = f"{url}-{survived}", iter(range(survived))

        def dying(self, *args, left=left, **more):
            if next(left, None) is not None:
                return real(self, *args, **more)
            if after:
                real(self, *args, **more)
            raise Died

        with monkeypatch.context() as patched:
            patched.setattr(CloudBucket, call, dying)
            try:
                export(store, place, to=to, **more)
            except Died:
                died += 1
                done = False
            else:
                done = True
        seen = rows(place, to) if to == "parquet" else []
        assert len(seen) == len(set(seen))
        export(store, place, to=to, **more)
        assert rows(place, to) == offsets(store)
        assert len([key for key in keys(place) if key.startswith("_staging")]) == 0 or not done
        if done:
            break
    else:
        pytest.fail(f"{call} is called more than 40 times")
    assert died or (to != "parquet" and call == "put")


def test_of_two_exports_at_once_one_wins_and_the_other_says_so(url, store, monkeypatch, to):
    """The second begins and ends while the first is about to publish."""
    real, inner = CloudBucket.put_new, []

    def late(self, key, data):
        if not inner:
            inner.append(None)
            inner.append(export(store, url, to=to))
        return real(self, key, data)

    monkeypatch.setattr(CloudBucket, "put_new", late)
    with pytest.raises(StoreError, match="another export into it was faster"):
        export(store, url, to=to)
    monkeypatch.undo()
    assert inner[1].rows == 300


def test_a_delta_commit_between_look_and_commit_is_noticed(url, tmp_path, monkeypatch):
    """The second commits after the first looked at the table for the last time."""
    from flintmq.lake.table.delta import DeltaTarget

    store = tmp_path / "grows"
    export(made(store, 100), url, to="delta")
    made(store, 300)
    real, inner = DeltaTarget._opened, []

    def late(self, *args, **named):
        table = real(self, *args, **named)
        if not inner:
            inner.append(None)
            inner.append(export(store, url, to="delta"))
        return table

    monkeypatch.setattr(DeltaTarget, "_opened", late)
    with pytest.raises(StoreError, match="another export into it was faster"):
        export(store, url, to="delta")
    assert inner[1].rows == 200
    assert rows(url, "delta") == offsets(store)


def test_a_slow_run_whose_number_was_passed_adds_nothing(url, tmp_path, monkeypatch):
    """It claimed its number, the next run took it for dead and made the next one; then it goes on."""
    from flintmq.lake.files.table_folder import BucketFolder

    store = tmp_path / "grows"
    export(made(store, 100), url, to="delta")
    made(store, 300)
    real, inner = BucketFolder.bring, []

    def slow(self, files):
        if not inner:
            inner.append(None)
            inner.append(export(store, url, to="delta"))
        return real(self, files)

    with monkeypatch.context() as patched:
        patched.setattr(BucketFolder, "bring", slow)
        with pytest.raises(StoreError, match="exported into, during this export; run it again"):
            export(store, url, to="delta")
    assert (inner[1].number, inner[1].rows) == (3, 200)
    assert rows(url, "delta") == offsets(store)
    assert export(store, url, to="delta").rows == 0


@pytest.mark.parametrize("to", ["parquet", "delta"])
def test_what_is_refused(url, store, tmp_path, to):
    bucket, key = bucket_of(url)
    bucket.put(f"{key}/mine.txt", b"")
    with pytest.raises(UsageError, match="holds other things than exports"):
        export(store, url, to=to)
    with pytest.raises(UsageError, match=r"give (a directory|one)"):
        export(store, f"{url}2", to=to, checkpoint=f"{url}3")
    export(store, f"{url}4", to=to)
    other = tmp_path / "other"
    write_store(str(other), messages=10, seed=2, commit_log_file_size=1 << 18)
    with pytest.raises(UsageError, match="another store"):
        export(other, f"{url}4", to=to)
    with pytest.raises(UsageError, match="give the same|with the same"):
        export(store, f"{url}4", to=to, partition_by=["date"])
    with pytest.raises(UsageError, match="holds a Delta table|holds .* but no Delta table|other things"):
        export(store, f"{url}4", to="parquet" if to == "delta" else "delta")


def test_a_server_that_is_away_is_told_in_one_line(store, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    from flintmq.config.keys import StoreConfig

    for to in ["parquet", "delta"]:
        with pytest.raises(StoreAccessError) as caught:
            export(store, "s3://stores/away", StoreConfig().with_keys({"s3.attempts": "1"}), to=to)
        assert "\n" not in str(caught.value) and "s3://stores/away" in str(caught.value)


def test_a_table_is_not_put_into_the_store_that_is_read(url, server, store):
    place = server.put(store, "inside")
    for out in (place, f"{place}/lake", f"{place}/commitlog"):
        with pytest.raises(UsageError, match="inside the store"):
            export(place, out, to="parquet")
    assert export(place, f"{place}-lake", to="parquet").rows == 300


def test_options_are_those_of_the_environment():
    assert S3Options().with_environment({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}).endpoint == "http://127.0.0.1:1"


def test_an_iceberg_table_there_needs_a_catalog_elsewhere(url, store):
    with pytest.raises(UsageError, match="give --catalog NAME:NAMESPACE.TABLE"):
        export_once.export(str(store), url, to="iceberg")
    assert keys(url) == []


def test_history_and_diff_read_it(url, tmp_path, to):
    store = made(tmp_path / "store", 100)
    export(store, url, to=to)
    made(store, 150)
    frame = flintmq.scan_arrow(str(store), history=url, columns=["physical_offset", "body"], **catalog(url, to))
    found = frame.read_all().sort_by("physical_offset")
    assert found["physical_offset"].to_pylist() == offsets(store)
    assert found["body"].to_pylist() == [b"body %d" % number for number in range(150)]
    compared = compare_table(str(store), url, **catalog(url, to))
    assert (compared.exit_code, compared.messages, compared.rows) == (0, 100, 100), compared


def test_an_answer_to_the_deciding_put_that_was_lost(url, store, monkeypatch):
    """The client tries again, and meets its own object."""
    real = CloudBucket.put_new

    def lost(self, key, data):
        assert real(self, key, data)
        return real(self, key, data)

    with monkeypatch.context() as patched:
        patched.setattr(CloudBucket, "put_new", lost)
        assert export(store, url, to="parquet").rows == 300
    assert rows(url, "parquet") == offsets(store)
    assert export(store, url, to="parquet").rows == 0


def test_errors_of_deltalake_are_one_line(url, store, monkeypatch):
    export(store, url, to="delta")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    from flintmq.lake.files.table_folder import folder_at
    from flintmq.lake.table.delta import DeltaTarget

    with pytest.raises(StoreAccessError, match="the Delta table cannot be read: ") as caught:
        DeltaTarget(folder_at(url, S3Options(attempts=1))).committed()
    assert all(character.isprintable() for character in str(caught.value))


@pytest.mark.parametrize("to", ["delta", "iceberg"])
def test_a_file_is_put_once_under_its_name_and_never_copied(url, store, server, to):
    server.requests()
    export(store, url, to=to)
    asked = [request for request in server.requests() if ".parquet" in request]
    names = [request.split()[1] for request in asked if request.startswith("PUT ") and "?" not in request]
    assert len(names) == len(set(names)) == 3, asked  # a copy is a PUT too
    assert [key for key in keys(url) if key.startswith("_staging")] == []
    assert rows(url, to) == offsets(store)


def test_a_run_that_dies_when_its_export_is_decided_leaves_its_files_to_the_next(url, store, monkeypatch):
    real = CloudBucket.put_new

    def dying(self, key, data):
        real(self, key, data)
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(CloudBucket, "put_new", dying)
        with pytest.raises(Died):
            export(store, url, to="parquet")
    assert any(key.startswith("_staging") for key in keys(url))
    assert export(store, url, to="parquet").rows == 0
    assert rows(url, "parquet") == offsets(store)
