"""Times a put that waits for one replica with nothing of FlintMQ around: what the wake-ups of HA7 alone cost.

    python experiments/replica_bound.py [COUNT]

`threads`: the way of the listener. A thread hands over through a socket pair and waits for a lock; the listener's
thread wakes in a selector, sends 1 KB to another process, wakes for its 8 bytes and opens the lock. `direct`: the
thread that puts sends by itself and waits for the 8 bytes. The other process receives and answers, nothing else.
`loop`: 200 tasks of an event loop store 1 KB each into the pages of a new file; the records of a turn go out at once,
and the other process stores them into a new file, too, before it answers.
Microseconds a put, median of five rounds in turn.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import selectors
import socket
import statistics
import sys
import tempfile
import threading
import time

FRAME, REPORT = bytes(1040), bytes(8)


def new_file(size: int) -> mmap.mmap:
    """Return the pages of a new file, not touched yet."""
    with tempfile.TemporaryFile() as file:
        os.posix_fallocate(file.fileno(), 0, size)
        return mmap.mmap(file.fileno(), size)


def storing_follower(address: tuple[str, int], size: int) -> None:
    """Store what comes, and report how much it was."""
    line, pages, at = socket.create_connection(address), new_file(size), 0
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    view = memoryview(pages)
    while got := line.recv_into(view[at : at + (1 << 18)]):
        at += got
        line.sendall(at.to_bytes(8, "big"))


def loop(count: int) -> float:
    """Have 200 tasks put and wait."""
    server, size = socket.create_server(("127.0.0.1", 0)), count * len(FRAME)
    child = os.fork()
    if not child:
        storing_follower(server.getsockname(), size + (1 << 18))
        os._exit(0)
    line, _ = server.accept()
    pages, begun, end, waiting = new_file(size), 0, 0, []

    def send() -> None:
        nonlocal begun
        line.sendall(memoryview(pages)[begun:end])
        begun = end

    def report() -> None:
        acknowledged = int.from_bytes(line.recv(4096)[-8:], "big")
        while waiting and waiting[0][0] <= acknowledged:
            waiting.pop(0)[1].set_result(None)

    async def put(running: asyncio.AbstractEventLoop) -> None:
        nonlocal end
        for _ in range(count // 200):
            if end == begun:
                running.call_soon(send)
            pages[end : end + len(FRAME)] = FRAME
            end += len(FRAME)
            future = running.create_future()
            waiting.append((end, future))
            await future

    async def puts() -> float:
        running = asyncio.get_running_loop()
        running.add_reader(line.fileno(), report)
        began = time.perf_counter()
        await asyncio.gather(*(put(running) for _ in range(200)))
        return (time.perf_counter() - began) / count * 1e6

    took = asyncio.run(puts())
    line.close()
    server.close()
    os.waitpid(child, 0)
    return took


def follower(address: tuple[str, int]) -> None:
    """Answer each frame with a report, until the line ends."""
    line, buffer = socket.create_connection(address), bytearray(1 << 16)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    left = len(FRAME)
    while got := line.recv_into(buffer):
        left -= got
        if left <= 0:
            line.sendall(REPORT)
            left += len(FRAME)


def direct(line: socket.socket, count: int) -> float:
    """Send and wait in one thread."""
    began = time.perf_counter()
    for _ in range(count):
        line.sendall(FRAME)
        line.recv(64)
    return (time.perf_counter() - began) / count * 1e6


def threads(line: socket.socket, count: int) -> float:
    """Hand over to a listener's thread, and wait for it."""
    bell, ear = socket.socketpair()
    waits, over = threading.Lock(), False
    waits.acquire()
    selector = selectors.DefaultSelector()
    for one in (ear, line):
        selector.register(one, selectors.EVENT_READ)

    def listen() -> None:
        while not over:
            for key, _ in selector.select():
                if key.fileobj is ear:
                    ear.recv(64)
                    if not over:
                        line.sendall(FRAME)
                else:
                    line.recv(64)
                    waits.release()

    thread = threading.Thread(target=listen)
    thread.start()
    began = time.perf_counter()
    for _ in range(count):
        bell.send(b"\0")
        waits.acquire()
    took = (time.perf_counter() - began) / count * 1e6
    over = True
    bell.send(b"\0")
    thread.join()
    return took


def main(count: int) -> None:
    """Run both ways in turn and print the medians."""
    server = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if not child:
        follower(server.getsockname())
        os._exit(0)
    line, _ = server.accept()
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    found: dict[str, list[float]] = {"threads": [], "direct": [], "loop": []}
    for _ in range(5):
        for name, way in (("threads", threads), ("direct", direct)):
            found[name].append(way(line, count))
        found["loop"].append(loop(60_000))
    line.close()
    os.waitpid(child, 0)
    for name, times in found.items():
        print(f"{name:8} {statistics.median(times):6.1f} us a put ({', '.join(f'{one:.1f}' for one in times)})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000)
