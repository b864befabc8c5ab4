"""Iceberg tables in catalogs that PyIceberg is configured for: REST and Glue; what is no catalog, in one line."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.utils.config import Config

from flintmq.errors import StoreAccessError, StoreError, UsageError
from flintmq.lake.files.table_folder import DiskFolder
from flintmq.lake.table.iceberg_catalog import TableName
from tests.lake.table.test_iceberg import Lake
from tests.support import iceberg_rest

NAME = "prod:lake.messages"
Configure = Callable[..., None]


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Configures PyIceberg's catalog `prod` as users do, by the environment."""

    def by_environment(**keys: str) -> None:
        for name, value in keys.items():
            monkeypatch.setenv(f"PYICEBERG_CATALOG__PROD__{name.upper()}", value)
        monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # it is read once, at the first import

    return by_environment


@pytest.fixture(params=["rest", "glue"])
def catalog(request: pytest.FixtureRequest, configure: Configure, tmp_path: Path) -> Iterator[Catalog]:
    """The catalog `prod`."""
    if request.param == "rest":
        (tmp_path / "served").mkdir()
        with iceberg_rest.running(tmp_path / "served") as (url, _):
            configure(type="rest", uri=url)
            yield load_catalog("prod")
        return
    moto = pytest.importorskip("moto", reason="moto is not installed")
    with moto.mock_aws():
        configure(type="glue", glue__region="us-east-1", glue__access_key_id="x", glue__secret_access_key="x")
        yield load_catalog("prod")


def test_an_export_goes_on_in_a_catalog_of_somebody_else(catalog: Catalog, tmp_path: Path) -> None:
    """Made, continued, rolled back and continued, with its files in the directory and no catalog there."""
    lake = Lake(tmp_path)
    for number in (1, 2):
        lake.put(3)
        assert lake.export(catalog=NAME).number == number
    assert lake.export(catalog=NAME).number == 0, "nothing new"
    assert not (lake.out / "catalog.db").exists()

    def bodies() -> list[int]:
        return sorted(map(int, catalog.load_table("lake.messages").scan().to_arrow()["body"].to_pylist()))

    assert bodies() == list(range(6))
    table = catalog.load_table("lake.messages")
    table.manage_snapshots().rollback_to_snapshot(table.history()[0].snapshot_id).commit()
    lake.put(1)
    assert lake.export(catalog=NAME, partition_by=("date",)).rows == 4
    assert bodies() == list(range(7))
    other = Lake(tmp_path / "other")
    other.put(1)
    with pytest.raises(UsageError, match="is not the directory of this Iceberg table: its files are in"):
        other.export(catalog=NAME)
    with pytest.raises(UsageError, match="but no Iceberg table"):
        lake.export()


def test_a_commit_of_somebody_else_is_seen_by_the_server(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rival's rows between the look and the commit: the server refuses it, one more look, one line."""
    (tmp_path / "served").mkdir()
    with iceberg_rest.running(tmp_path / "served") as (url, requests):
        configure(type="rest", uri=url)
        lake = Lake(tmp_path)
        lake.put(2)
        lake.export(catalog=NAME)
        real = DiskFolder.bring

        def with_a_rival(folder: DiskFolder, *args: Any) -> None:
            table = load_catalog("prod").load_table("lake.messages")
            with table.transaction() as change:
                change.append(table.scan(limit=1).to_arrow(), snapshot_properties={"flintmq-export": "2"})
                change.set_properties({"flintmq.export": "2"})
            real(folder, *args)

        monkeypatch.setattr(DiskFolder, "bring", with_a_rival)
        lake.put(2)
        with pytest.raises(StoreError, match="exported into, during this export; run it again"):
            lake.export(catalog=NAME)
        assert sum(request == "POST /v1/namespaces/lake/tables/messages" for request in requests) == 3


WRONG = {
    "no such catalog": ({}, "URI missing|cannot be opened"),
    "nobody there": ({"type": "rest", "uri": "http://127.0.0.1:9"}, "Failed to establish"),
    "no such type": ({"type": "csv"}, "csv"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_catalog_is_one_line(configure: Configure, tmp_path: Path, name: str) -> None:
    keys, text = WRONG[name]
    configure(**keys)
    lake = Lake(tmp_path)
    lake.put(1)
    with pytest.raises(StoreAccessError, match=text) as caught:
        lake.export(catalog=NAME)
    assert "\n" not in str(caught.value)
    assert not (lake.out / "_flintmq").exists()


@pytest.mark.parametrize(
    "text", ["prod", "prod:", "prod:messages", ":lake.messages", "prod:lake.", "a b:c.d", "s3://b/c"]
)
def test_names_of_another_form(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not NAME:NAMESPACE\.TABLE"):
        TableName.parse(text)


def test_a_namespace_may_have_levels() -> None:
    assert TableName.parse("prod:eu.lake.messages").identifier == ("eu", "lake", "messages")
    assert TableName.parse(None).identifier == ("flintmq", "messages")


def test_only_iceberg_has_catalogs(tmp_path: Path) -> None:
    from flintmq.lake.export.export_once import export

    lake = Lake(tmp_path)
    lake.put(1)
    for to in ("parquet", "delta"):
        with pytest.raises(UsageError, match="--catalog is for --to iceberg"):
            export(lake.store, str(lake.out), to=to, catalog=NAME)
