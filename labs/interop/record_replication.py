"""Record what the real masters, slaves and brokers of one version send: tests/compat/golden-ha is made by this.

    python -m labs.interop.record_replication 5.5.0 [--into DIR] [--parts store,sessions,brokers]

`store` makes a master's store at rest; `sessions` asks that store for its log from many places; `brokers` runs a slave
broker and its master for 100 s, with relays between them and a stand-in for the name server. Takes two minutes.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import json
import shutil
import socket
import struct
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labs.interop.broker_process import JSON_VERSION, Admin, Broker, body_of, frame, header, read_frame
from labs.interop.live import KEYS, TOPICS, LiveJava
from tests.interop.java import Java, home
from tests.interop.relay import Passed, Relay, free_port

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "compat" / "golden-ha"
DATA_S, HEARTBEAT_S, FRAMES_MOST = 0.6, 6.0, 30
BROKERS_S = 100

# -- a store at rest, and what a master sends of it --------------------------------------------------------------------


def make_store(version: str, place: Path) -> Path:
    """Six log files with blanks of 8 and of 500 bytes, a batch, a record longer than a frame, a host of IPv6."""
    store = place / f"ha{version.replace('.', '')}"
    live = LiveJava(version, store)
    try:
        _fill(live, 11, 488)
        live("pad", topic="T0", queue=0, seed=1, leave=8)
        _fill(live, 12, 60)
        live("pad", topic="T0", queue=1, seed=2, leave=500)
        live("batch", topic="T1", queue=0, props={"CLUSTER": "C"}, messages=[
            {"body": f"batch {n}", "keys": f"b{n}", "tags": "B"} for n in range(12)
        ])  # fmt: skip
        live("put", topic="T2", queue=0, keys="big", body={"seed": 5, "size": 40000})
        live("put", topic="T2", queue=1, keys="v6", born_host="[2001:db8::1]:51000", body="v6")
        _fill(live, 13, 45)
        live("dispatch")
        live("flush")
        live.stop()
    finally:
        live.kill()
    return store


def _fill(live: LiveJava, seed: int, count: int) -> None:
    live("gen", seed=seed, count=count, topics=list(TOPICS), queues=4, body_max=600, print=False)


def save_store(version: str, store: Path, into: Path) -> None:
    """The archive, the records as Java decodes them, and the configuration."""
    built, why = home(version)
    assert built is not None, why
    (store / "lock").write_bytes(b"")
    with tarfile.open(into / f"{store.name}.tar.xz", "w:xz") as archive:
        archive.add(store, store.name)
    rows = Java(version, built)("scan", store, KEYS, topics=TOPICS)
    lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
    (into / f"{store.name}.jsonl").write_text("".join(lines), encoding="utf-8")
    given = {"store": KEYS, "topics": {topic: {"queues": 4} for topic in TOPICS}}
    (into / f"{store.name}.config.json").write_text(json.dumps(given) + "\n")


def record_sessions(version: str, store: Path, into: Path) -> None:
    """First reports to a master that has the store, and the frames that come."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        shutil.copytree(store, copy)
        live = LiveJava(version, copy)
        try:
            end = live.ready["max_physical_offset"]
            asked: list[tuple[list[int], float]] = [
                *(([n], DATA_S) for n in (0, 1, 100, 65535, 65536, 131072, end - 1)),
                *(([n], HEARTBEAT_S) for n in (end, end + 100)),
                *(([n], DATA_S) for n in (10**12, -1)),
                ([-5], HEARTBEAT_S),
                ([-1, 65536], DATA_S),
                ([1, 2, end - 500], DATA_S),
            ]
            sessions = [_session(live.port, reports, seconds) for reports, seconds in asked]
        finally:
            live.kill()
    told = {"version": version, "store": store.name, "max": end, "sessions": sessions}
    (into / f"master-sessions{store.name[2:]}.json").write_text(json.dumps(told, indent=0) + "\n")


