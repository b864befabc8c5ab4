"""Directories of attempts: no two share a name."""

from pathlib import Path

import pytest

from flintmq.lake.files import task_folders
from flintmq.lake.files.task_folders import FinalNames, TaskFolders


def test_two_attempts_at_a_task_keep_their_files_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is slow must not replace a file that an export has named already."""
    put = []

    class Bucket:
        def put_file(self, key: str, path: str) -> None:
            put.append(key)

    monkeypatch.setattr(task_folders, "bucket_of", lambda url, s3: (Bucket(), url))
    final = FinalNames("s3://b/table", 1, lambda number, folder, name: f"export={number}/{folder}/{name}")
    tasks = TaskFolders("s3://b/table/_staging/000001-x", final=final)
    kept = []
    for _ in range(2):
        with tasks.attempt("00000-0000000000000000") as attempt:
            kept.append(attempt.keep(str(tmp_path / "000001.part"), "date=x", "00000-000001.parquet"))
    assert kept == put and kept[0] != kept[1]
    assert all(url.startswith("s3://b/table/export=1/date=x/") for url in kept)
