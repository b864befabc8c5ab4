"""The same code on a cluster, with the store on object storage: all rows come, whoever reads them."""

from contextlib import nullcontext

import pyarrow.dataset
import pytest

import flintmq
from labs.spark_cluster import cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.turn(2)  # local-cluster on the days on which test_session.py asks none
@pytest.mark.parametrize("kind", ["standalone", "local-cluster"])
def test_batch_export_and_stream(golden, objects, tmp_path, kind):
    store = golden("basic")
    url = objects.put(store.path, f"cluster/{kind}")
    objects.requests()  # what others asked is forgotten
    here = flintmq.scan_arrow(store.path, cluster.COLUMNS.split(","), set=store.config).read_all().to_pylist()
    expected = sorted([*list(row.values())[:4], row["body"].hex()] for row in here)
    assert [row[0] for row in expected] == [row["physical_offset"] for row in store.rows]
    started = cluster.standalone(tmp_path) if kind == "standalone" else nullcontext(cluster.LOCAL_CLUSTER)
    with started as master:
        told = cluster.run(master, url, tmp_path, {**store.config, **objects.keys})
    assert told["batch"] == expected
    assert told["stream"] == expected
    assert told["processes"] == 2
    assert told["exported"] == len(expected)
    exported = pyarrow.dataset.dataset(tmp_path / "lake", partitioning=None).to_table(cluster.COLUMNS.split(","))
    assert sorted([*list(row.values())[:4], row["body"].hex()] for row in exported.to_pylist()) == expected
    assert {request.split()[0] for request in objects.requests()} <= {"GET", "HEAD", "PUT"}
