"""`flintmq follow --config-from`, `--namesrv`, and `serve-ha --register`, against peers of recorded answers."""

import json
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from flintmq.store.layout.config_reader import read_config
from tests.cli.conftest import Run
from tests.cli.live.test_follow import line as line
from tests.compat.replication import GoldenMaster, queue_units
from tests.ha import conftest
from tests.ha.loopback import LoopbackMaster
from tests.remoting.remoting_peer import Answer, Asked, RemotingPeer, broker, recorded, reply, strict

golden_master = conftest.master


def whole_broker(golden_master: GoldenMaster, line: LoopbackMaster, **config: str) -> Answer:
    """A broker with the recorded tables, and the sizes and the log of the recorded master."""
    keys = {key: value for key, value in golden_master.config.items() if key != "haListenPort"} | config
    told = "".join(f"{key}={value}\n" for key, value in keys.items()).encode()
    runtime = b'{"table":{"commitLogMinOffset":"0","commitLogMaxOffset":"%d"}}' % len(golden_master.log)
    rest = broker({**recorded(golden_master.version), 26: told, 28: runtime})

    def answer(asked: Asked) -> bytes | None:
        return reply(asked, fields={"masterHaAddress": line.address}) if asked.code == 906 else rest(asked)

    return answer


def log_of(store: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((store / "commitlog").iterdir())).rstrip(b"\0")


def check_copy(store: Path, golden_master: GoldenMaster) -> None:
    """The log, the queues and the tables are the broker's."""
    bodies = recorded(golden_master.version)
    assert log_of(store) == golden_master.log.rstrip(b"\0") and queue_units(store) == golden_master.queue_units()
    for name, code, table in (
        ("topics.json", 21, "topicConfigTable"),
        ("subscriptionGroup.json", 201, "subscriptionGroupTable"),
        ("consumerOffset.json", 43, "offsetTable"),
        ("delayOffset.json", 45, "offsetTable"),
    ):
        assert strict((store / "config" / name).read_bytes())[table] == strict(bodies[code])[table], name


def test_a_brokers_tables_and_sizes(
    run: Run, tmp_path: Path, golden_master: GoldenMaster, line: LoopbackMaster
) -> None:
    with RemotingPeer(whole_broker(golden_master, line)) as peer:
        words = ("follow", line.address, "--config-from", peer.address, "--out", tmp_path / "s", "--once", "--json")
        result = run(*words)
        assert (result.code, result.err) == (0, "")
        assert [row["event"] for row in result.rows] == [
            "metadata", "opened", "connected", "resumed", "caught_up", "closed",
        ]  # fmt: skip
        assert set(result.rows[0]["files"]) == {
            "topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json",
            "messageRequestMode.json",
        }  # fmt: skip
        check_copy(tmp_path / "s", golden_master)
        assert "T0" not in read_config(str(tmp_path / "s")).topics, "the log adds none to the broker's table"
        again = run(*words)
        assert again.code == 0 and again.rows[0]["event"] == "opened", "nothing changed"
        (tmp_path / "s/config/topics.json").write_bytes(b'{"topicConfigTable":{}}')
        again = run(*words)
        assert [row["event"] for row in again.rows[:4]] == ["opened", "connected", "resumed", "metadata"]
        assert again.code == 0 and again.rows[3]["files"] == ["topics.json"]
        check_copy(tmp_path / "s", golden_master)