def _session(port: int, reports: list[int], seconds: float) -> dict[str, Any]:
    frames: list[dict[str, Any]] = []
    kept, closed, began = b"", False, time.monotonic()
    with socket.create_connection(("127.0.0.1", port), 5) as line:
        line.sendall(struct.pack(f">{len(reports)}q", *reports))
        while (left := began + seconds - time.monotonic()) > 0 and len(frames) < FRAMES_MOST:
            line.settimeout(left)
            try:
                got = line.recv(1 << 16)
            except TimeoutError:
                break
            except ConnectionError:
                got = b""
            if not got:
                closed = True
                break
            kept, ms = kept + got, int((time.monotonic() - began) * 1000)
            while len(kept) >= 12 and len(kept) >= 12 + struct.unpack_from(">i", kept, 8)[0]:
                offset, size = struct.unpack_from(">qi", kept)
                body, kept = kept[12 : 12 + size], kept[12 + size :]
                frames.append({"ms": ms, "offset": offset, "size": size, "sha1": hashlib.sha1(body).hexdigest()})
    note = "written in one piece" if len(reports) > 1 else ""
    return {"reports": reports, "note": note, "frames": frames, "closed": closed}


# -- two brokers -------------------------------------------------------------------------------------------------------


class NameServer:
    """A stand-in: answers a registration with the master's addresses, and a cluster's question with its brokers."""

    def __init__(self) -> None:
        self.answers: dict[int, tuple[dict[str, str], bytes]] = {103: ({}, b"{}"), 106: ({}, b"{}")}
        self.frames: list[dict[str, Any]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while (asked := read_frame(line)) is not None:
                head = header(asked)
                fields, body = self.answers.get(head["code"], ({}, b""))
                told = {"code": 0, "language": "JAVA", "version": JSON_VERSION, "opaque": head["opaque"], "flag": 1}
                answer = frame({**told, "extFields": fields, "serializeTypeCurrentRPC": "JSON"}, body)
                self.frames += [{"way": ">", **_kept(asked)}, {"way": "<", **_kept(answer)}]
                line.sendall(answer)

    def close(self) -> None:
        """Listen no longer."""
        self._listener.close()


def _kept(one: bytes) -> dict[str, Any]:
    return {"code": header(one)["code"], "bytes": base64.b64encode(one).decode()}


def record_brokers(version: str, into: Path, seconds: float) -> None:
    """The HA line, the tables and the registration of a slave broker."""
    began = time.monotonic()
    number = version.replace(".", "")
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        folder, ports = Path(place), [_port_with_neighbours() for _ in range(3)]
        names = NameServer()
        stack.callback(names.close)
        ha = free_port()
        nobody = free_port()
        master = Broker(version, folder / "master", ports[0], nobody, brokerId=0, haListenPort=ha,
                        brokerRole="ASYNC_MASTER")  # fmt: skip
        stack.callback(master.stop)
        master.start()
        master.wait()
        admin = _furnish(master.port)
        line = Relay(ha, keep="><")
        main, vip = Relay(ports[0], ports[1], keep="><"), Relay(ports[0] - 2, ports[1] - 2, keep="><")
        for relay in (line, main, vip):
            stack.callback(relay.close)
        where = f"127.0.0.1:{ports[1]}"
        table = {"b": {"brokerAddrs": {"0": where}, "brokerName": "b", "cluster": "C", "enableActingMaster": False}}
        names.answers[103] = ({"haServerAddr": f"127.0.0.1:{line.port}", "masterAddr": where}, b"{}")
        names.answers[106] = ({}, json.dumps({"brokerAddrTable": table, "clusterAddrTable": {"C": ["b"]}}).encode())
        started = time.monotonic()
        slave = Broker(version, folder / "slave", ports[2], names.port, brokerId=1, haListenPort=free_port(),
                       brokerRole="SLAVE")  # fmt: skip
        stack.callback(slave.stop)
        slave.start()
        for turn in range(int(seconds / 5)):
            time.sleep(max(0.0, started + 5 * (turn + 1) - time.monotonic()))
            admin.send("Attr", f"turn {turn}", turn % 2, TAGS="t1", KEYS=f"turn{turn}")
        time.sleep(2)
        slave.stop()
        time.sleep(0.5)
        shift = line._began - began
        _save_line(line.passed, into / f"slave-session{number}.jsonl", shift)
        tables = _tables(main.passed, "listenPort") | _tables(vip.passed, "listenPort - 2")
        (into / f"metadata{number}.json").write_text(json.dumps(tables, indent=1) + "\n")
        chosen = list(_registration(names.frames))
        (into / f"registration{number}.json").write_text(json.dumps(chosen, indent=1) + "\n")
        codes = sorted({header(base64.b64decode(one["bytes"]))["code"] for one in names.frames if one["way"] == ">"})
        print(f"{version}: asked of the broker {sorted(tables, key=int)}, of the name server {codes}")


def _furnish(port: int) -> Admin:
    """What the master has before the slave comes."""
    admin = Admin(port)
    admin.topic("Attr", 2, "+message.type=NORMAL")
    admin.topic("Bulk", 1, "+queue.type=BatchCQ")
    group = {"groupName": "G", "consumeEnable": True, "consumeFromMinEnable": True, "consumeBroadcastEnable": True,
             "retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0, "whichBrokerWhenConsumeSlowly": 1,
             "notifyConsumerIdsChangedEnable": True, "attributes": {}}  # fmt: skip
    admin(200, json.dumps(group).encode())
    for n in range(46):
        admin.send("Attr", f"body {n}", n % 2, TAGS=f"t{n % 3}", KEYS=f"k{n}", CLUSTER="C")
    admin(15, consumerGroup="G", topic="Attr", queueId=0, commitOffset=7)
    admin(401, json.dumps({"topic": "Attr", "consumerGroup": "G", "mode": "POP", "popShareQueueNum": 0}).encode())
    admin.send("Attr", "later", 0, KEYS="later", DELAY="3")
    admin.send("Attr", "timer", 0, KEYS="timer", TIMER_DELAY_SEC="60")
    return admin


def _port_with_neighbours() -> int:
    """A port that is free, as the two before and the two after it are."""
    while True:
        port = free_port()
        with contextlib.ExitStack() as held:
            try:
                for n in range(port - 2, port + 3):
                    held.enter_context(socket.create_server(("127.0.0.1", n)))
            except (OSError, OverflowError):
                continue
            return port


def _save_line(passed: list[Passed], to: Path, shift: float) -> None:
    """Write what went over the HA line, the first connection only."""
    with to.open("w") as file:
        for one in passed:
            if one.session == 0:
                row = {"t": round(one.t + shift, 3), "way": one.way, "bytes": base64.b64encode(one.data).decode()}
                file.write(json.dumps(row) + "\n")


def _tables(passed: list[Passed], port: str) -> dict[str, dict[str, Any]]:
    """Code -> the first request and its answer."""
    found: dict[str, dict[str, Any]] = {}
    lines: dict[tuple[int, str], list[tuple[float, bytes]]] = {}
    for one in passed:
        lines.setdefault((one.session, one.way), []).append((one.t, one.data))
    for session in {number for number, _ in lines}:
        answers = {header(one)["opaque"]: one for _, one in _frames(lines.get((session, "<"), []))}
        for t, asked in _frames(lines.get((session, ">"), [])):
            head = header(asked)
            answer, code = answers.get(head["opaque"]), str(head["code"])
            if answer is None or head["flag"] & 3 or (code in found and found[code]["first_at"] <= t):
                continue
            parts = {"request": asked, "response": answer, "response_body": body_of(answer)}
            text = {name: base64.b64encode(part).decode() for name, part in parts.items()}
            found[code] = {"port": port, "first_at": t, **text}
    return found


def _frames(pieces: list[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
    """The whole frames of one way of a line, each with the time of its last byte."""
    kept = b""
    for t, data in pieces:
        kept += data
        while len(kept) >= 4 and len(kept) >= 4 + struct.unpack_from(">i", kept)[0]:
            size = 4 + struct.unpack_from(">i", kept)[0]
            one, kept = kept[:size], kept[size:]
            yield t, one


def _registration(frames: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The first 103 with its answer, and the first 106."""
    for code in (103, 106):
        at = next(n for n, one in enumerate(frames) if one["way"] == ">" and one["code"] == code)
        yield frames[at]
        if code == 103:
            yield frames[at + 1]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("--into", type=Path, default=FOLDER)
    parser.add_argument("--parts", default="store,sessions,brokers")
    parser.add_argument("--seconds", type=float, default=BROKERS_S)
    words = parser.parse_args()
    parts, name = words.parts.split(","), f"ha{words.version.replace('.', '')}"
    with tempfile.TemporaryDirectory() as place:
        if "store" in parts:
            save_store(words.version, make_store(words.version, Path(place)), words.into)
        if "sessions" in parts:
            with tarfile.open(words.into / f"{name}.tar.xz") as archive:
                archive.extractall(Path(place, "rest"), filter="data")
            record_sessions(words.version, Path(place, "rest", name), words.into)
    if "brokers" in parts:
        record_brokers(words.version, words.into, words.seconds)


if __name__ == "__main__":
    main()
