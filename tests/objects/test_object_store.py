"""Stores on object storage: the same rows as on a disk, by few requests, and the same words where something is lost."""

import pickle
import re
import socket
import time
from dataclasses import replace

import pytest

import flintmq
from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.config.keys import StoreConfig
from flintmq.config.s3 import S3Options
from flintmq.errors import FlintError, StoreAccessError, UsageError
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.read.scan import plan_scan, scan_range
from flintmq.lake.read.splits import LogRange, files_of, shares
from flintmq.objects import remote_file
from flintmq.objects.object_store import FRESH_SECONDS, ObjectStore
from flintmq.storage.files.store_url import effects_for
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.walk import LogWalk
from flintmq.testing.write_store import write_store

SMALL = {"maxHashSlotNum": 5000, "maxIndexNum": 20_000, "mappedFileSizeConsumeQueue": 60_000}
SAME = ("physical_offset", "size", "queue_id", "queue_offset", "body_crc", "topic", "tags", "keys", "msg_id")


def test_rows_of_every_golden_store(golden_store, objects):
    url = objects.put(golden_store.path, golden_store.name)
    rows = flintmq.scan_arrow(url, set={**golden_store.config, **objects.keys}).read_all()
    assert rows.equals(flintmq.scan_arrow(golden_store.path, set=golden_store.config).read_all())
    expected = golden_store.live
    assert rows.num_rows == len(expected) + golden_store.expect.get("beyond", 0)
    found = rows.select(list(SAME)).to_pylist()
    times = rows["store_timestamp"].cast("int64").to_pylist()
    for row, ms, right in zip(found, times, expected, strict=False):
        assert {**row, "store_timestamp": ms} == {name: right[name] for name in (*SAME, "store_timestamp")}


@pytest.fixture(scope="module")
def basic(golden, objects):
    """(URL of the store `basic`, what a reader must be told)."""
    store = golden("basic")
    return objects.put(store.path, "a/basic"), {**store.config, **objects.keys}


def test_a_view(basic, golden):
    url, keys = basic
    here, there = flintmq.open_store(golden("basic").path), flintmq.open_store(url, set=keys)
    assert there.topics() == here.topics() and there.queues() == here.queues()
    assert there.get("Orders", 0, 7).body == here.get("Orders", 0, 7).body
    assert [m.physical_offset for m in there.query("Orders", "k108")] == [
        m.physical_offset for m in here.query("Orders", "k108")
    ]
    assert there.max_physical_offset == here.max_physical_offset and not there.live


def test_names_and_sizes(basic, golden):
    url, keys = basic
    disk, root = effects_for(url, StoreConfig.from_keys(keys).s3), golden("basic").path
    for folder in ("", "/commitlog", "/consumequeue", "/consumequeue/Orders/0", "/nothing"):
        here = root / folder[1:]
        names = sorted(path.name for path in here.iterdir()) if here.is_dir() else []
        if folder == "":
            names = [name for name in names if not (here / name).is_dir() or any((here / name).iterdir())]
        for fresh in (disk, ObjectStore(disk.options)):
            assert fresh.listdir(url + folder) == names
            assert fresh.listdir(url + folder, url) == names
            assert fresh.is_dir(url + folder) == bool(names)
    place = "/commitlog/00000000000000000000"
    for fresh in (disk, ObjectStore(disk.options)):
        assert fresh.size(url + place) == (root / place[1:]).stat().st_size
        assert fresh.size(url + "/commitlog") is None and fresh.size(url + "/none") is None
        assert not fresh.is_dir(url + place)
        assert abs(fresh.modified_ms(url + place) - time.time() * 1000) < 600_000
        assert fresh.read_file(url + "/none", 10) is None


def test_reading_and_refusing(basic, golden):
    url, keys = basic
    disk = effects_for(url, StoreConfig.from_keys(keys).s3)
    path = url + "/commitlog/00000000000000000000"
    data = (golden("basic").path / "commitlog" / "00000000000000000000").read_bytes()
    with disk.reading(path) as fd:
        assert fd < 0 and disk.size_of(fd) == len(data)
        assert disk.pread(fd, 1000, 131_000) == data[131_000:]
        disk.will_read(fd, 0, 100_000, sure=True)
        buffer = bytearray(1000)
        assert disk.pread_into(fd, memoryview(buffer), 99_500) == 1000 and buffer == data[99_500:100_500]
        assert disk.next_data(fd, 5) == 5
        with pytest.raises(UsageError, match=f"^{path}: access map is for local files; use pread$"):
            disk.map_read(fd, 10)
    with pytest.raises(StoreAccessError, match="object storage is only read; create needs a directory"):
        disk.create(path, 5)
    with pytest.raises(UsageError, match="has its log there too"):
        disk.size("/local/path")


