"""`flintmq broker` as a process: what it says, what it refuses, and its end."""

import fcntl
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from flintmq.broker.grpc import definitions_pb2 as wire
from flintmq.remoting.client import RemotingClient
from tests.broker.grpc.talk import GrpcTalk
from tests.broker.talk import KEYS, Line, heartbeat, pull, send
from tests.cli.conftest import Run, process
from tests.remoting.remoting_peer import strict
from tests.support.engine import log_files, open_small, put_all, stored
from tests.support.loopback import SMALL_BUFFER
from tests.support.prometheus import only, samples
from tests.support.threads import within

PULL, ROUTE, COMMIT, HEARTBEAT = 11, 105, 15, 34
STOP_S = 6.0  # three seconds for what is under way, and a loaded machine


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("broker") / "store"
    with open_small(path, **KEYS) as made:
        put_all(made, 30)
    return path


def everything(root: Path) -> dict[str, tuple[bytes, int]]:
    """Every file of a store with its bytes and its time."""
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()}


@contextmanager
def writing(*words: object) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The same of a broker that writes its store."""
    with process("broker", *words, "--listen", "127.0.0.1:0") as child:
        assert child.stdout is not None
        found = re.match(r"ready: (127\.0\.0\.1:\d+)", child.stdout.readline())
        assert found
        yield child, found[1]


@contextmanager
def serving(*words: object) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The command in a process that is ready, and its first address."""
    with process("broker", *words, "--read-only", "--listen", "127.0.0.1:0") as child:
        assert child.stdout is not None
        ready = child.stdout.readline()
        found = re.match(r"ready: (127\.0\.0\.1:\d+)", ready)
        assert found, ready
        yield child, found[1]


def ended(child: "subprocess.Popen[str]", number: int = signal.SIGTERM) -> tuple[str, str]:
    """End it by a signal; exit code 0 in time. Return the rest of what it said."""
    begin = time.monotonic()
    child.send_signal(number)
    rest = child.communicate(timeout=20)
    assert child.returncode == 0 and time.monotonic() - begin < STOP_S
    return rest


# -- what it says ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_line_when_it_is_ready(store: Path, number: int) -> None:
    before = everything(store)
    with process("broker", store, "--read-only", "--listen", "0", "--grpc", "127.0.0.1:0") as child:
        assert child.stdout is not None
        ready = child.stdout.readline()
        found = re.fullmatch(rf"ready: (127\.0\.0\.1:\d+), (127\.0\.0\.1:\d+), store {re.escape(str(store))}\n", ready)
        assert found, ready
        for address in found.groups():
            with RemotingClient(address) as client:
                assert client.ask(PULL, {k: str(v) for k, v in pull().items()}).code == 0
        assert ended(child, number) == ("", "")
    assert everything(store) == before


def test_ready_as_an_object(store: Path) -> None:
    with process("broker", store, "--read-only", "--listen", "0", "--json") as child:
        assert child.stdout is not None
        told = json.loads(child.stdout.readline())
        assert told.keys() == {"event", "listen", "store", "pid", "seconds"}
        assert (told["event"], told["store"], told["pid"]) == ("ready", str(store), child.pid)
        assert 0 < told["seconds"] < 20
        with RemotingClient(told["listen"][0]) as client:
            assert client.ask(206).code == 0
        assert ended(child) == ("", "")


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_metrics(tmp_path: Path, words: list[str]) -> None:
    with process(
        "broker", tmp_path / "new", "--dev", "--listen", "0", "--metrics", "0", "--name", "b-7", *words
    ) as child:
        assert child.stdout is not None
        ready = child.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/metrics", ready)
        address = re.search(r"127\.0\.0\.1:\d+", ready)
        assert found and address and found[0] != f"http://{address[0]}/metrics"
        assert ready.endswith(f'"metrics":"{found[0]}"}}\n' if words else f", metrics {found[0]}\n")
        with Line(address[0]) as line:
            assert line.ask(310, send("T"), b"x").code == 0
            with urllib.request.urlopen(found[0], timeout=30) as answer:
                told = samples(answer.read().decode())
        assert only(told, "rocketmq_messages_in_total", "node_id", "topic") == {("b-7", "T"): 1}
        assert only(told, "flintmq_broker_connections", "cluster") == {("DefaultCluster",): 1}
        assert ended(child) == ("", "")


