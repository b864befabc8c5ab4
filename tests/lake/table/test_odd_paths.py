"""Tables below directories with odd names: what is written is read back, by history, a comparison and a replay."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from deltalake import DeltaTable

from flintmq import Message, dataset, scan_arrow
from flintmq.cli import app
from flintmq.config.s3 import S3Options
from flintmq.errors import UsageError
from flintmq.lake.files.table_folder import BucketFolder
from flintmq.lake.history.diff_table import compare_table
from flintmq.lake.table.delta import DeltaTarget
from flintmq.lake.table.table_rows import open_delta
from tests.support.engine import put_messages
from tests.support.exporting import Export, whole

PATHS = [
    "my lake", "käse/库存 e\u0301\u2028😀", "a#b?c", 'a"b{c}<>|`^', "a%b", "100%/a%4", "a=b/topic_name=T",
    "a&b+c'*:;,[]", "~/...", " a ",
]  # fmt: skip
TOPICS = ["T", "a%b", "%DLQ%g", "%41", "a%2541", "库存", "|x", "%RETRY%%25"]


def put(store: Path, body: bytes) -> None:
    put_messages(store, (Message(topic, body) for topic in TOPICS))


def topics(rows: Any) -> list[str]:
    found: list[str] = rows["topic"].to_pylist()
    return sorted(found)


@pytest.mark.turn(3, of=["src/flintmq/lake/"])
@pytest.mark.parametrize(
    ("name", "to"), [*((name, "delta") for name in PATHS), *(("-".join(PATHS), to) for to in ("parquet", "iceberg"))]
)
def test_what_is_written_is_read(tmp_path: Path, make: Export, name: str, to: str) -> None:
    store, out = tmp_path / "store", tmp_path / name / "t"
    put(store, b"first")
    assert make(store, out, to=to).rows == len(TOPICS)
    put(store, b"second")
    assert make(store, out, to=to).rows == len(TOPICS)
    put(store, b"third")
    assert topics(scan_arrow(store, history=out).read_all()) == sorted(3 * TOPICS)
    for topic in TOPICS:
        assert topics(scan_arrow(store, history=out, topics=topic).read_all()) == 3 * [topic]
    assert dataset(store, history=out).count_rows() == 3 * len(TOPICS)
    found = compare_table(str(store), str(out))
    assert (found.messages, found.rows, found.waiting, found.equal) == (2 * len(TOPICS), 2 * len(TOPICS), 8, True)
    assert [path.name for path in (tmp_path / name).iterdir()] == ["t"]


@pytest.mark.parametrize("name", ["my lake", "库#?%é"])
def test_after_others_wrote_the_files_anew(tmp_path: Path, make: Export, name: str) -> None:
    """deltalake names the directories of its own files in another way."""
    store, out = tmp_path / "store", tmp_path / name / "t"
    for body in (b"first", b"second"):
        put(store, body)
        make(store, out, to="delta", partition_by=("topic_name",))
    assert DeltaTable(str(out)).optimize.compact()["numFilesRemoved"] == 2 * len(TOPICS)
    assert topics(scan_arrow(store, history=out).read_all()) == sorted(2 * TOPICS)
    assert compare_table(str(store), str(out)).equal


def test_the_commands_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    put(Path("s"), b"first")
    assert app.run(["export", "s", "--to", "delta", "--out", "my lake/t"]) == 0
    assert app.run(["diff", "s", "my lake/t"]) == 0
    capfd.readouterr()
    asked = "select count(*) as n from messages"
    assert app.run(["sql", "s", asked, "--history", "my lake/t", "--format", "json"]) == 0
    assert capfd.readouterr().out.strip() == '{"n":8}'


MISREAD = ["a%41", "a%2Fb", "%%20", "a%e4%bd", "a\\b", "a\nb", "\x1f", "\x7f"]


@pytest.mark.parametrize("name", MISREAD)
def test_a_path_that_deltalake_takes_for_another_is_refused(tmp_path: Path, make: Export, name: str) -> None:
    """Also for those who read; and where there is a table at the path that deltalake would open."""
    store, out = tmp_path / "store", tmp_path / name / "t"
    put(store, b"first")
    for other in (unquote(name, errors="replace"), name.replace("\\", "/")):
        if other.isprintable() and other != name:
            make(store, tmp_path / other / "t", to="delta")
    said = "does not open a path with .* in it, or opens another one in its place; give a Delta table another path$"
    with pytest.raises(UsageError, match=said):
        make(store, out, to="delta")
    assert not (tmp_path / name).exists()
    make(store, tmp_path / "plain", to="delta")
    (tmp_path / name).mkdir()
    (tmp_path / "plain").rename(out)
    for read in (
        lambda: scan_arrow(store, history=out).read_all(),
        lambda: compare_table(str(store), str(out)),
        lambda: open_delta(str(out), S3Options()),
    ):
        with pytest.raises(UsageError, match=said):
            read()


def test_so_is_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """deltalake would put its log beside the table."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "k")
    for name in ("a%41", "a?b", "a#b", "a\nb"):
        with pytest.raises(UsageError, match="does not open a path with"):
            DeltaTarget(BucketFolder(f"s3://bucket/{name}/t", S3Options(region="r")))
    for name in ("a%", "a\\b", "a b", "库存"):
        DeltaTarget(BucketFolder(f"s3://bucket/{name}/t", S3Options(region="r")))


