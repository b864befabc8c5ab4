"""Files of a size: what goes together, in which order, and that large ones are split."""

import random

import pyarrow.parquet as pq
import pytest

from flintmq.config.s3 import S3Options
from flintmq.errors import UsageError
from flintmq.lake.export.compact import FileOptions, combined, parts_of, together
from flintmq.lake.files.task_folders import Attempt, TaskFolders
from flintmq.lake.shape import parquet
from flintmq.lake.table.target import StagedFile
from tests.lake.shape.test_parquet import batch


def part(folder, size, name):
    return StagedFile(f"/{folder}/{name}", f"date={folder}/{name}.parquet", size, 1, [["date", folder]], {})


def test_neighbours_of_a_folder_up_to_the_size():
    parts = [part("a", 40, "3"), part("a", 50, "1"), part("b", 10, "1"), part("a", 20, "2"), part("a", 200, "4"),
             part("a", 60, "5"), part("b", 90, "2"), part("b", 1, "3")]  # fmt: skip
    found = [(some[0].folder, [one.name for one in some]) for some in together(parts, 100)]
    assert found == [("date=a", ["1", "2"]), ("date=b", ["1", "2"])]
    assert together(parts, 110) == [
        [parts[1], parts[3], parts[0]],
        [parts[2], parts[6], parts[7]],
    ]


def written(folder, rows, options, begin):
    folder.mkdir()
    writer = options.writer(Attempt(str(folder), str(folder), S3Options()))
    for at in range(0, len(rows), 50):
        writer.write(batch(rows[at : at + 50]))
    writer.close()
    return parts_of(writer, begin)


def test_the_files_of_many_tasks_become_few(tmp_path):
    options = FileOptions(target_bytes=1 << 20)
    rows = [(f"T{n % 3}", 1, n, b"%d" % n) for n in range(3000)]
    parts = [
        p for k in range(10) for p in written(tmp_path / f"t{k}", rows[300 * k : 300 * k + 300], options, f"{k:03}")
    ]
    assert len(parts) == 30
    calls = []

    def run(function, items):
        calls.append(len(items))
        return [(function(item), function(item))[1] for item in items]  # an attempt may be doubled

    found = combined(parts, options, TaskFolders(str(tmp_path)), 2, run)
    assert sorted((p.folder[-17], p.rows, p.name) for p in found) == [
        (f"{k}", 1000, "000-" + n) for k, n in names(parts)
    ]
    assert calls == [3]
    for one in found:
        kept = pq.read_table(one.path)["queue_offset"].to_pylist()
        assert kept == list(range(int(one.folder.split("/")[0][-1]), 3000, 3)), "in log order"
    assert combined(parts, FileOptions(), TaskFolders(str(tmp_path)), 2, run) == parts, "no size, nothing to do"


def names(parts):
    return sorted((p.folder.split("/")[0][-1], p.name[4:]) for p in parts if p.name.startswith("000"))


def test_a_large_file_is_split(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 100_000)
    chance, target = random.Random(1), 400_000
    rows = [("T", 1, n, chance.randbytes(1000)) for n in range(4000)]
    parts = written(tmp_path / "t", rows, FileOptions("none", target), "000")
    assert sum(p.rows for p in parts) == 4000 and len({p.name for p in parts}) == len(parts)
    sizes = sorted(p.size for p in parts)
    assert len(parts) in range(9, 13) and sizes[-1] < 1.2 * target and sizes[1] > 0.7 * target, sizes
    read = [n for p in sorted(parts, key=lambda p: p.name) for n in pq.read_table(p.path)["queue_offset"].to_pylist()]
    assert read == list(range(4000))


def test_what_is_refused():
    with pytest.raises(UsageError, match="65535 is too small; give 64KiB"):
        FileOptions(target_bytes=65535)
    with pytest.raises(UsageError, match="'zip' is not one of: snappy"):
        FileOptions("zip")