def call(url: str, name: str, **told: object) -> object:
    """What a method of the control returns, as a test in another language asks for it."""
    request = urllib.request.Request(f"{url}/{name}", json.dumps(told).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())["result"]


@pytest.mark.parametrize("is_temporary", [True, False])
def test_control(tmp_path: Path, is_temporary: bool) -> None:
    words = ["--json"] if is_temporary else [tmp_path / "new", "--json"]
    with process("broker", *words, "--listen", "0", "--control", "0", "--metrics", "0") as child:
        assert child.stdout is not None
        told = json.loads(child.stdout.readline())
        url = told["control"]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{20,}", url)
        with Line(told["listen"][0]) as line:
            assert line.ask(310, send("T", properties="DELAY\x0118\x02"), b"x").code == 0
            call(url, "kill")
            assert line.hung_up()
        sizes = [path.stat().st_size for path in Path(told["store"], "commitlog").iterdir()]
        assert 0 < max(sizes) <= 64 << 20, "small files, without --dev"
        call(url, "restart")
        call(url, "advance", seconds=2 * 3600)
        [message] = call(url, "wait", topic="T", count=1, timeout=20)
        assert message["body"] == "eA=="
        with Line(told["listen"][0]) as line:
            assert line.ask(310, send("T"), b"y").code == 0
        with urllib.request.urlopen(told["metrics"], timeout=30) as answer:
            puts = only(samples(answer.read().decode()), "rocketmq_messages_in_total", "topic")
        assert puts["T",] == 2, "of the broker that runs now"
        call(url, "stop")
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(told["metrics"], timeout=30)
        out, err = ended(child)
        assert (out, err) == ("", "")
    assert Path(told["store"]).exists() is not is_temporary
    assert [path.name for path in tmp_path.iterdir()] == ([] if is_temporary else ["new"])


def test_control_of_a_store_that_is_there_is_refused(run: Run, store: Path, tmp_path: Path) -> None:
    before = everything(store)
    (tmp_path / "broker.conf").write_text(f"storePathCommitLog={store / 'commitlog'}\n", encoding="utf-8")
    for words, said in (
        ((store, "--dev"), "give an empty directory"),
        (("--config", tmp_path / "broker.conf"), "storePathCommitLog: a broker of tests"),
        (("--set", f"readOnlyCommitLogStorePaths={store / 'commitlog'}"), "readOnlyCommitLogStorePaths: a broker of"),
    ):
        result = run("broker", *words, "--listen", "0", "--control", "0")
        assert (result.code, result.out) == (2, "") and said in result.err
    assert everything(store) == before


def test_nobody_reads_standard_error(tmp_path: Path) -> None:
    """As with ProcessBuilder of Java and spawn of Node: what a test asks for fills no pipe."""
    with process("broker", tmp_path / "new", "--json", "--listen", "0", "--control", "0") as child:
        assert child.stdout is not None and child.stderr is not None
        fcntl.fcntl(child.stderr, fcntl.F_SETPIPE_SZ, 4096)
        told = json.loads(child.stdout.readline())
        call(told["control"], "drop_connections", times=200)
        for _ in range(200):
            with Line(told["listen"][0]) as line:
                line.start(PULL, pull())
                assert line.hung_up()
        with Line(told["listen"][0]) as line:
            assert line.ask(310, send("T"), b"x").code == 0
        assert ended(child) == ("", "")


def test_it_ends_with_the_test_that_started_it(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "flintmq", "broker", "--json", "--listen", "0", "--control", "0"]
    code = f"import subprocess, time; subprocess.Popen({words!r}); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        told = json.loads(parent.stdout.readline())
        try:
            parent.kill()
            assert select.select([parent.stdout], [], [], 20)[0] and parent.stdout.read() == "", "nobody has the pipe"
        finally:
            with suppress(ProcessLookupError):
                os.kill(told["pid"], signal.SIGKILL)
    assert not Path(told["store"]).exists()


def test_names_and_what_clients_get(store: Path) -> None:
    with serving(store, "--name", "b-7", "--cluster", "C7", "--advertise", "broker.example") as (child, address):
        with RemotingClient(address) as client:
            told = json.loads(client.ask(106).body)
        port = address.rpartition(":")[2]
        assert told["clusterAddrTable"] == {"C7": ["b-7"]}
        assert told["brokerAddrTable"]["b-7"]["brokerAddrs"] == {"0": f"broker.example:{port}"}
        assert ended(child) == ("", "")