@pytest.mark.parametrize("name", [name for name in MISREAD if name.isprintable()])
def test_the_other_formats_take_them(tmp_path: Path, name: str) -> None:
    store = tmp_path / "store"
    put(store, b"first")
    for to in ("parquet", "iceberg"):
        whole(store, tmp_path / name / to, to=to)
        assert topics(scan_arrow(store, history=tmp_path / name / to).read_all()) == sorted(TOPICS)


@pytest.mark.parametrize("to", ["parquet", "delta"])
def test_it_is_replayed(tmp_path: Path, to: str) -> None:
    from flintmq.config.keys import StoreConfig
    from flintmq.spark.jobs.replay.source import open_source, rows_of
    from flintmq.store.commitlog.report import Report

    store, out = tmp_path / "store", tmp_path / "-".join(PATHS)
    put(store, b"first")
    whole(store, out, to=to)
    source = open_source(str(out), StoreConfig())
    read = [rows for chunk in source.chunks(0, 1 << 30) for rows in rows_of(source, chunk, Report())]
    assert sorted(topic for rows in read for topic in rows.column("topic").to_pylist()) == sorted(TOPICS)


NOT_UTF8 = os.fsdecode(b"x\xffy")


def test_a_path_that_is_not_utf8_is_refused_in_one_line(
    tmp_path: Path, make: Export, to: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Manifests, and the logs of tables, are UTF-8."""
    store, out = tmp_path / "store", tmp_path / NOT_UTF8 / "t"
    put(store, b"first")
    follow = [] if make is whole else ["--follow", "--once"]
    assert app.run(["export", str(store), "--to", to, "--out", str(out), *follow]) == 2
    said = "t: the path is not UTF-8, and the files of a table cannot name it; give another one"
    assert capfd.readouterr() == ("", f"flintmq: {tmp_path}/x\\xffy/{said}\n")
    assert not (tmp_path / NOT_UTF8).exists()
    make(store, tmp_path / "plain", to=to)
    (tmp_path / NOT_UTF8).mkdir()
    (tmp_path / "plain").rename(out)
    for command in (["diff", str(store), str(out)], ["sql", str(store), "select 1", "--history", str(out)]):
        assert app.run(command) == 2
        assert capfd.readouterr().err == f"flintmq: {tmp_path}/x\\xffy/{said}\n"


def test_a_store_whose_path_is_not_utf8(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Its rows are read; only where a column names it, it is refused."""
    for name in ("a", NOT_UTF8):
        put(tmp_path / name / "store", b"first")
    stores = f"{tmp_path}/{{broker}}/store"
    assert app.run(["sql", stores, "select count(*) as n from messages", "--json"]) == 0
    assert '"n":16' in capfd.readouterr().out
    said = "x\\xffy: not UTF-8, so the column broker cannot hold it; rename the directory, or leave the column out\n"
    for asked in ("select broker from messages", "select * from queues", "select count(distinct broker) from messages"):
        assert app.run(["sql", stores, asked]) == 2
        assert capfd.readouterr().err == f"flintmq: {said}"
    assert app.run(["export", stores, "--out", str(tmp_path / "out")]) == 2
    assert capfd.readouterr().err == f"flintmq: {said}"
    with pytest.raises(UsageError, match="the column store cannot hold it"):
        scan_arrow(stores, columns=["store"]).read_all()
