"""A plan of the source that skips damage warns that the log's end is missing, as an export does."""

import pytest

from flintmq.errors import CorruptStoreError
from flintmq.testing import write_store
from tests.support.spark_reading import partitions


def test_a_plan_that_skips_damage_says_it(tmp_path, caplog):
    write_store(tmp_path / "store", 2000, commit_log_file_size=1 << 16)
    for file in sorted((tmp_path / "store" / "commitlog").iterdir())[-3:]:
        file.unlink()
    with pytest.raises(CorruptStoreError):
        partitions(tmp_path / "store")
    partitions(tmp_path / "store", failOnDataLoss="false")
    assert "the log's end is missing" in caplog.text
