"""Replay: every message once and in order, whatever it comes from, fails or runs twice."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError, UsageError
from flintmq.forensics.verify.run import verify
from flintmq.lake.export import export_once
from flintmq.message import Message
from flintmq.spark.jobs.export.job import export
from flintmq.spark.jobs.replay import job
from flintmq.spark.jobs.replay.exactly_once import WriterIds
from flintmq.spark.jobs.replay.job import replay
from flintmq.spark.jobs.stats.job import stats
from flintmq.store.message_store import MessageStore
from tests.spark.jobs import calls
from tests.spark.jobs.replay.replaying import SMALL, bulk, held, tasks_as_calls, without_offsets
from tests.support.makers import patch
from tests.support.object_server import BUCKET, KEYS


@pytest.fixture(autouse=True)
def exports_in_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "spark" not in request.fixturenames:
        calls.tasks_as_calls(monkeypatch)
        monkeypatch.setattr("flintmq.lake.export.export_once.split_count", lambda span, cores: 5)


def exported(store: Any, out: Path, to: str, **named: Any) -> Path:
    export(None, str(store.path), str(out), StoreConfig.from_keys(store.config), to=to, **named)  # type: ignore[arg-type]
    return out


@pytest.mark.parametrize("kind", ["store", "parquet", "delta"])
@pytest.mark.parametrize("name", ["basic", "flags", "crc", "v540", "lmq"])
def test_the_round_trip_keeps_every_message(golden: Any, tmp_path: Path, name: str, kind: str) -> None:
    store = golden(name)
    source = store.path if kind == "store" else exported(store, tmp_path / "table", kind)
    done = bulk(source, tmp_path / "new")
    want = without_offsets(held(store.path, StoreConfig.from_keys(store.config)))
    found = held(tmp_path / "new")
    assert without_offsets(found) == want and want
    assert all([row[0] for row in rows] == list(range(len(rows))) for rows in found.values())
    assert (done.mode, done.source, done.rows) == ("bulk", kind, sum(map(len, want.values())))
    assert done.files == len(list((tmp_path / "new" / "commitlog").iterdir())) and done.queues == len(want)
    checked = verify(str(tmp_path / "new"), SMALL)
    assert (checked.defect_counts, checked.note_counts) == ({}, {})


def test_an_unfiltered_log_comes_out_byte_for_byte(golden: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """Where chunks do not end files early: one chunk, files of the same size. The very bytes that Java wrote."""
    tasks_as_calls(monkeypatch, 1 << 30)
    bulk(golden("basic").path, tmp_path / "new")
    names = sorted(os.listdir(golden("basic").path / "commitlog"))
    assert sorted(os.listdir(tmp_path / "new" / "commitlog")) == names and len(names) == 6
    for name in names:
        made, theirs = (root / "commitlog" / name for root in (tmp_path / "new", golden("basic").path))
        assert made.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize("live", [False, True])
def test_inner_batches_come_as_their_messages(golden: Any, tmp_path: Path, live: bool) -> None:
    store = golden("batch")
    exploded = sum(int(row["properties"].get("INNER_NUM", 1)) for row in store.live if not row["sys_flag"] & 4)
    assert bulk(store.path, tmp_path / "new", live=live).rows == exploded
    assert verify(str(tmp_path / "new"), SMALL).defect_counts == {}
    again = exported(store, tmp_path / "lake", "parquet", explode=True)
    assert bulk(again, tmp_path / "newer", live=live).rows == exploded
    found = [held(tmp_path / name) for name in ("new", "newer")]
    kept = [{q: [row[:-1] for row in rows] for q, rows in queues.items()} for queues in found]
    assert kept[0] == kept[1] and not any(row[6] & 0x80 for rows in found[0].values() for row in rows)


def test_decompressed_exports_lose_the_flag_with_the_compression(golden: Any, tmp_path: Path) -> None:
    store = golden("flags")
    assert any(row["sys_flag"] & 1 for row in store.rows)
    lake = exported(store, tmp_path / "lake", "parquet", decompress=True)
    bulk(lake, tmp_path / "new")
    with_flag = [row for rows in held(store.path).values() for row in rows if row[6] & 1]
    found = [row for rows in held(tmp_path / "new").values() for row in rows]
    assert not any(row[6] & 0x701 for row in found) and len(with_flag) > 0
    assert {len(row[1]) for row in found} != {len(row[1]) for rows in held(store.path).values() for row in rows}


def test_what_is_no_message_is_left_out_and_counted(golden: Any, tmp_path: Path) -> None:
    store = golden("delay")
    own = sum(row["topic"] == "SCHEDULE_TOPIC_" + "X" * 4 for row in store.live)
    done = bulk(store.path, tmp_path / "new")
    assert own and done.left_out == {"system_topics": own} and done.rows == len(store.live) - own
    assert bulk(store.path, tmp_path / "all", system_topics=True).rows == len(store.live)
    prepared = sum(bool(row["sys_flag"] & 4) for row in golden("flags").live)
    assert prepared and bulk(golden("flags").path, tmp_path / "flags").left_out["transaction_records"] == prepared


def test_the_same_replay_once_more_adds_what_is_new(golden: Any, tmp_path: Path) -> None:
    source = golden("basic").copy(tmp_path)
    new = tmp_path / "new"
    assert bulk(source, new).rows == 3000
    before = held(new)
    assert bulk(source, new).rows == 0 and held(new) == before
    with MessageStore(source, StoreConfig.from_keys(golden("basic").config), unique_keys=False) as store:
        store.put(Message("Orders", b"later", queue_id=2, properties={"p": "v"}))
    assert bulk(source, new, dry_run=True).rows == 1
    done = bulk(source, new)
    assert (done.mode, done.rows, done.total) == ("live", 1, 3001)
    assert held(new)["Orders", 2][-1][:3] == (188, b"later", [("p", "v")])
    shutil.rmtree(source)
    shutil.copytree(golden("v540").path, source)
    with pytest.raises((UsageError, CorruptStoreError), match="another|no record"):
        bulk(source, new)


@pytest.mark.parametrize("name", ["v540", "basic"])
def test_live_keeps_all_but_the_store_time(golden: Any, tmp_path: Path, name: str) -> None:
    store = golden(name)
    done = bulk(store.path, tmp_path / "new", live=True)
    want = without_offsets(held(store.path, StoreConfig.from_keys(store.config)))
    found = without_offsets(held(tmp_path / "new"))
    assert {q: [r[:-1] for r in rows] for q, rows in found.items()} == {
        q: [r[:-1] for r in rows] for q, rows in want.items()
    }
    assert (done.mode, done.rows) == ("live", sum(map(len, want.values())))


def test_a_dry_run_counts_and_writes_nothing(golden: Any, tmp_path: Path) -> None:
    told = bulk(golden("basic").path, tmp_path / "new", dry_run=True)
    assert os.listdir(tmp_path) == []
    done = bulk(golden("basic").path, tmp_path / "new")
    assert (told.rows, told.bytes, told.topics, told.queues, told.files) == (
        done.rows, done.bytes, done.topics, done.queues, done.files,
    )  # fmt: skip
    assert told.dry_run and (done.rows, done.topics, done.queues) == (3000, 4, 16)


def test_a_failure_leaves_no_store_and_nothing_else(golden: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(job, "bring_in", lambda staging, into: (_ for _ in ()).throw(OSError("disk")))
    with pytest.raises(OSError, match="disk"):
        bulk(golden("basic").path, tmp_path / "new")
    assert os.listdir(tmp_path) == []


def test_damage_fails_unless_it_may_be_skipped(golden: Any, tmp_path: Path) -> None:
    source = golden("basic").copy(tmp_path)
    at = golden("basic").rows[100]["physical_offset"] + 95
    patch(source / "commitlog" / ("0" * 20), at, b"\xff\xfe")
    with pytest.raises(CorruptStoreError):
        bulk(source, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    done = bulk(source, tmp_path / "new", fail_on_data_loss=False)
    assert done.rows == 2999 and done.damages == 1 and done.lost_bytes > 0
    assert (done.notes, done.exit_code) == ({}, 1)


@pytest.mark.parametrize("named", [{}, {"dry_run": True}, {"live": True}])
def test_a_lost_end_fails_unless_it_may_be_skipped_and_then_it_is_said(
    golden: Any, tmp_path: Path, named: dict[str, bool]
) -> None:
    source, sizes = golden("basic").copy(tmp_path), StoreConfig.from_keys(golden("basic").config)
    with MessageStore(source, sizes):
        pass  # its mark says how far all is durable
    last = max(path for path in (source / "commitlog").iterdir() if path.read_bytes()[:8].strip(b"\0"))
    lost = sum(row["physical_offset"] >= int(last.name) for row in golden("basic").live)
    last.unlink()
    with pytest.raises(CorruptStoreError):
        bulk(source, tmp_path / "new", **named)
    done = bulk(source, tmp_path / "new", fail_on_data_loss=False, **named)
    assert (done.rows, done.damages, done.notes, done.exit_code) == (3000 - lost, 0, {"lost": 1}, 1) and lost
    assert str(source) in done.note_texts["lost"][0]
    sound = bulk(golden("basic").path, tmp_path / "sound", dry_run=True, fail_on_data_loss=False)
    assert (sound.notes, sound.exit_code) == ({}, 0)


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ({"speed": "x0"}, "x0"),
        ({"speed": "fast"}, "original, xN"),
        ({"speed": "x2"}, "--live"),
        ({"where": " "}, "empty"),
        ({"where": "true", "fail_on_data_loss": False}, "cannot be counted"),
        ({"peer": "4"}, "5.3.3, 5.4.0, 5.5.0"),
    ],
)
def test_options_are_checked(golden: Any, tmp_path: Path, named: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        bulk(golden("basic").path, tmp_path / "new", **named)
    assert not (tmp_path / "new").exists()


def test_targets_are_checked(golden: Any, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    source = golden("basic").path
    for into, text in (
        (tmp_path / "other", "neither a store nor empty"),
        (tmp_path / "other" / "file", "neither"),
        (source, "same"),
    ):
        with pytest.raises(UsageError, match=text):
            bulk(source, into)
    with pytest.raises(UsageError, match="no such directory"):
        bulk(tmp_path / "nothing", tmp_path / "new")
    (tmp_path / "empty").mkdir()
    assert bulk(source, tmp_path / "empty").rows == 3000


@pytest.mark.parametrize("url", ["s3://bucket/store", "hdfs://h/store", "dbfs:/store"])
def test_urls_that_cannot_be_used_are_refused(
    golden: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=f"{url}.*director"):
        bulk(golden("basic").path, url)  # type: ignore[arg-type]
    if url.startswith("dbfs"):
        for call in (lambda: bulk(url, tmp_path / "new"), lambda: stats(None, url)):  # type: ignore[arg-type]
            with pytest.raises(UsageError, match=f"{url}.*director"):
                call()
    assert os.listdir(tmp_path) == []


@pytest.mark.spark
def test_a_store_on_object_storage(golden: Any, tmp_path: Path, spark: Any, objects: Any) -> None:
    store, config, into = golden("basic"), SMALL.with_keys(objects.keys), str(tmp_path / "new")
    url = objects.put(store.path, "replay/store")
    assert replay(spark, url, into, config).rows == 3000
    assert held(into) == held(store.path)
    assert replay(spark, url, into, config).rows == 0


@pytest.mark.turn(2, of=["src/flintmq/spark/jobs/replay/"])
@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_table_on_object_storage(
    golden: Any, tmp_path: Path, objects: Any, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": objects.endpoint, "AWS_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    store, lake, into = golden("basic"), f"s3://{BUCKET}/replay/{kind}", str(tmp_path / "new")
    export_once.export(str(store.path), lake, StoreConfig.from_keys(store.config), to=kind)  # type: ignore[arg-type]
    assert bulk(lake, tmp_path / "new").rows == 3000  # type: ignore[arg-type]
    assert held(into) == held(store.path)
    assert bulk(lake, tmp_path / "new").rows == 0  # type: ignore[arg-type]


@pytest.mark.turn(3, of=["src/flintmq/spark/jobs/replay/"])
@pytest.mark.parametrize("kind", ["store", "parquet"])
@pytest.mark.parametrize("where_from", ["the directory", "a link", "an earlier version's link"])
def test_a_source_by_a_link_is_the_same_source(golden: Any, tmp_path: Path, kind: str, where_from: str) -> None:
    """By another path everything was replayed a second time; targets of an earlier version know theirs as given."""
    source = golden("basic").path if kind == "store" else exported(golden("basic"), tmp_path / "table", kind)
    link, into = tmp_path / "link", tmp_path / "new"
    link.symlink_to(source)
    (tmp_path / "above").symlink_to(Path(source).parent)
    paths = [source, link, tmp_path / "above" / Path(source).name]
    first = source if where_from == "the directory" else link
    done = bulk(first, into)
    assert done.rows > 0
    ledger = WriterIds(str(into))
    assert list(ledger.of("")) == [f"replay of {os.path.realpath(source)}"]
    if where_from == "an earlier version's link":
        ledger.rename(f"replay of {os.path.realpath(source)}", f"replay of {link}", ledger.of("").popitem()[1])
    for path in paths:
        assert bulk(path, into).rows == 0 and bulk(path, into, dry_run=True).rows == 0
        assert len(WriterIds(str(into)).of("")) == 1
    another = shutil.copytree(source, tmp_path / "copied")
    for named in ({"system_topics": True}, {}):
        dry = bulk(another if not named else link, into, dry_run=True, **named)
        assert dry.rows >= done.rows, "another directory, or other options, are another replay"


def test_a_source_by_url_is_the_same_source(golden: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = golden("basic").copy(tmp_path / "a b")
    monkeypatch.chdir(source.parent)
    assert bulk(f"file://{str(source).replace(' ', '%20')}", tmp_path / "new").rows == 3000
    for other in (source, source.name, f"{source}/"):
        assert bulk(other, tmp_path / "new").rows == 0


@pytest.mark.turn(2, of=["src/flintmq/spark/jobs/replay/"])
@pytest.mark.spark
def test_on_spark_with_and_without_a_condition(golden: Any, tmp_path: Path, spark: Any) -> None:
    source = str(golden("basic").path)
    assert replay(spark, source, str(tmp_path / "all"), SMALL).rows == 3000
    assert held(tmp_path / "all") == held(source)
    where = "topic = 'Orders' and tags = 'TagA'"
    done = replay(spark, source, str(tmp_path / "some"), SMALL, where=where)
    want = {q: [r[1:] for r in rows if r[3] == "TagA"] for q, rows in held(source).items() if q[0] == "Orders"}
    assert without_offsets(held(tmp_path / "some")) == want and done.rows == sum(map(len, want.values())) == 157
    assert replay(spark, source, str(tmp_path / "some"), SMALL, where="topic = '库存'").rows == 736
    for wrong in ("topik = 'a'", "topic = = 'a'"):
        with pytest.raises(UsageError, match="condition"):
            replay(spark, source, str(tmp_path / "none"), SMALL, where=wrong)


@pytest.mark.parametrize("name", ["live", "dry_run", "system_topics", "fail_on_data_loss", "skip_refused"])
def test_a_switch_is_true_or_false(tmp_path: Path, name: str):
    """The text "no" would be a yes, and a dry run writes nothing."""
    words: dict[str, Any] = {name: "no"}
    with pytest.raises(TypeError, match=f"^{name} is of type str; give True or False"):
        replay(None, "from", str(tmp_path / "new"), **words)
