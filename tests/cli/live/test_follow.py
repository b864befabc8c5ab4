"""`flintmq follow`: events, exit codes, and a process that is stopped and killed; the rest is in tests/ha."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flintmq.store.layout.followed import NOT_ASKED
from tests.cli.conftest import Run
from tests.compat.replication import VERSIONS, GoldenMaster, queue_units
from tests.ha.loopback import LoopbackMaster
from tests.interop.relay import free_port


@pytest.fixture(scope="module", params=VERSIONS[:1])
def golden_master(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GoldenMaster:
    return GoldenMaster(request.param, tmp_path_factory.mktemp("ha"))


@pytest.fixture
def line(golden_master: GoldenMaster) -> Iterator[LoopbackMaster]:
    with LoopbackMaster(golden_master.log, golden_master.file_size) as one:
        yield one


def sets(master: GoldenMaster) -> list[str]:
    return [
        word for key, value in master.config.items() if key != "haListenPort" for word in ("--set", f"{key}={value}")
    ]


def log_of(store: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((store / "commitlog").iterdir())).rstrip(b"\0")


class Process:
    """The command as a process, which is ended by its id."""

    def __init__(self, folder: Path, *words: object) -> None:
        self.out = folder / "follow.out"
        with open(self.out, "wb") as out:
            command = [sys.executable, "-m", "flintmq", "follow", *map(str, words), "--json"]
            self.child = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE)

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(text) for text in self.out.read_bytes().split(b"\n")[:-1]]

    def wait(self, event: str, **fields: Any) -> None:
        limit = time.monotonic() + 60
        while not any(one["event"] == event and fields.items() <= one.items() for one in self.events()):
            assert self.child.poll() is None and time.monotonic() < limit, (self.events(), self.child.poll())
            time.sleep(0.02)

    def end(self) -> None:
        self.child.kill()
        self.child.communicate()


@contextmanager
def process(folder: Path, *words: object) -> Iterator[Process]:
    one = Process(folder, *words)
    try:
        yield one
    finally:
        one.end()


def test_once(run: Run, tmp_path: Path, golden_master: GoldenMaster, line: LoopbackMaster) -> None:
    end = len(golden_master.log)
    result = run("follow", line.address, "--out", tmp_path / "s", "--once", "--ack", "--json", *sets(golden_master))
    assert (result.code, result.err) == (0, "")
    assert result.rows == [
        {"event": "opened", "begin": None, "end": None},
        {"event": "connected", "report": 1},
        {"event": "resumed", "end": 0},
        {"event": "caught_up", "end": end},
        {"event": "closed", "end": end, "promotable": False, "lacks": NOT_ASKED},
    ]
    assert log_of(tmp_path / "s") == golden_master.log.rstrip(b"\0") and line.reports[-1] == end
    told = json.loads((tmp_path / "s" / "flintmq.follow").read_text())
    assert (told["master"], told["begin"], told["from"]) == (line.address, 0, "first")


def test_for_people(run: Run, tmp_path: Path, golden_master: GoldenMaster, line: LoopbackMaster) -> None:
    end = len(golden_master.log)
    result = run("follow", line.address, "--out", tmp_path / "s", "--once", "--flush", "SYNC", *sets(golden_master))
    assert (result.code, result.out) == (0, "")
    assert result.err.splitlines() == [
        "flintmq: opened: empty",
        "flintmq: connected: report 1",
        "flintmq: resumed: end 0",
        f"flintmq: caught up: end {end}",
        f"flintmq: closed: end {end}",
        f"flintmq: not known to be fit to be carried on: {NOT_ASKED}",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "S"], "HOST:PORT"),
        (["h:1"], "--out"),
        (["h:x", "--out", "S"], "HOST:PORT"),
        (["h:1", "--out", "S", "--from-offset", "middle"], "--from-offset 'middle' is neither"),
        (["h:1", "--out", "S", "--flush", "LATER"], "LATER"),
        (["h:1", "--out", "S", "--set", "noSuchKey=1"], "noSuchKey"),
    ],
)
def test_what_cannot_be_used(run: Run, tmp_path: Path, words: list[str], message: str) -> None:
    result = run("follow", *[str(tmp_path / "s") if word == "S" else word for word in words])
    assert result.code == 2 and message in result.err and not (tmp_path / "s").exists()


def test_nobody_listens(run: Run, tmp_path: Path) -> None:
    result = run("follow", f"127.0.0.1:{free_port()}", "--out", tmp_path / "s", "--once")
    assert result.code == 2 and "nobody answers there" in result.err and not (tmp_path / "s").exists()
    assert result.err.splitlines()[:-1] == ["flintmq: lost: what line, reason Connection refused"]


def test_a_stop_before_the_master_answers_leaves_nothing(tmp_path: Path) -> None:
    with process(tmp_path, f"127.0.0.1:{free_port()}", "--out", tmp_path / "a" / "s") as one:
        one.wait("lost")
        one.child.send_signal(signal.SIGINT)
        assert one.child.wait(30) == 0
        assert [event["event"] for event in one.events()] == ["lost"]
    assert not (tmp_path / "a").exists()


def test_a_refusal_has_an_exit_code_and_a_reason(
    run: Run, tmp_path: Path, golden_master: GoldenMaster, line: LoopbackMaster
) -> None:
    words = ("follow", line.address, "--out", tmp_path / "s", "--json", *sets(golden_master))
    assert run(*words, "--once").code == 0
    line.end = sum(golden_master.records[300])
    before = log_of(tmp_path / "s")
    result = run(*words)
    assert result.code == 12
    refused = next(row for row in result.rows if row["event"] == "refused")
    assert refused["reason"] == "behind" and "does not reach our last record" in refused["detail"]
    assert json.loads(result.err)["error"] == "DivergedError" and log_of(tmp_path / "s") == before


def test_a_store_that_another_process_writes(
    run: Run, tmp_path: Path, golden_master: GoldenMaster, line: LoopbackMaster
) -> None:
    with process(tmp_path, line.address, "--out", tmp_path / "s", *sets(golden_master)) as first:
        first.wait("caught_up", end=line.end)
        result = run("follow", line.address, "--out", tmp_path / "s", "--once", "--json", *sets(golden_master))
        assert result.code == 6 and result.rows[0]["event"] == "refused" and result.rows[0]["reason"] == "store"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(
    tmp_path: Path, golden_master: GoldenMaster, line: LoopbackMaster, number: int
) -> None:
    with process(tmp_path, line.address, "--out", tmp_path / "s", *sets(golden_master)) as one:
        one.wait("caught_up", end=line.end)
        one.child.send_signal(number)
        assert one.child.wait(30) == 0
        assert one.events()[-1] == {"event": "closed", "end": line.end, "promotable": False, "lacks": NOT_ASKED}
    assert not (tmp_path / "s" / "abort").exists()
    assert queue_units(tmp_path / "s") == golden_master.queue_units()


def test_kills_cost_nothing(run: Run, tmp_path: Path, golden_master: GoldenMaster, line: LoopbackMaster) -> None:
    """At each moment the log is a prefix of the master's; the rest comes after the last kill."""
    chance, last = random.Random(5), len(golden_master.records) - 1
    line.end = 0
    for number in range(6):
        with process(tmp_path, line.address, "--out", tmp_path / "s", "--ack", *sets(golden_master)) as one:
            one.wait("connected")
            for step in range(4):
                line.end = sum(golden_master.records[last * (4 * number + step + 1) // 24])
                time.sleep(chance.uniform(0, 0.05))
            if number % 2:
                line.cut()
        assert golden_master.log.startswith(log_of(tmp_path / "s"))
    line.end = len(golden_master.log)
    assert run("follow", line.address, "--out", tmp_path / "s", "--once", *sets(golden_master)).code == 0
    assert log_of(tmp_path / "s") == golden_master.log.rstrip(b"\0")
    assert queue_units(tmp_path / "s") == golden_master.queue_units()
    assert run("verify", tmp_path / "s", *sets(golden_master)).code == 0
