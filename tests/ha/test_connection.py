"""The TCP line to a master: its time limits, which the system keeps, and its ends."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from flintmq.ha.connection import Wire, dial
from tests.support.threads import alarms


@pytest.fixture
def both() -> Iterator[tuple[Wire, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = dial(server.getsockname()[:2], 5)
        other, _ = server.accept()
    with other:
        yield line, other
    line.close()


@pytest.mark.parametrize("seconds", [0.05, 0.4])
def test_a_read_without_bytes_ends_in_time(both: tuple[Wire, socket.socket], seconds: float) -> None:
    line, other = both
    line.settimeout(seconds)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        line.recv_into(memoryview(bytearray(10)))
    assert seconds * 0.9 <= time.monotonic() - began < seconds + 10
    other.sendall(b"later")
    buffer = bytearray(10)
    assert line.recv_into(memoryview(buffer)) == 5 and buffer.startswith(b"later")


def test_the_smallest_limit_is_a_limit(both: tuple[Wire, socket.socket]) -> None:
    both[0].settimeout(1e-9)
    with pytest.raises(TimeoutError):
        both[0].recv_into(memoryview(bytearray(10)))


def test_a_master_that_does_not_read_ends_a_report_in_time(both: tuple[Wire, socket.socket]) -> None:
    line, _ = both
    line.settimeout(0.2)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        line.sendall(bytes(64 << 20))
    assert time.monotonic() - began < 20


def test_a_limit_may_be_raised_again(both: tuple[Wire, socket.socket]) -> None:
    line, other = both
    line.settimeout(0.01)
    line.settimeout(10)
    threading.Timer(0.3, other.sendall, [b"x"]).start()
    assert line.recv_into(memoryview(bytearray(10))) == 1


def test_the_end_and_a_reset_are_no_time_limit(both: tuple[Wire, socket.socket]) -> None:
    line, other = both
    other.shutdown(socket.SHUT_WR)
    assert line.recv_into(memoryview(bytearray(10))) == 0
    line.sendall(b"unread")
    other.close()
    with pytest.raises(ConnectionError):
        for _ in range(100):
            line.sendall(b"x" * 1000)
            time.sleep(0.01)


def test_a_signal_handler_runs_while_it_waits(both: tuple[Wire, socket.socket]) -> None:
    """One that raises ends the wait; after one that does not, the wait goes on."""
    line, other = both
    line.settimeout(10)
    ran: list[int] = []
    with alarms(lambda *_: ran.append(1), 0.1):
        threading.Timer(0.4, other.sendall, [b"x"]).start()
        assert line.recv_into(memoryview(bytearray(10))) == 1 and ran == [1]

    def raises(*_: object) -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), alarms(raises, 0.1):
        line.recv_into(memoryview(bytearray(10)))
    assert time.monotonic() - began < 5