def test_a_warning_where_others_can_come(store: Path) -> None:
    with process("broker", store, "--read-only", "--listen", "0.0.0.0:0", "--metrics", "0.0.0.0:0") as child:
        assert child.stdout is not None and child.stderr is not None
        assert child.stdout.readline().startswith("ready: 0.0.0.0:")
        out, err = ended(child)
    said = "0.0.0.0 is no address of this machine alone: whoever reaches it can read the"
    assert out == "" and f"{said} whole store\n" in err and f"{said} names of topics and groups" in err


def test_users(run: Run, store: Path, tmp_path: Path) -> None:
    """With an ACL nobody is warned of, whoever comes; a broken one is no start."""
    path = tmp_path / "users.json"
    path.write_text('{"users":[{"username":"alice","password":"secret12","type":"super"}]}', encoding="utf-8")
    with process("broker", store, "--read-only", "--acl", path, "--listen", "0.0.0.0:0") as child:
        assert child.stdout is not None
        ready = re.match(r"ready: 0\.0\.0\.0:(\d+)", child.stdout.readline())
        assert ready
        with Line(f"127.0.0.1:{ready[1]}") as talk:
            answer = talk.ask(PULL, pull())
            assert (answer.code, answer.remark) == (16, "username cannot be null.")
        assert ended(child) == ("", "")
    path.write_text('{"users":', encoding="utf-8")
    refused = run("broker", store, "--read-only", "--acl", path, "--listen", "0")
    assert refused.code == 2 and f"{path}: no ACL: " in refused.err


# -- a store that it writes --------------------------------------------------------------------------------------------


def test_what_was_sent_is_there_after_any_end(run: Run, tmp_path: Path) -> None:
    store = tmp_path / "new"
    for number, (end, code) in enumerate(((signal.SIGTERM, 0), (signal.SIGKILL, -9), (signal.SIGINT, 0))):
        with writing(store, "--dev") as (child, address):
            with Line(address) as line:
                assert line.ask(310, send("T"), b"%d" % number).fields["queueOffset"] == str(number)
            child.send_signal(end)
            assert child.wait(20) == code
    result = run("scan", store, "--json")
    assert result.code == 0 and len(result.out.splitlines()) == 3


def test_a_store_that_is_in_use(run: Run, tmp_path: Path) -> None:
    with writing(tmp_path / "new", "--dev"):
        result = run("broker", tmp_path / "new", "--listen", "0")
    assert (result.code, result.out) == (6, "") and "another process" in result.err


def test_a_temporary_store(tmp_path: Path) -> None:
    with process("broker", "--dev", "--listen", "0", "--json") as child:
        assert child.stdout is not None
        root = Path(json.loads(child.stdout.readline())["store"])
        assert (root / "commitlog").is_dir()
        ended(child)
    assert not root.exists()


