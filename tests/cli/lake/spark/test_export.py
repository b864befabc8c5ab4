"""`flintmq spark export`: what its options become. (More of it, beside the other jobs, in test_spark.py.)"""

import pytest

from flintmq.lake.export.export import Exported
from tests.cli.conftest import Run
from tests.cli.lake.spark.test_group import Calls, spark

__all__ = ["spark"]  # a fixture


@pytest.mark.parametrize("stream", [[], ["--follow", "--once"]])
def test_the_shape_of_rows_and_files(run: Run, spark: Calls, stream: list[str]) -> None:
    spark.answer = Exported(number=1, end=900, rows=30, files=3, bytes=2048, bad_bodies=4)
    words = ["--property", "region", "--property", "a:b", "--body", "json", "--body-schema", "id long"]
    words += ["--target-file-size", "128MiB", "--checkpoint", "copy"]
    result = run("spark", "export", "store", "--out", "lake", *words, *stream)
    assert result.code == 0
    assert "bodies   4 could not be converted; their bytes are in the column body_raw\n" in result.out
    [(_, given)] = spark.jobs
    assert given["properties"] == ["region", "a:b"] and given["target_file_size"] == 128 << 20
    assert (given["body"], given["body_schema"], given["checkpoint"]) == ("json", "id long", "copy")


@pytest.mark.parametrize(
    "words, message",
    [
        (
            ["--target-file-size", "12MB"],
            "--target-file-size: '12MB' is not a size; write bytes, or 64KiB, 128MiB, 1GiB",
        ),
        (["--target-file-size", "0"], "is not a size"),
        (["--body", "xml"], "xml"),
        (["--interval", "3"], "--once, --interval and --max-offsets are for --follow; an export without it ends at"),
        (["--once"], "are for --follow"),
        (["--max-offsets", "5"], "are for --follow"),
    ],
)
def test_what_is_refused(run: Run, spark: Calls, words: list[str], message: str) -> None:
    result = run("spark", "export", "store", "--out", "lake", *words)
    assert result.code == 2 and message in result.err and not spark.jobs
