"""The seeds: small inputs for each target, cut out of what Java wrote. `python -m labs.fuzz.corpus` makes
them."""

from __future__ import annotations

import shutil
import tempfile
from array import array
from collections.abc import Iterator
from pathlib import Path
from struct import pack

from flintmq.format import flintmq_mark, index, inner_batch, record, zone_map
from flintmq.kernels.write import index_insert as kernel
from labs.fuzz.more_targets import TARGETS
from tests.compat.stores import Golden
from tests.robustness.hostile.records import LOG, record_starts

FOLDER = Path(__file__).resolve().parent / "corpus"
MOST_BYTES = 2000

TEXTS = {
    "broker_conf": (b"brokerName=a\nmappedFileSizeCommitLog: 65536\n# c\n!d\nflushDiskType=SYNC_\\\nFLUSH\n",),
    "setting": (b"maxIndexNum=400", b"flushDiskType=SYNC_FLUSH", b"enableLmq=true", b"messageDelayLevel=1s 5s", b"x=1"),
    "delay_levels": (b"1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h", b"1d"),
    "time_": (b"2024-11-20", b"2024-11-20T11:24:33.5+08:00", b"1732101873000", b"-1h30m", b"now", b"20241120T112433Z"),
    "template": (
        b"{topic} {queue_offset}\\t{body:text}",
        b"{store_timestamp:iso} {properties:KEYS} {{x}} {body:hex}\\n",
    ),
    "message_ids": (
        b"0A0000010000277600000000000B7F31",
        b"20010db8" + b"0" * 23 + b"1" + b"0000c738" + b"0" * 12 + b"7f31",
    ),
    "hosts": (b"10.0.0.1:10911", b"[2001:db8::1]:51000", bytes(range(20)), bytes(8)),
    "java_text": ("Orders \u5e93\u5b58 \U0001f600".encode(), b"\xed\xa0\x80\xff\xc0\x80", b"-9223372036854775808"),
    "frames_of_a_master": (
        b"\x02\x07" + b"".join(pack(">qi", at, 3) + b"log" for at in (5, 8, 11)) + pack(">qi", 14, 0),
        b"\x03\x00" + pack(">qi", 1000, 900) + bytes(900) + pack(">qi", 1900, 100) + bytes(100),
        b"\x00\x0c" + pack(">qi", 3000, 0) + pack(">qi", 3000, 5) + b"bytes",
    ),
    "reports_of_a_follower": (
        b"\x00\x08" + pack(">4q", 4000, 4000, 4100, 4300),
        b"\x01\x03" + pack(">3q", 0, 2000, 2200),
        b"\x00\x08" + pack(">2q", 2500, 2500),
    ),
    "queue_ends": (b'[["Orders", 0, 17], ["\\u5e93\\u5b58", 3, 0]]', b"[]"),
    "spark_offsets": (
        b'{"Orders": {"0": 5, "1": -2}, "T": {"3": -1}}',
        b'{"Orders/0": 5, "a/b/7": 9223372036854775807}',
    ),
    "filters": (b"Basic\n(Bas|L).c\nt", "\u4e2d\u6587\n.L\u4e2d\n\ufffd".encode(), b"\xff\x00bad\nSCHEDULE_.*\ntwice"),
    "json_config": (b'{"a":{0:1,\'b\':[1,2.5,null,true,]},/*c*/"\\u5e93":"\\n"}',),
}