def test_keys_of_brokers(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=b\nautoCreateTopicEnable=false\nnamesrvAddr=x:1\nflushDiskType=SYNC_FLUSH\n")
    with writing(tmp_path / "new", "--config", conf) as (_, address), Line(address) as line:
        assert line.ask(310, send("T"), b"x").code == 17
        assert b"flushDiskType=SYNC_FLUSH" in line.ask(26).body
    with writing(tmp_path / "new", "--config", conf, "--set", "autoCreateTopicEnable=true") as (_, address):
        with Line(address) as line:
            assert line.ask(310, send("T"), b"x").code == 0


# -- what it refuses ---------------------------------------------------------------------------------------------------


def test_words_that_cannot_be(run: Run, store: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "wrong.json").write_text("{}", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words, code, said in (
            (("--read-only",), 2, "give its path"),
            ((store, "--read-only", "--dev"), 2, "leave out dev"),
            ((store, "--offsets", "o.json"), 2, "for read_only"),
            ((tmp_path / "wrong.json",), 2, "is a file"),
            ((tmp_path / "new", "--set", "autoCreateTopicEnable=maybe"), 2, "neither true nor false"),
            ((tmp_path / "none", "--read-only"), 2, "none"),
            ((tmp_path / "empty", "--read-only"), 2, "empty"),
            ((store, "--read-only", "--listen", f"127.0.0.1:{port}"), 2, f"cannot listen at 127.0.0.1:{port}: "),
            ((store, "--read-only", "--listen", "0", "--grpc", f"127.0.0.1:{port}"), 2, "Address already in use"),
            ((store, "--read-only", "--listen", "0", "--metrics", f"127.0.0.1:{port}"), 2, "--metrics 127.0.0.1"),
            ((store, "--control", "0"), 2, "give an empty directory"),
            (("--read-only", "--control", "0"), 2, "does not go with --read-only"),
            ((tmp_path / "new", "--control", "0.0.0.0:0"), 2, "on this machine"),
            ((tmp_path / "new", "--dev", "--listen", "0", "--control", f"{port}"), 2, "--control 127.0.0.1"),
            ((store, "--read-only", "--listen", "192.0.2.1:0"), 2, "cannot listen at 192.0.2.1:0: "),
            ((store, "--read-only", "--listen", "here:there"), 2, "HOST:PORT"),
            ((store, "--read-only", "--listen", "0", "--offsets", tmp_path / "wrong.json"), 2, "name another file"),
            ((store, "--read-only", "--listen", "0", "--offsets", store / "o.json"), 2, "inside the store"),
            ((store, "--read-only", "--listen", "0", "--set", "noSuchKey=1"), 2, "noSuchKey"),
        ):
            result = run("broker", *words)
            assert (result.code, result.out) == (code, ""), words
            assert said in result.err and len(result.err.splitlines()) <= 2, result.err


def test_a_damaged_store(run: Run, tmp_path: Path) -> None:
    """Its last log files are missing: exit code 1."""
    stored(tmp_path / "store", 200)
    for file in log_files(tmp_path / "store")[2:]:
        file.unlink()
    result = run("broker", tmp_path / "store", "--read-only", "--listen", "0")
    assert (result.code, result.out) == (1, "") and "commitlog" in result.err


# -- its end -----------------------------------------------------------------------------------------------------------


def test_sigterm_amid_requests(store: Path) -> None:
    """Held pulls are answered: nothing came. So is what is under way; nothing waits for the pulls' time."""
    with serving(store) as (child, address), Line(address) as held, Line(address) as busy:
        waiting = {held.start(PULL, pull(offset=30, sysFlag=6, suspendTimeoutMillis=30_000)) for _ in range(20)}
        assert held.ask(ROUTE, {"topic": "T"}).code == 0
        under_way = {busy.start(PULL, pull()) for _ in range(50)}
        assert busy.frame() is not None
        ended_by = threading.Thread(target=ended, args=(child,))
        ended_by.start()
        answered = set[int]()
        try:
            while (found := held.frame()) is not None:
                assert (found.code, found.fields["nextBeginOffset"]) == (19, "30")
                answered.add(found.opaque)
        except EOFError:
            pass
        ended_by.join()
        assert answered == waiting and len(under_way) == 50
        assert child.returncode == 0


def test_sigterm_amid_large_answers(tmp_path: Path) -> None:
    """A client that begins to read late gets whole what was answered: some of 40 of 250 KB.

    Beyond 4 MiB of answers that it did not take, no request is read from it.
    """
    with open_small(tmp_path / "store", mappedFileSizeCommitLog=1 << 20, **KEYS) as made:
        put_all(made, 60, size=4096)
    with serving(tmp_path / "store") as (child, address), Line(address, receive_buffer=SMALL_BUFFER) as slow:
        waiting = {slow.start(PULL, pull(maxMsgNums=60)) for _ in range(40)}
        first = slow.frame()
        assert first is not None
        child.send_signal(signal.SIGTERM)
        answered = {first.opaque}
        try:
            while (found := slow.frame()) is not None:
                assert found.code == 0
                answered.add(found.opaque)
        except EOFError:
            pass
        assert child.wait(20) == 0 and slow.kept == b"", "half an answer"
        assert (4 << 20) // 250_000 <= len(answered) <= len(waiting)


def test_sigterm_with_a_client_that_takes_nothing(store: Path) -> None:
    with serving(store) as (child, address), Line(address, receive_buffer=SMALL_BUFFER) as bad:
        for _ in range(2000):
            bad.start(PULL, pull())
        assert ended(child)[0] == ""


def test_offsets_are_kept_through_the_end(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    for number in (7, 9):
        with serving(store, "--offsets", file) as (child, address):
            with Line(address) as talk:
                talk.ask(HEARTBEAT, body=heartbeat("a", "G"))
                asked = {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": number}
                talk.start(COMMIT, asked, flag=2)
                assert talk.ask(ROUTE, {"topic": "T"}).code == 0
            assert ended(child) == ("", "")
        assert strict(file.read_bytes()) == {"offsetTable": {"T@G": {"0": number}}}


def test_kill_9_changes_nothing(store: Path, tmp_path: Path) -> None:
    """Neither the store nor the file of offsets: what was not saved yet is consumed again."""
    before, file = everything(store), tmp_path / "offsets.json"
    file.write_bytes(b'{"offsetTable":{"T@G":{0:3}}}')
    with serving(store, "--offsets", file) as (child, address), Line(address) as talk:
        talk.ask(HEARTBEAT, body=heartbeat("a", "G"))
        talk.start(PULL, pull(offset=30, commitOffset=30, sysFlag=7, suspendTimeoutMillis=30_000))
        assert talk.ask(PULL, pull()).code == 0
        child.kill()
        assert talk.hung_up() and child.wait(20) == -signal.SIGKILL
    assert everything(store) == before
    with serving(store, "--offsets", file) as (child, address), Line(address) as talk:
        found = talk.ask(14, {"consumerGroup": "G", "topic": "T", "queueId": 0})
        assert found.fields["offset"] in ("3", "30")


def test_the_reader_of_its_line_goes(store: Path) -> None:
    """A pipe that is closed does not end it: clients are served on."""
    with serving(store) as (child, address):
        assert child.stdout is not None
        child.stdout.close()
        with RemotingClient(address) as client:
            assert client.ask(206).code == 0
        child.send_signal(signal.SIGTERM)
        assert child.wait(20) == 0


def test_it_serves_what_another_process_writes(tmp_path: Path) -> None:
    with open_small(tmp_path / "store", **KEYS) as made:
        put_all(made, 3)
        made.flush()
        with serving(tmp_path / "store") as (child, address), Line(address) as talk:
            number = talk.start(PULL, pull(offset=3, sysFlag=6, suspendTimeoutMillis=9000))
            assert talk.is_quiet(0.2)
            put_all(made, 1, 3)
            assert talk.answer(number).code == 0, "within a second or two"
            assert ended(child) == ("", "")
    assert os.path.exists(tmp_path / "store" / "lock") and within(lambda: child.returncode == 0)


# -- gRPC, and packages that are not there -----------------------------------------------------------------------------


def test_grpc_with_tls(tmp_path: Path) -> None:
    with writing(tmp_path / "store", "--dev", "--tls-self-signed", "--grpc", "127.0.0.1:0") as (child, address):
        for is_tls in (True, False):
            with GrpcTalk(address, tls=is_tls) as client:
                asked = wire.QueryRouteRequest(topic=wire.Resource(name="T"))
                assert client.ask("QueryRoute", asked).status.code == wire.TOPIC_NOT_FOUND
        assert ended(child) == ("", "")


@pytest.fixture
def without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes do not find the packages of the extras `grpc` and `tls`."""
    for name in ("h2", "google", "cryptography"):
        (tmp_path / "without" / name).mkdir(parents=True)
        text = f"raise ModuleNotFoundError('No module named {name}', name='{name}')\n"
        (tmp_path / "without" / name / "__init__.py").write_text(text)
    paths = [str(tmp_path / "without"), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


def test_remoting_needs_no_package(without: None, tmp_path: Path) -> None:
    """A client by gRPC is told off, in the log; the others are served."""
    with writing(tmp_path / "store", "--dev") as (child, address), Line(address) as talk:
        assert talk.ask(310, send("T"), b"hello").code == 0
        with Line(address) as grpc:
            grpc.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert grpc.hung_up()
        assert talk.ask(PULL, pull("T")).code == 0
        told = ended(child)[1]
        needed = "gRPC needs h2 and protobuf: pip install 'flintmq[grpc]'"
        assert told.endswith(f"connection closed: it speaks HTTP/2: {needed}\n") and told.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--grpc", "127.0.0.1:0"], "gRPC needs h2 and protobuf: pip install 'flintmq[grpc]'"),
        (["--tls-self-signed"], "a certificate is made by cryptography: pip install 'flintmq[tls]'"),
    ],
)
def test_an_extra_that_is_missing(without: None, tmp_path: Path, words: list[str], said: str) -> None:
    with process("broker", tmp_path / "store", "--listen", "127.0.0.1:0", *words) as child:
        _, told = child.communicate(timeout=20)
        assert child.returncode == 8 and said in told and "Traceback" not in told