def test_a_refused_master_changes_no_table(
    run: Run, tmp_path: Path, golden_master: GoldenMaster, line: LoopbackMaster
) -> None:
    with RemotingPeer(whole_broker(golden_master, line)) as peer:
        words = ("follow", line.address, "--config-from", peer.address, "--out", tmp_path / "s", "--once", "--json")
        assert run(*words).code == 0
        (tmp_path / "s/config/topics.json").write_bytes(b'{"topicConfigTable":{"Own":{}}}')
        line.end = sum(golden_master.records[300])
        result = run(*words)
        assert result.code == 12 and [row["event"] for row in result.rows if row["event"] == "metadata"] == []
        assert set(read_config(str(tmp_path / "s")).topics) == {"Own"}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda asked: reply(asked, code=16, remark="not allowed"), "config"),
        (lambda asked: struct.pack(">i", 2**31 - 1), "config"),
        (broker({26: b"enableControllerMode=true\n"}), "config"),
        (broker({**recorded("533"), 26: b"mappedFileSizeCommitLog=131072\n"}), "geometry"),
    ],
)
def test_a_broker_that_refuses_ends_it_before_it_begins(
    run: Run, tmp_path: Path, line: LoopbackMaster, answer: Answer, reason: str
) -> None:
    with RemotingPeer(answer) as peer:
        words = ("--set", "mappedFileSizeCommitLog=65536", "--config-from", peer.address, "--json")
        result = run("follow", line.address, "--out", tmp_path / "s", *words)
    assert result.code == 12 and [row.get("reason") for row in result.rows] == [reason]
    assert not (tmp_path / "s").exists() and line.reports == []


def test_a_copy_with_files_of_another_size_is_refused_before_a_byte_comes(
    run: Run, tmp_path: Path, golden_master: GoldenMaster, line: LoopbackMaster
) -> None:
    """Begun without the broker's configuration, and of less than one of its files."""
    wrong = {key: value for key, value in golden_master.config.items() if key != "haListenPort"}
    wrong["mappedFileSizeCommitLog"] = golden_master.file_size * 2
    sets = [word for key, value in wrong.items() for word in ("--set", f"{key}={value}")]
    line.end = sum(golden_master.records[20])
    assert run("follow", line.address, "--out", tmp_path / "s", "--once", *sets).code == 0
    before, asked = log_of(tmp_path / "s"), list(line.reports)
    with RemotingPeer(whole_broker(golden_master, line)) as peer:
        words = ("follow", line.address, "--out", tmp_path / "s", "--config-from", peer.address, "--json")
        result = run(*words)
        assert result.code == 12 and [row.get("reason") for row in result.rows] == ["geometry"]
        for size in (golden_master.file_size, golden_master.file_size * 2):
            assert f"have {size}" in result.err
        assert log_of(tmp_path / "s") == before and line.reports == asked
    with RemotingPeer(broker({**recorded(golden_master.version), 26: b""})) as silent:
        words = ("follow", line.address, "--out", tmp_path / "s", "--config-from", silent.address, "--once")
        assert run(*words).code == 0, "a broker that does not tell"


