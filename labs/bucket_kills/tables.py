"""Reads tables on object storage without FlintMQ."""

from __future__ import annotations

import os


def _arrow_filesystem():
    from pyarrow.fs import S3FileSystem

    host = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
    return S3FileSystem(access_key="test", secret_key="test", endpoint_override=host, scheme="http", region="us-east-1")


def table(url: str, to: str, name: str, columns: list[str]):
    """The rows of a table in moto's server: by a listing of its files, by deltalake, by PyIceberg (catalog `prod`)."""
    if to == "delta":
        from deltalake import DeltaTable

        options = {"aws_endpoint": os.environ["AWS_ENDPOINT_URL"], "allow_http": "true"}
        return DeltaTable(url, storage_options=options).to_pyarrow_table(columns=columns)
    if to == "iceberg":
        from pyiceberg.catalog import load_catalog

        known = {"s3.endpoint": os.environ["AWS_ENDPOINT_URL"], "s3.region": "us-east-1"}
        if "PYICEBERG_CATALOG__PROD__URI" in os.environ:
            known |= {"type": "sql", "uri": os.environ["PYICEBERG_CATALOG__PROD__URI"]}
        return load_catalog("prod", **known).load_table(name).scan(selected_fields=tuple(columns)).to_arrow()
    import pyarrow.dataset as dataset

    # As any reader does: names that begin with _ are left out.
    return dataset.dataset(url.removeprefix("s3://"), filesystem=_arrow_filesystem(), format="parquet").to_table(
        columns
    )


def bodies(url: str, to: str, name: str) -> list[bytes]:
    """The bodies of all rows."""
    return table(url, to, name, ["body"])["body"].to_pylist()
