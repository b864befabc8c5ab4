"""Messages as an Arrow table: the rows that a scan makes of the same records."""

import pyarrow as pa

import flintmq
from flintmq.arrow.schema import SCHEMA
from flintmq.frames.messages import table
from tests.compat.stores import Golden


def test_they_are_the_rows_of_a_scan(golden_store: Golden):
    with flintmq.open_store(golden_store.path) as view:
        found = table(view.messages(strict=False))
    scanned = flintmq.scan_arrow(golden_store.path, strict=False).read_all()
    assert found.schema == SCHEMA and found.equals(scanned)


def test_none_make_no_rows():
    assert table([], ["body"]).equals(pa.table({"body": pa.array([], pa.binary())}))
