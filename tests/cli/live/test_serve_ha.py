"""`flintmq serve-ha` as a process: what it says, what a follower gets, and its end."""

import json
import re
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import Run, process
from tests.ha.lines import Line
from tests.support.engine import log_bytes, open_small, put_all


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, int]:
    """A store of several files, and its log's end."""
    with open_small(tmp_path / "store") as made:
        last = put_all(made, 80)[-1]
    return tmp_path / "store", last.physical_offset + last.size


def address_in(text: str) -> tuple[str, int]:
    found = re.search(r"127\.0\.0\.1:(\d+)", text)
    assert found, text
    return "127.0.0.1", int(found[1])


def test_events(store: tuple[Path, int]) -> None:
    path, end = store
    with process("serve-ha", path, "--listen", "127.0.0.1:0", "--new-slave", "first", "--json") as child:
        assert child.stdout is not None
        events = [json.loads(child.stdout.readline())]
        assert events[0]["event"] == "listening" and (events[0]["begin"], events[0]["end"]) == (0, end)
        with Line(address_in(events[0]["address"]), 0) as line:
            assert line.up_to(end) == log_bytes(path)[0][:end]
            events.append(json.loads(child.stdout.readline()))
            follower = "{}:{}".format(*line.address)
        events.append(json.loads(child.stdout.readline()))
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=20)
        events += [json.loads(row) for row in out.splitlines()]
    assert (child.returncode, err) == (0, "")
    assert events[1:] == [
        {"event": "follower", "address": follower, "offset": 0},
        {"event": "ended", "address": follower, "reason": "it left"},
        {"event": "closed"},
    ]


def test_words_for_people(store: tuple[Path, int]) -> None:
    path, end = store
    with process("serve-ha", path, "--listen", "0", "--allow", "10.1.2.0/24") as child:
        assert child.stderr is not None
        said = child.stderr.readline()
        assert f"followers may have the log, 0 to {end}" in said
        with Line(address_in(said), 1) as line:
            assert line.hung_up() == b""
        assert "is not in an allowed network" in child.stderr.readline()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=20)
    assert (child.returncode, out) == (0, "") and "no follower is served any more" in err


def test_a_reader_of_the_events_that_goes_ends_it(store: tuple[Path, int]) -> None:
    with process("serve-ha", store[0], "--listen", "0", "--json") as child:
        assert child.stdout is not None
        address = address_in(child.stdout.readline())
        child.stdout.close()
        with Line(address, 1) as line:
            line.frame()
            assert child.wait(20) == 0


def test_wrong_words(run: Run, store: tuple[Path, int], tmp_path: Path) -> None:
    path = store[0]
    for words, code, said in (
        ((path, "--listen", "here:there"), 2, "not HOST:PORT, such as 127.0.0.1:10912"),
        ((path, "--listen", "192.0.2.1:0"), 2, "flintmq: --listen '192.0.2.1', port 0: "),
        ((path, "--listen", "192.0.2.1:0"), 2, "give another address"),
        ((path, "--listen", "0", "--allow", "x"), 2, "flintmq: --allow: 'x' does not appear to be an IPv4 or IPv6"),
        ((path, "--listen", "0", "--allow", "x"), 2, "give networks such as 10.1.2.0/24"),
        ((path, "--listen", "0", "--new-slave", "all"), 2, "new-slave"),
        ((tmp_path / "absent", "--listen", "0"), 2, "absent"),
        (("s3://bucket/store", "--listen", "0"), 2, "s3://bucket/store"),
    ):
        result = run("serve-ha", *words)
        assert result.code == code and said in result.err and result.err.count("\n") == 1, (words, result)