def test_planning_does_not_grow_with_the_log(tmp_path, objects):
    counts, fetched = [], []
    for number, messages in enumerate((4_000, 24_000)):
        written = write_store(tmp_path / str(number), messages, commit_log_file_size=256 << 10, config=SMALL)
        url = objects.put(written.path, f"growing/{number}")
        objects.requests()
        options = ReadOptions(url, config=written.config.with_keys(objects.keys))
        plan = plan_scan(options, Report())
        parts = shares(plan.log, plan.begin, plan.end, 3 * messages // 1000)
        requests = objects.requests()
        counts.append(len(requests))
        spans = (re.search(r"bytes=(\d+)-(\d+)", request) for request in requests)
        fetched.append(sum(int(span[2]) + 1 - int(span[1]) for span in spans if span))
        assert plan.end == written.max_offset
        rows = 0
        for part in parts[:3]:  # each task reads its files alone
            task = replace(plan, log=files_of(plan.log, part))
            assert len(task.log.files) <= 4
            rows += sum(batch.num_rows for batch in scan_range(task, part, SPARK_SCHEMA, Report()))
        assert rows > 100
        objects.requests()
    assert counts[0] == counts[1] <= 16, counts
    assert max(fetched) < 1 << 20  # of 1.5 and 9 MB of log


def lost(options, plan, change):
    """The error of reading all of a plan after a change to the store."""
    change()
    with pytest.raises(FlintError) as raised:
        for _ in scan_range(plan, LogRange(plan.begin, plan.end), SPARK_SCHEMA, Report()):
            pass
    return raised.value


@pytest.mark.parametrize("change", ["vanishes", "shrinks"])
def test_a_file_that_goes_between_planning_and_reading(golden, tmp_path, objects, change):
    name = "commitlog/00000000000000131072"
    here = golden("basic").copy(tmp_path)
    url = objects.put(here, f"lost/{change}")
    short = (here / name).read_bytes()[:50_000]

    def on_disk():
        (here / name).unlink() if change == "vanishes" else (here / name).write_bytes(short)

    def on_server():
        key = f"lost/{change}/{name}"
        objects.delete(key) if change == "vanishes" else objects.put_object(key, short)
        time.sleep(FRESH_SECONDS)

    near = ReadOptions(str(here), config=StoreConfig.from_keys(golden("basic").config))
    far = ReadOptions(url, config=near.config.with_keys(objects.keys))
    local = lost(near, plan_scan(near, Report()), on_disk)
    remote = lost(far, plan_scan(far, Report()), on_server)
    assert type(remote) is type(local) and remote.exit_code == local.exit_code
    assert str(remote) == str(local).replace(str(here), url)


def test_a_file_that_goes_while_it_is_read(tmp_path, objects, monkeypatch):
    """A server forgets what is deleted; a disk keeps it for who has it open."""
    monkeypatch.setattr(remote_file, "CHUNK", 1 << 18)
    written = write_store(tmp_path / "s", 10_000, commit_log_file_size=8 << 20, config=SMALL)
    url = objects.put(written.path, "going")
    plan = plan_scan(ReadOptions(url, config=written.config.with_keys(objects.keys)), Report())
    report = Report()
    pieces = iter(LogWalk(plan.log, end=plan.end, report=report))
    next(pieces)
    objects.delete(f"going/commitlog/{0:020d}")
    rest = sum(piece.count for piece in pieces)
    assert rest < written.records - 5000
    assert report.note_counts == {"vanished": 1}
    assert report.notes[0].text == f"{url}/commitlog/{0:020d} was deleted while the log was read"


def test_a_server_that_does_not_answer_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        disk = ObjectStore(S3Options(endpoint, anonymous=True, timeout_s=1, attempts=1))
        began = time.monotonic()
        with pytest.raises(StoreAccessError, match="^s3://bucket/store: .*check s3.endpoint"):
            disk.listdir("s3://bucket/store")
        assert time.monotonic() - began < 10


def test_nothing_secret_goes_to_tasks(basic, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    url, keys = basic
    disk = effects_for(url, StoreConfig.from_keys(keys).s3)
    disk.listdir(url)
    assert b"very-secret" not in pickle.dumps(disk)