def test_a_broker_that_is_not_there(run: Run, tmp_path: Path, line: LoopbackMaster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        nobody = f"127.0.0.1:{one.getsockname()[1]}"
    result = run("follow", line.address, "--out", tmp_path / "s", "--config-from", nobody, "--once", "--json")
    assert result.code == 2 and "--config-from" in result.err and not (tmp_path / "s").exists()


def test_brokers_whose_replication_port_does_not_answer_leave_no_directory(
    run: Run, tmp_path: Path, golden_master: GoldenMaster, line: LoopbackMaster
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        line.address = nobody = f"127.0.0.1:{one.getsockname()[1]}"
    with RemotingPeer(whole_broker(golden_master, line)) as peer:
        words = ("follow", nobody, "--out", tmp_path / "s", "--config-from", peer.address, "--once", "--json")
        result = run(*words)
        assert result.code == 2 and "nobody answers there" in result.err
        assert [row["event"] for row in result.rows] == ["lost"]
        table = {"a": {"brokerAddrs": {"0": peer.address}, "cluster": "C"}}
        with RemotingPeer(broker({106: json.dumps({"brokerAddrTable": table}).encode()})) as names:
            words = ("follow", "--namesrv", names.address, "--out", tmp_path / "{broker}", "--once", "--json")
            assert run(*words).code == 2
            result = run(*words, "--broker", "z")
            assert result.code == 2 and "was not copied" in result.err
    assert list(tmp_path.iterdir()) == []


def test_all_brokers_of_a_name_server(
    run: Run, tmp_path: Path, golden_master: GoldenMaster, line: LoopbackMaster
) -> None:
    with (
        RemotingPeer(whole_broker(golden_master, line)) as one,
        RemotingPeer(lambda asked: reply(asked, code=16, remark="not allowed")) as closed,
    ):
        table = {
            "a": {"brokerAddrs": {"0": one.address}, "cluster": "C"},
            "b": {"brokerAddrs": {"0": one.address, "1": closed.address}, "cluster": "C"},
            "other": {"brokerAddrs": {"0": closed.address}, "cluster": "D"},
            "..": {"brokerAddrs": {"0": one.address}, "cluster": "E"},
        }
        with RemotingPeer(broker({106: json.dumps({"brokerAddrTable": table}).encode()})) as names:
            words = ("follow", "--namesrv", names.address, "--out", tmp_path / "{broker}", "--once", "--json")
            result = run(*words, "--cluster", "C")
            assert (result.code, result.err) == (0, "")
            assert {row["broker"] for row in result.rows} == {"a", "b"}
            check_copy(tmp_path / "a", golden_master)
            check_copy(tmp_path / "b", golden_master)
            result = run(*words)
            assert result.code == 12
            refused = {row["broker"]: row["detail"] for row in result.rows if row["event"] == "refused"}
            assert set(refused) == {"..", "other"} and "not allowed" in refused["other"]
            assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"], "nothing elsewhere"
            result = run(*words, "--broker", "other")
            assert result.code == 12 and [row["event"] for row in result.rows] == ["refused"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["h:1", "--namesrv", "h:2", "--out", "S/{broker}"], "either"),
        (["--namesrv", "h:2", "--out", "S"], "{broker}"),
        (["--namesrv", "h", "--out", "S/{broker}"], "HOST:PORT"),
        (["--namesrv", "h:2", "--out", "S/{broker}", "--config-from", "h:1"], "--config-from"),
        (["h:1", "--out", "S", "--cluster", "C"], "--namesrv"),
        (["h:1", "--out", "S", "--broker", "b"], "--namesrv"),
        (["h:1", "--out", "S", "--config-from", "h"], "HOST:PORT"),
    ],
)
def test_wrong_use(run: Run, tmp_path: Path, words: list[str], message: str) -> None:
    result = run("follow", *[word.replace("S", str(tmp_path / "s")) for word in words])
    assert result.code == 2 and message in result.err and not (tmp_path / "s").exists()


# -- serve-ha --register -----------------------------------------------------------------------------------------------


def test_a_registration_lasts_as_long_as_the_command(golden_master: GoldenMaster) -> None:
    with RemotingPeer(lambda asked: reply(asked, b'{"brokerAddrTable":{}}' if asked.code == 106 else b"")) as names:
        words = ["--register", names.address, "--broker-name", "b", "--cluster", "C"]
        command = [sys.executable, "-m", "flintmq", "serve-ha", str(golden_master.path), "--listen", "127.0.0.1:0"]
        with subprocess.Popen([*command, "--json", *words], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            address = json.loads(child.stdout.readline())["address"]
            row = json.loads(child.stdout.readline())
            assert row == {"event": "registered", "server": names.address, "broker": "b", "cluster": "C"}
            assert names.codes() == [106, 103] and names.asked[1].fields["haServerAddr"] == address
            child.send_signal(signal.SIGTERM)
            rest = [json.loads(text) for text in child.communicate(timeout=60)[0].splitlines()]
        assert child.returncode == 0 and rest == [{"event": "closed"}]
        assert names.codes() == [106, 103, 104]


def test_a_registration_that_is_refused(run: Run, golden_master: GoldenMaster) -> None:
    other = b'{"brokerAddrTable":{"b":{"brokerAddrs":{"0":"10.0.0.9:10911"},"cluster":"C"}}}'
    with RemotingPeer(broker({106: other})) as names:
        words = ("--listen", "127.0.0.1:0", "--register", names.address, "--broker-name", "b", "--cluster", "C")
        result = run("serve-ha", golden_master.path, *words)
    assert result.code == 12 and "10.0.0.9:10911" in result.err and names.codes() == [106]
    result = run("serve-ha", golden_master.path, "--listen", "127.0.0.1:0", "--register", "127.0.0.1:1")
    assert result.code == 2 and "go together" in result.err
