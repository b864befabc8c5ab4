"""Copies on object storage: what a copy into a directory is, seen by nobody before it is whole."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("obstore", reason="obstore is not installed")

import flintmq
from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError, NotAStoreError, StoreAccessError, StoreError, UsageError
from flintmq.forensics import copy, store_upload
from flintmq.forensics.copy import copy_some, copy_whole
from flintmq.forensics.diff.run import compare
from flintmq.forensics.verify.run import verify
from flintmq.message import Message
from flintmq.objects.bucket import Bucket
from flintmq.objects.opening import bucket_of
from flintmq.store.commitlog.predicate import Predicate
from tests.cli.conftest import Run, run
from tests.compat.stores import Golden
from tests.forensics.test_copy import SMALL
from tests.support.engine import put_messages, tree
from tests.support.makers import config_of
from tests.support.object_server import BUCKET, KEYS, Server
from tests.support.threads import at_once

__all__ = ["run"]  # a fixture
PUBLISHED = "flintmq.copied"


class Place:
    """A prefix of the bucket that a test has to itself."""

    def __init__(self, server: Server, name: str) -> None:
        self.url, self.key = f"s3://{BUCKET}/{name}", name
        self.keys = server.keys | {"s3.anonymous": "false"}
        self.bucket: Bucket = bucket_of(self.url, self.config.s3)[0]

    @property
    def config(self) -> StoreConfig:
        return StoreConfig.from_keys(self.keys)

    @property
    def names(self) -> list[str]:
        return [found.key[len(self.key) + 1 :] for found in self.bucket.listed(self.key, True)]

    def files(self) -> dict[str, bytes]:
        return {name: self.bucket.read(f"{self.key}/{name}") for name in self.names}


@pytest.fixture
def place(objects: Server, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    return Place(objects, "copies/" + "".join(c if c.isalnum() else "-" for c in request.node.name))


def is_no_store(place: Place) -> None:
    with pytest.raises(NotAStoreError):
        flintmq.open_store(place.url, set=place.keys)
    with pytest.raises(NotAStoreError):
        verify(place.url, place.config)


def watching(monkeypatch: pytest.MonkeyPatch, look: Callable[[str], None]) -> None:
    """Call a function before each put of a file."""
    put_file = store_upload.StoreUpload.put_file

    def watched(self: Any, name: str, path: str) -> None:
        look(name)
        put_file(self, name, path)

    monkeypatch.setattr(store_upload.StoreUpload, "put_file", watched)


@pytest.mark.turn(3, of=["src/flintmq/forensics/copy.py", "src/flintmq/forensics/store_upload.py"])
def test_every_golden_store(golden_store: Golden, tmp_path: Path, place: Place) -> None:
    """The objects are the files of a copy into a directory, whatever state the store is in."""
    config = config_of(golden_store).with_keys(place.keys)
    there = copy_whole(str(golden_store.path), str(tmp_path / "there"), config)
    done = copy_whole(str(golden_store.path), place.url, config)
    expected, found = tree(tmp_path / "there", ""), place.files()
    told = json.loads(found.pop(PUBLISHED))
    assert found.keys() == expected.keys()
    for made in (expected, found) if there.live else ():  # recovery writes times into these
        for name in [name for name in made if name.startswith(("config/", "abort", "checkpoint", "flintmq."))]:
            del made[name]
    assert found == expected
    assert (done.into, done.live, done.files) == (place.url, there.live, there.files)
    assert (done.begin, done.end, done.damages) == (there.begin, there.end, there.damages)
    whole = [len(data) for name, data in place.files().items() if name != PUBLISHED]
    assert (told["objects"], told["bytes"], done.data_bytes) == (len(whole), sum(whole), sum(whole))
    assert verify(place.url, config).defect_counts == verify(tmp_path / "there", config).defect_counts


def test_there_and_back(golden: Any, tmp_path: Path, place: Place, objects: Server) -> None:
    root = golden("basic").path
    copy_whole(str(root), place.url, place.config)
    assert compare(str(root), place.url, place.config).equal
    copy_whole(place.url, str(tmp_path / "back"), place.config)
    copy_whole(str(root), str(tmp_path / "there"))
    assert tree(tmp_path / "back", "") == tree(tmp_path / "there", "")
    second = Place(objects, place.key + "-2")
    copy_whole(place.url, second.url, place.config)
    assert tree(tmp_path / "there", "").items() <= second.files().items()


def test_bytes_after_the_end_are_zeros_there_too(tmp_path: Path, place: Place) -> None:
    """A log file has its whole size: RocketMQ refuses one that is shorter."""
    put_messages(tmp_path / "store", (Message("T", b"x" * 3000) for _ in range(40)), config=SMALL)
    copy_whole(str(tmp_path / "store"), place.url, place.config)
    log = {name: data for name, data in place.files().items() if name.startswith("commitlog/")}
    assert len(log) == 2 and {len(data) for data in log.values()} == {65536}
    assert all(log[name] == (tmp_path / "store" / name).read_bytes() for name in log)


def test_a_store_that_is_written_meanwhile(tmp_path: Path, place: Place) -> None:
    root, stop, told = tmp_path / "store", threading.Event(), []
    config = StoreConfig.from_keys(SMALL).with_keys(place.keys)
    steps: list[tuple[int, int]] = []

    def write(store: flintmq.MessageStore) -> None:
        while not stop.is_set():
            told.append(store.put(Message("T", b"x" * (len(told) % 700))).physical_offset)
            stop.wait(0.0005)

    with flintmq.MessageStore(root, config=SMALL) as store:
        thread = threading.Thread(target=write, args=(store,))
        thread.start()
        try:
            while len(told) < 300:
                time.sleep(0.01)
            before = len(told)
            done = copy_whole(str(root), place.url, config, progress=lambda *at: steps.append(at))
        finally:
            stop.set()
            thread.join()
    assert done.live and verify(place.url, config).defects == []
    with flintmq.open_store(place.url, set=SMALL | place.keys) as view:
        held = [message.physical_offset for message in view.messages()]
    assert len(held) >= before and held == told[: len(held)]
    assert steps == sorted(steps) and steps[-1] == (2 * done.end, 2 * done.end)


def test_a_store_that_is_opened_meanwhile(tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that began file by file starts again by way of a directory."""
    root, config = tmp_path / "store", StoreConfig.from_keys(SMALL).with_keys(place.keys)

    def put(count: int) -> None:
        put_messages(root, (Message("T", b"x" * 3000) for _ in range(count)), config=SMALL)

    put(40)
    seen: list[str] = []

    def meanwhile(name: str) -> None:
        seen.append(name)
        if seen.count("commitlog/00000000000000000000") == 1 and name.endswith("65536"):
            put(20)

    watching(monkeypatch, meanwhile)
    copy_whole(str(root), place.url, config)
    assert seen.count("commitlog/00000000000000000000") == 2
    assert verify(place.url, config).defects == []
    with flintmq.open_store(place.url, set=SMALL | place.keys) as view:
        assert len(list(view.messages())) == 60


