"""The demo runs to its end, and says so when something is not as it should be."""

import hashlib
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from examples.demo import __main__, following, proof, selling
from examples.demo.recorded_master import RecordedMaster
from flintmq.ha import Follower
from tests.compat.replication import FOLDER, GoldenMaster


def test_without_spark(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for chapter in ("follow", "sell"):  # they have tests of their own
        monkeypatch.setattr(__main__, chapter, lambda *_: True)
    out = tmp_path / "out"
    for _ in range(2):  # the second run empties the first's directory
        assert __main__.main(["--out", str(out), "--without-spark"]) == 0
    text = capfd.readouterr().out
    assert "1 defect (record-damaged 1)" in text
    assert "39 files compared with Java's: every byte is equal" in text


def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(SystemExit, match="not of an earlier demo"):
        __main__.main(["--out", str(tmp_path)])
    assert (tmp_path / "mine").read_text() == "x"


def test_a_command_that_fails_ends_the_demo(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="flintmq inspect ended with exit code 2, not 0"):
        __main__.flintmq("inspect", tmp_path)


def test_what_dies_by_itself_ends_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("deltalake", reason="deltalake is not installed")
    story = __main__.Orders(tmp_path, 100, 1000)
    story.store.write_text("no directory")
    story.start_writer(100)
    try:
        with pytest.raises(SystemExit, match="the engine ended with exit code 1; see .*engine.log"):
            story.wait("kill")
    finally:
        story.clear()


@pytest.mark.slow
@pytest.mark.turn(2, of=["examples/"])
@pytest.mark.parametrize("played", ["recorded", "java"])
def test_a_broker_is_followed(
    played: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broker, follower and export are killed and go on; logs and table are compared by commands of their own."""
    pytest.importorskip("deltalake", reason="deltalake is not installed")
    if played == "recorded":
        monkeypatch.setenv("FLINTMQ_ORACLE", "off")
    elif following.java() is None:
        pytest.skip("no Java, or the oracle of tests/interop is not built")
    assert following.follow(tmp_path, 400, 100, 9)
    text = capfd.readouterr().out
    assert ("recorded bytes of a broker play it" in " ".join(text.split())) == (played == "recorded")
    assert "killed with " in text and text.count("result   equal") == 2
    assert "that the broker acknowledged are in the table, each once" in " ".join(text.split())
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    resumed = [event["end"] for event in events if event["event"] == "resumed"]
    assert resumed[0] == 0 and max(resumed) > 0, "the second follower went on where the first was killed"


@pytest.mark.slow
@pytest.mark.turn(2, of=["examples/"])
@pytest.mark.parametrize("sends", ["python", "java"])
def test_clients_send_to_a_broker(
    sends: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broker, sender and export are killed and go on; the table has each acknowledged message once."""
    pytest.importorskip("deltalake", reason="deltalake is not installed")
    if sends == "python":
        monkeypatch.setenv("FLINTMQ_ORACLE", "off")
    elif following.java() is None:
        pytest.skip("no Java, or the oracle of tests/interop is not built")
    assert selling.sell(tmp_path, 1200, 300, 12)
    text = " ".join(capfd.readouterr().out.split())
    assert ("FlintMQ's own client sends" in text) == (sends == "python")
    assert "killed with " in text and "result equal" in text
    assert "that the broker acknowledged are in the table, each once" in text


def test_a_table_that_lacks_a_message_or_has_one_twice_is_seen(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    places = [("Orders", 0, 0), ("Orders", 0, 1), ("Orders", 1, 0)]
    names = ["topic", "queue_id", "queue_offset"]
    for name, rows in (("whole", places), ("lacks", places[:2]), ("twice", [*places, places[0]])):
        columns = [pa.array(list(column)) for column in zip(*rows, strict=True)]
        deltalake.write_deltalake(str(tmp_path / name), pa.table(columns, names=names))
    assert proof.each_once(tmp_path / "whole", places).startswith("all 3 messages")
    with pytest.raises(SystemExit, match=r"the table lacks 1 of 3 messages, such as \('Orders', 1, 0\)"):
        proof.each_once(tmp_path / "lacks", places)
    with pytest.raises(SystemExit, match="the table has 1 messages twice"):
        proof.each_once(tmp_path / "twice", places)


def test_the_recorded_master_sends_what_a_real_one_sent(tmp_path: Path) -> None:
    """The same frames for the same first reports."""
    recorded = json.loads((FOLDER / "master-sessions533.json").read_text(encoding="utf-8"))
    sessions = {tuple(session["reports"]): session["frames"] for session in recorded["sessions"]}
    master = RecordedMaster(GoldenMaster("533", tmp_path).path)
    try:
        assert master.end == recorded["max"]
        for report in (0, 1, 65536):
            with socket.create_connection(("127.0.0.1", master.port)) as line, line.makefile("rb") as lines:
                line.sendall(report.to_bytes(8, "big"))
                for frame in [each for each in sessions[(report,)] if each["size"]]:
                    header = int.from_bytes(lines.read(8), "big"), int.from_bytes(lines.read(4), "big")
                    assert header == (frame["offset"], frame["size"])
                    assert hashlib.sha1(lines.read(frame["size"])).hexdigest() == frame["sha1"]
    finally:
        master.close()


def test_the_recorded_master_grows(tmp_path: Path) -> None:
    golden = GoldenMaster("540", tmp_path)
    master = RecordedMaster(golden.path, have=10)
    try:
        with Follower(tmp_path / "copy", f"127.0.0.1:{master.port}", config=golden.config) as follower:
            assert follower.wait_caught_up(30)
            offset, size = golden.records[9]
            assert follower.whole == offset + size
            master.have(10**9)
            while follower.whole < len(golden.log):
                assert follower.wait_caught_up(30)
    finally:
        master.close()


def test_the_recorded_master_as_a_program(tmp_path: Path) -> None:
    golden = GoldenMaster("533", tmp_path)
    words = [sys.executable, "-m", "examples.demo.recorded_master", str(golden.path), "--port", "0", "--rate", "1000"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        counts = [int(process.stdout.readline()) for _ in range(12)]
        process.kill()
    assert counts[0] == 0 and counts == sorted(counts) and counts[-1] == 868


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.nightly(of=["examples/demo/"])
def test_the_whole_story(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("deltalake", reason="deltalake is not installed")
    out = tmp_path / "out"
    assert __main__.main(["--out", str(out), "--orders", "5000", "--rate", "500", "--followed", "400"]) == 0
    text = capfd.readouterr().out
    assert "killed with " in text
    assert text.count("none missing, none twice") == 2
    assert "files compared with the engine's: every byte is equal" in text
    assert (out / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (out / "stream.svg").read_text(encoding="utf-8").startswith("<svg")
