"""Send orders to a broker, and print what it acknowledges.

Run it with `python -m examples.demo.sender ADDRESS --orders N`. With `--built` RocketMQ's own Java producer sends them,
else the client of `flintmq.remoting`. Each line of the output is a message that was acknowledged: its topic, queue and
queue offset.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from flintmq.errors import RemotingError
from flintmq.remoting.client import RemotingClient
from flintmq.remoting.names import SEND_SHORT, SUCCESS

TOPIC, QUEUES, AT_ONCE, TRY_S = "Orders", 4, 100, 30.0
Send = Callable[[list[str]], dict[str, tuple[int, int]]]
"""Sends bodies; returns queue and queue offset of each that was acknowledged."""


def by_python(address: str) -> Send:
    """Return what sends by the client of `flintmq.remoting`, one after the other."""
    client = RemotingClient(address)

    def send(bodies: list[str]) -> dict[str, tuple[int, int]]:
        sent = {}
        for body in bodies:
            fields = {"a": "demo", "b": TOPIC, "c": "TBW102", "d": str(QUEUES), "e": str(hash(body) % QUEUES)}
            fields |= {"f": "0", "g": str(time.time_ns() // 1_000_000), "h": "0", "i": f"KEYS\x01{body}\x02"}
            answer = client.ask(SEND_SHORT, fields, body.encode())
            if answer.code == SUCCESS:
                sent[body] = int(answer.fields["queueId"]), int(answer.fields["queueOffset"])
        return sent

    return send


def by_java(address: str, built: Path) -> Send:
    """Return what sends by RocketMQ's Java producer, all at once."""
    path = f"{built}/target/oracle.jar:{built}/lib/*"
    words = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", path, "flintmq.oracle.Oracle", "clients"]
    java = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert java.stdin is not None and java.stdout is not None
    to, back = java.stdin, java.stdout

    def send(bodies: list[str]) -> dict[str, tuple[int, int]]:
        asked = {"op": "send", "names": address, "topic": TOPIC, "bodies": bodies, "how": "async"}
        to.write(json.dumps(asked).encode() + b"\n")
        to.flush()
        answer = json.loads(back.readline())
        if "error" in answer:  # the broker is not there yet, mostly
            raise OSError(answer["error"])
        return {row["body"]: (row["queue"], row["offset"]) for row in answer["sent"] if row["status"] == "SEND_OK"}

    return send


def main(arguments: list[str] | None = None) -> int:
    """Send, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--orders", type=int, required=True)
    parser.add_argument("--rate", type=float, default=1000, help="orders a second")
    parser.add_argument("--built", type=Path, help="the directory of a built oracle (tests/interop/oracle)")
    given = parser.parse_args(arguments)
    send = by_java(given.address, given.built) if given.built else by_python(given.address)
    limit = time.monotonic() + TRY_S + given.orders / given.rate
    left = [f"order-{number}" for number in range(given.orders)]
    while left and time.monotonic() < limit:
        begin = time.monotonic()
        try:
            sent = send(left[:AT_ONCE])
        except (OSError, RemotingError) as error:
            print(error, file=sys.stderr, flush=True)
            sent = {}
        for queue, offset in sent.values():
            print(json.dumps({"topic": TOPIC, "queue_id": queue, "queue_offset": offset}), flush=True)
        left = [body for body in left[:AT_ONCE] if body not in sent] + left[AT_ONCE:]  # again, as clients do
        time.sleep(max(AT_ONCE / given.rate - (time.monotonic() - begin), 0))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