def test_some_messages(golden: Any, tmp_path: Path, place: Place) -> None:
    root, orders = golden("basic").path, Predicate(topics=frozenset(["Orders"]))
    there = copy_some(str(root), str(tmp_path / "there"), orders)
    done = copy_some(str(root), place.url, orders, place.config)
    assert (done.into, done.report) == (place.url, place.url + "/copy.jsonl")
    assert (done.records, done.log_bytes, done.units) == (there.records, there.log_bytes, there.units)
    found = place.files()
    del found[PUBLISHED]
    assert found == tree(tmp_path / "there", "")
    assert verify(place.url, place.config).defects == []


@pytest.mark.parametrize("name", ["basic", "crash"])
def test_nobody_takes_an_unfinished_copy_for_a_store(
    golden: Any, tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    looks: list[str] = []

    def look(file: str) -> None:
        looks.append(file)
        with pytest.raises(NotAStoreError, match="a copy that is not finished"):
            flintmq.open_store(place.url, set=place.keys)

    watching(monkeypatch, look)
    copy_whole(str(golden(name).path), place.url, place.config)
    assert len(looks) > 10 and any(file.startswith("commitlog/") for file in looks)
    time.sleep(2)  # listings are valid for as long
    flintmq.open_store(place.url, set=place.keys).close()


def test_of_two_copies_one_wins(golden: Any, tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    roots = [str(golden(name).path) for name in ("basic", "config")]
    both = threading.Barrier(2)
    refuse_taken = store_upload.StoreUpload.refuse_taken

    def together(self: Any, but: str = "") -> None:
        refuse_taken(self, but)
        if not but:
            both.wait(30)  # each saw an empty place

    monkeypatch.setattr(store_upload.StoreUpload, "refuse_taken", together)
    refused: list[str] = []

    def one(root: str) -> None:
        try:
            copy_whole(root, place.url, place.config)
        except UsageError as error:
            refused.append(str(error))

    at_once(*[partial(one, root) for root in roots])
    [text] = refused
    assert text.startswith(place.url) and "\n" not in text and ("not finished" in text or "just ended" in text)
    winner = json.loads(place.files()[PUBLISHED])["from"]
    assert compare(winner, place.url, place.config).equal and verify(place.url, place.config).defects == []


def test_places_that_are_taken(golden: Any, tmp_path: Path, place: Place) -> None:
    root = str(golden("basic").path)
    place.bucket.put(f"{place.key}/x", b"1")
    for url in (place.url, f"{place.url}/x"):
        with pytest.raises(UsageError, match="something is there already"):
            copy_whole(root, url, place.config)
    copy_whole(root, f"{place.url}/y", place.config)
    with pytest.raises(UsageError, match="something is there already"):
        copy_some(root, f"{place.url}/y", Predicate(since=0), place.config)
    with pytest.raises(UsageError, match="is inside the store"):
        copy_whole(f"{place.url}/y", f"{place.url}/y/z", place.config)
    with pytest.raises(StoreAccessError, match="no such bucket"):
        copy_whole(root, "s3://nothing-here/store", place.config)
    assert set(place.names) >= {"x", f"y/{PUBLISHED}"} and not any("copying" in name for name in place.names)


def test_a_failure_leaves_nothing(golden: Any, tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        if name.startswith("index/"):
            raise OSError(28, "No space left on device")

    watching(monkeypatch, fail)
    with pytest.raises(OSError, match="No space"):
        copy_whole(str(golden("basic").path), place.url, place.config)
    assert place.names == []
    store = golden("basic").copy(tmp_path)
    with (store / "commitlog" / "00000000000000262144").open("rb+") as file:
        file.write(b"\xff" * 50)
    with pytest.raises(CorruptStoreError):
        copy_some(str(store), place.url, Predicate(topics=frozenset(["Orders"])), place.config)
    assert place.names == []


def test_a_server_that_fails_leaves_a_claim(golden: Any, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A put that was given up may still arrive, so the place stays claimed."""

    def fail(name: str) -> None:
        if name.startswith("index/"):
            raise StoreAccessError("the server does not answer")

    with monkeypatch.context() as patched:
        watching(patched, fail)
        with pytest.raises(StoreAccessError):
            copy_whole(str(golden("basic").path), place.url, place.config)
    assert place.names == ["flintmq.copying"]
    place.bucket.put(f"{place.key}/commitlog/00000000000000000000", b"late")
    is_no_store(place)
    with pytest.raises(UsageError, match=f"not finished.*process '{os.getpid()}'|process '{os.getpid()}'.*finished"):
        copy_whole(str(golden("basic").path), place.url, place.config)


def test_a_put_that_fails_in_another_thread(golden: Any, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    put = type(place.bucket).put

    def fail(self: Any, key: str, data: bytes) -> None:
        if "/consumequeue/" in key:
            raise StoreAccessError(f"{key}: the server does not answer")
        put(self, key, data)

    monkeypatch.setattr(type(place.bucket), "put", fail)
    with pytest.raises(StoreAccessError, match="consumequeue/.* does not answer"):
        copy_whole(str(golden("basic").path), place.url, place.config)
    assert place.names == ["flintmq.copying"]


def test_objects_that_somebody_put_meanwhile(
    golden: Any, tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        watching(patched, lambda _: place.bucket.put(f"{place.key}/commitlog/99999", b"1"))
        with pytest.raises(StoreError, match="other objects were put"):
            copy_whole(str(golden("basic").path), place.url, place.config)
    assert place.names == ["commitlog/99999"]


def test_a_log_without_messages(tmp_path: Path, place: Place) -> None:
    with flintmq.MessageStore(tmp_path / "store", config=SMALL):
        pass
    with pytest.raises(StoreError, match="copy it into a directory"):
        copy_whole(str(tmp_path / "store"), place.url, place.config)
    assert place.names == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "killed"])
def test_a_run_that_ends_early(golden: Any, tmp_path: Path, place: Place, number: int) -> None:
    """Ctrl-C cleans up; a killed run leaves what the next one names, and no reader takes for a store."""
    root = golden("basic").path
    late = (
        "import sys, time\nfrom flintmq.forensics import store_upload as b\nput = b.StoreUpload.put_file\n"
        "def slow(self, name, path):\n    put(self, name, path)\n"
        "    if name.startswith('commitlog/'):\n        print('at it', flush=True); time.sleep(60)\n"
        "b.StoreUpload.put_file = slow\n"
        "from flintmq.cli.app import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    words = ["copy", str(root), "--out", place.url]
    words += [word for key, value in place.keys.items() for word in ("--set", f"{key}={value}")]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    child = subprocess.Popen([sys.executable, "-c", late, *words], stdout=subprocess.PIPE, env=environment, text=True)
    assert child.stdout is not None and child.stdout.readline() == "at it\n"
    is_no_store(place)
    child.send_signal(number)
    child.communicate(timeout=60)
    if number == signal.SIGINT:
        assert child.returncode == 130 and place.names == [] and list(tmp_path.iterdir()) == []
        return
    assert "commitlog/00000000000000000000" in place.names
    is_no_store(place)
    with pytest.raises(UsageError) as caught:
        copy_whole(str(root), place.url, place.config)
    [folder] = tmp_path.iterdir()
    assert f"process '{child.pid}'" in str(caught.value) and folder.name in str(caught.value)
    place.bucket.delete([f"{place.key}/{name}" for name in place.names])
    copy_whole(str(root), place.url, place.config)


@pytest.mark.parametrize("text", [b"", b"[1]", b"[" * 4000, b'{"host": {"a": 1}}', b"\xff\n\x1b[2J"])
def test_a_claim_may_hold_anything(golden: Any, place: Place, text: bytes) -> None:
    place.bucket.put(f"{place.key}/flintmq.copying", text)
    with pytest.raises(UsageError, match="is not finished") as caught:
        copy_whole(str(golden("basic").path), place.url, place.config)
    assert str(caught.value).isprintable()


def test_the_command(golden: Any, place: Place, run: Run) -> None:
    options = [word for key, value in place.keys.items() for word in ("--set", f"{key}={value}")]
    done = run("copy", golden("basic").path, "--out", place.url, *options)
    assert done.code == 0 and done.out.endswith(f"result   {place.url}\n")
    assert run("verify", place.url, *options).code == 0
    again = run("copy", golden("basic").path, "--out", place.url, *options)
    assert again.code == 2 and again.err.count("\n") == 1 and "something is there already" in again.err


def test_a_name_that_is_no_text_is_left_out(golden: Any, tmp_path: Path, place: Place) -> None:
    store = golden("basic").copy(tmp_path)
    with open(os.fsencode(store) + b"/\xff", "wb"):
        pass
    assert copy_whole(str(store), place.url, place.config).left_out == ["\udcff"]
    assert copy.DERIVED[0] in {name.partition("/")[0] for name in place.names}
