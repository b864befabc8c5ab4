"""Play a recorded master: `python -m examples.demo.recorded_master STORE --port PORT`.

For demos and examples without Java. The log of a store that RocketMQ wrote goes out over a port as RocketMQ's master
sends it: a follower reports where it is, and gets frames of at most 32 KiB, none across two files, from there on. With
`--rate` the log grows by so many messages a second, so that there is something to follow; each line of the output is
the number of messages that the master has by then. `--have` is the number that it begins with.
"""

from __future__ import annotations

import argparse
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from flintmq.ha.frames import FRAME_HEADER, REPORT, FrameHeader

BATCH = 32_768
BLANK = 0xCBD43194  # magic of the record that ends a file
BEAT_S = 5.0
LOOK_S = 0.02


class RecordedMaster:
    """A master of bytes.

    Args:
        store: a store that nobody writes.
        have: number of messages at the beginning; None: all.
        port: where followers come; 0: any free one.
        beat_s: seconds between heartbeats.

    Attributes:
        ends: log offset after each message.
        end: log offset up to which followers may have the log.
    """

    def __init__(self, store: Path, have: int | None = None, port: int = 0, beat_s: float = BEAT_S) -> None:
        files = sorted((store / "commitlog").iterdir())
        self.beat_s = beat_s
        self.begin, self.file_size = int(files[0].name), files[0].stat().st_size
        self.log = b"".join(file.read_bytes() for file in files)
        self.ends = list(self._ends())
        self.end = self.begin
        self.have(len(self.ends) if have is None else have)
        self.server = socket.create_server(("127.0.0.1", port))
        self.port = int(self.server.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def have(self, messages: int) -> None:
        """Have this many messages, or all if there are not so many."""
        if messages:
            self.end = max(self.end, self.ends[min(messages, len(self.ends)) - 1])

    def _ends(self) -> Iterator[int]:
        at = 0
        while at + 8 <= len(self.log):
            size, magic = struct.unpack_from(">II", self.log, at)
            if not size:
                return
            at += size
            if magic != BLANK:
                yield self.begin + at

    def close(self) -> None:
        """Accept nobody any more."""
        self.server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                line, _ = self.server.accept()
                threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        with suppress(OSError), line:
            first = REPORT.unpack(self._exactly(line, REPORT.size)).offset
            threading.Thread(target=self._read, args=(line,), daemon=True).start()
            at, sent = first or self.end - self.end % self.file_size, time.monotonic()
            while True:
                room = min(BATCH, self.file_size - at % self.file_size, self.end - at) if at >= self.begin else 0
                if room > 0:
                    body = self.log[at - self.begin : at - self.begin + room]
                    line.sendall(FRAME_HEADER.pack(FrameHeader(at, room)) + body)
                    at, sent = at + room, time.monotonic()
                elif time.monotonic() - sent > self.beat_s:
                    line.sendall(FRAME_HEADER.pack(FrameHeader(at, 0)))
                    sent = time.monotonic()
                else:
                    time.sleep(LOOK_S)

    def _read(self, line: socket.socket) -> None:
        """Read the later reports, which change nothing; at the end of the line its sender fails."""
        with suppress(OSError):
            while line.recv(4096):
                pass
            line.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _exactly(line: socket.socket, size: int) -> bytes:
        got = b""
        while len(got) < size:
            more = line.recv(size - len(got))
            if not more:
                raise ConnectionError("it went away before its first report")
            got += more
        return got


def main(arguments: list[str] | None = None) -> int:
    """Serve until killed, and return the exit code."""
    parser = argparse.ArgumentParser(description="A master whose log was recorded.")
    parser.add_argument("store", type=Path)
    parser.add_argument("--port", type=int, default=10912, help="where followers come (10912)")
    parser.add_argument("--rate", type=float, help="messages a second; without it the master has all at once")
    parser.add_argument("--have", type=int, default=0, help="messages at the beginning, with --rate (0)")
    given = parser.parse_args(arguments)
    master = RecordedMaster(given.store, None if given.rate is None else given.have, given.port)
    count, began = given.have if given.rate is not None else len(master.ends), time.monotonic()
    while True:
        print(count, flush=True)
        time.sleep(0.1)
        if given.rate is not None:
            count = min(len(master.ends), given.have + int((time.monotonic() - began) * given.rate))
            master.have(count)


if __name__ == "__main__":
    sys.exit(main())