def seeds_of(golden: dict[str, Golden]) -> Iterator[tuple[str, bytes]]:
    """(target, seed) of all seeds."""
    starts = record_starts()
    for number in (0, 1, 2, 3, 5, 8):
        yield "record_", _own(LOG[starts[number] : starts[number + 1]])
    for first, last in ((0, 3), (0, 8)):
        yield "resync", b"junk" * 5 + LOG[starts[first] : starts[last]]
        yield "log", LOG[: starts[last]]
    yield "log", LOG[: starts[4]] + record.encode_blank(400) + bytes(100)
    yield from (("property_string", row) for row in _properties(golden["flags"]))
    bodies = [row for row in _records(golden["batch"]) if row.sys_flag & record.INNER_BATCH]
    yield "inner_batch_", min((row.body for row in bodies), key=len)
    yield (
        "inner_batch_",
        inner_batch.encode([inner_batch.Entry(), inner_batch.Entry(body=b"x", properties=b"a\x01b\x02")]),
    )
    for row in _records(golden["flags"]):
        if row.sys_flag & 1 and len(row.body) < 500:
            yield "compressed_body", bytes([row.sys_flag >> 8 & 7]) + row.body
    yield "queue_unit", _bytes(golden["basic"], "consumequeue/*/*/*")[:20]
    yield "batch_unit", _bytes(golden["batch"], "batchconsumequeue/*/*/*")[:46]
    yield "extension_unit", _bytes(golden["cqext"], "consumequeue_ext/*/*/*")[:60]
    header = _bytes(golden["rolled"], "index/*")[:40]
    yield "index_file", _small_index(0)
    yield "index_file", _small_index(30)
    yield "index_parts", header
    yield "checkpoint_", _bytes(golden["crash"], "checkpoint")[:48]
    header_of = index.Header(1_700_000_000_000, 1_700_000_009_000, 0, 64_000, 5, 7)
    yield "mark", flintmq_mark.encode(65_536, 1_700_000_000_000)
    yield (
        "mark",
        flintmq_mark.encode(
            65_536,
            1_700_000_009_000,
            1_700_000_000_000,
            65_000,
            flintmq_mark.Indexed(64_500, 20231114221320000, header_of),
        ),
    )
    zones = [zone_map.Zone(0, 900, 700, 5, 4, 100, 200, 0, 0), zone_map.Zone(900, 1000, 900, 6, 1, 200, 200, 0, 0)]
    yield "zone_map_", b"".join(zone_map.encode(7, 9, zones, [bytes(64), bytes(128)]))
    log = _bytes(golden["timer"], "timerlog/*")
    yield "timer_log", log[:104]
    yield "timer_log", log[5200 - 5200 % 52 - 52 :]
    yield "timer_parts", _bytes(golden["timer"], "config/timercheck")[:64]
    for name in ("topics.json", "consumerOffset.json", "delayOffset.json", "subscriptionGroup.json"):
        yield "json_config", _bytes(golden["config"], f"config/{name}")
    for number, name in enumerate(("topics.json", "consumerOffset.json", "delayOffset.json", "subscriptionGroup.json")):
        yield "config_tables", bytes([number]) + _bytes(golden["config"], f"config/{name}")
    for name, texts in TEXTS.items():
        yield from ((name, word) for word in texts)


def _own(data: bytes) -> bytes:
    """The record as it would stand at offset 0."""
    return record.encode(record.decode(data)._replace(physical_offset=0))


def _records(store: Golden) -> Iterator[record.Record]:
    for row in store.rows:
        files = sorted((store.path / "commitlog").iterdir())
        file = max((f for f in files if int(f.name) <= row["physical_offset"]), key=lambda f: int(f.name))
        at = row["physical_offset"] - int(file.name)
        yield record.decode(file.read_bytes()[at : at + row["size"]])


def _small_index(count: int) -> bytes:
    """An index file of four slots that holds so many keys."""
    data = bytearray(40 + 4 * 4 + 20 * (count + 2))
    hashes, offsets, times = (array(code, (100 * n for n in range(1, count + 1))) for code in "iqq")
    kernel.insert(data, 4, count + 2, hashes, offsets, times, 0, count)
    return bytes(data)


def _properties(store: Golden) -> Iterator[bytes]:
    found = sorted({row.properties for row in _records(store) if 0 < len(row.properties) < 300}, key=len)
    yield from found[:: max(1, len(found) // 8)]


def _bytes(store: Golden, pattern: str) -> bytes:
    return sorted(store.path.glob(pattern))[0].read_bytes()


def load(name: str) -> list[bytes]:
    """The seeds of a target."""
    return [path.read_bytes() for path in sorted((FOLDER / name).iterdir())]


def main() -> None:
    """Write all seeds anew. Inputs that were found and kept (their names begin with `found`) stay."""
    with tempfile.TemporaryDirectory() as folder:
        names = ("basic", "batch", "config", "cqext", "crash", "flags", "rolled", "timer")
        golden = {name: Golden(name, Path(folder)) for name in names}
        made: dict[str, int] = {}
        for name in TARGETS:
            for old in (FOLDER / name).glob("seed-*"):
                old.unlink()
        for name, seed in seeds_of(golden):
            assert name in TARGETS, name
            (FOLDER / name).mkdir(parents=True, exist_ok=True)
            made[name] = made.get(name, 0) + 1
            (FOLDER / name / f"seed-{made[name]:02}.bin").write_bytes(seed[:MOST_BYTES])
    for folder_ in FOLDER.iterdir():
        if folder_.name not in TARGETS:
            shutil.rmtree(folder_)


if __name__ == "__main__":
    main()
