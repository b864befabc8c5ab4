"""The units of systemd: systemd reads them, their command lines are ours, and SIGTERM ends each of them with 0."""

import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flintmq.cli import parser
from flintmq.cli.help_topics import EXIT_TERMINATED
from flintmq.cli.names import COMMANDS
from tests.compat.stores import Golden
from tests.remoting import remoting_peer
from tests.support.threads import within

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "systemd"
UNITS = {path.stem.removeprefix("flintmq-"): path for path in sorted(FOLDER.glob("*.service"))}
PROGRAM = "/opt/flintmq/bin/flintmq"
HERE = [name for name in UNITS if name in COMMANDS]
SECURE = {
    "NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes",
    "CapabilityBoundingSet": "", "SystemCallFilter": "@system-service",
}  # fmt: skip
WRITES = {"follow": "--out", "export": "--out", "broker": ""}
"""Units that write, and the option that names the place; empty: the argument does."""


def settings(name: str) -> dict[str, str]:
    """The settings of a unit; none is given twice."""
    lines = [line for line in UNITS[name].read_text(encoding="utf-8").splitlines() if re.match(r"[A-Z]\w*=", line)]
    found = dict(line.split("=", 1) for line in lines)
    assert len(found) == len(lines), "given twice"
    return found


def words_of(name: str) -> list[str]:
    program, *words = shlex.split(settings(name)["ExecStart"])
    assert program == PROGRAM
    return words


def test_there_is_one_for_each_command_that_goes_on() -> None:
    assert {*UNITS} == {"broker", "export", "follow", "metrics", "ui"}
    assert {*UNITS} - {*HERE} <= {"ui"}, "a unit of a command that is not there"


@pytest.mark.parametrize("name", UNITS)
def test_systemd_has_nothing_to_say(name: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / UNITS[name].name
    text = UNITS[name].read_text(encoding="utf-8")
    for program, complains in ((sys.executable, False), ("/opt/no/such/flintmq", True)):
        unit.write_text(text.replace(PROGRAM, program))
        done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60)
        about = [line for line in done.stderr.splitlines() if unit.name in line]
        assert bool(about or done.returncode) == complains, done.stderr
    unit.write_text(text.replace("ProtectSystem=strict", "ProtectSystem=strickt"))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60)
    assert "strickt" in done.stderr, "it does not look"


@pytest.mark.parametrize("name", UNITS)
def test_a_process_can_do_no_more_than_it_must(name: str) -> None:
    found = settings(name)
    assert {key: found.get(key) for key in SECURE} == SECURE
    assert (found.get("DynamicUser") == "yes") != (found.get("User") == found.get("Group") == "flintmq")
    assert "ProcSubset" not in found, "who is live is asked by locks, and memory by /proc"
    assert ("ReadWritePaths" in found) == (name in WRITES), "only those that write may"
    assert found["Restart"] == "on-failure" and int(found["RestartSec"]) >= 5
    assert found["SuccessExitStatus"] == str(EXIT_TERMINATED), "stopped while it starts"
    page = found["Documentation"].removeprefix("https://flintmq.github.io/flintmq/").rstrip("/")
    assert (ROOT / "docs" / f"{page}.md").is_file(), page


@pytest.mark.parametrize("name", WRITES)
def test_what_it_writes_is_where_it_may(name: str) -> None:
    words = words_of(name)
    out = words[words.index(WRITES[name]) + 1] if WRITES[name] else words[1]
    place = settings(name)["ReadWritePaths"]
    assert out == place or out.startswith(f"{place}/")


@pytest.mark.parametrize("name", HERE)
def test_the_command_line_is_one_of_ours(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(parser, "call", lambda command, values: called.append(command) or 0)
    assert parser.run(words_of(name)) == 0
    assert called == [parser.load(name)]


@contextmanager
def at_work(name: str, folder: Path, store: Path, *before: object) -> Iterator[subprocess.Popen[str]]:
    """A unit's command as a process of this machine, once it is at work; `before` is a program that runs it."""
    shutil.copytree(store, folder / "copies" / "a")
    words = [re.sub(r"^/data/", f"{folder}/", word) for word in words_of(name)]
    words = [re.sub(r"^127\.0\.0\.1:\d+$", "127.0.0.1:0", word) for word in words]
    answers = {106: b'{"brokerAddrTable":{},"clusterAddrTable":{}}'}
    with remoting_peer.RemotingPeer(
        remoting_peer.broker(answers)
    ) as names:  # which knows no broker, so nothing is said
        words = [names.address if word == "10.0.0.1:9876" else word for word in words]
        command = [*map(str, before), sys.executable, "-m", "flintmq", *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
            try:
                assert child.stdout is not None
                says = select.poll()
                says.register(child.stdout, select.POLLIN)
                assert within(lambda: names.asked or says.poll(0)) and child.poll() is None, child.stdout.read()
                yield child
            finally:
                child.kill()


def ended(child: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code after SIGTERM, and what it has said."""
    child.send_signal(signal.SIGTERM)
    said, _ = child.communicate(timeout=60)
    return child.returncode, said


@pytest.mark.parametrize("name", HERE)
def test_sigterm_ends_it_with_0(name: str, tmp_path: Path, golden: Callable[[str], Golden]) -> None:
    if name == "export":
        pytest.importorskip("deltalake", reason="deltalake is not installed")
    with at_work(name, tmp_path, golden("basic").path) as child:
        code, said = ended(child)
    assert code == 0, said


@pytest.fixture(scope="module")
def allowed() -> set[str]:
    """The system calls of @system-service, as this systemd knows them."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    done = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True)
    sets = {part.split()[0]: set(part.split()) for part in re.split(r"\n(?=@)", f"\n{done.stdout}")[1:]}
    found, new = set[str](), {"@system-service"}
    while new:
        found |= new
        new = set().union(*(sets.get(name, set()) for name in new)) - found
    assert {"read", "futex", "fsync"} <= found and "reboot" not in found
    return found


@pytest.mark.parametrize("name", HERE)
def test_its_system_calls_are_allowed(
    name: str, tmp_path: Path, golden: Callable[[str], Golden], allowed: set[str]
) -> None:
    if name == "export":
        pytest.importorskip("deltalake", reason="deltalake is not installed")
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    log = tmp_path / "calls"
    strace = ["strace", "-D", "-f", "-qq", "-o", log]  # -D: the process that is started is the command itself
    if subprocess.run([*strace, "true"], capture_output=True).returncode or not log.is_file():
        pytest.skip("strace cannot trace here")
    with at_work(name, tmp_path, golden("basic").path, *strace) as child:
        code, said = ended(child)
    assert code == 0, said
    calls = set(re.findall(r"^\d+ +(\w+)\(", log.read_text(encoding="utf-8", errors="replace"), re.MULTILINE))
    assert len(calls) > 30 and calls - allowed == set()
