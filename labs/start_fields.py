"""What RocketMQ's start makes of records whose properties it parses: tests/compat/start_fields.json is made by this.

    python -m labs.start_fields        # writes it: all cases, three versions, five minutes

Each case is a log of three records, the second one odd. A start keeps all of them (`loaded`), ends the log before the
odd one (`cut`), or does not come up (`refused`).
"""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.interop.java import VERSIONS, Java, home
from tests.support.makers import LOG_SIZE, tiny

FILE = Path(__file__).resolve().parents[1] / "tests" / "compat" / "start_fields.json"
KEYS = {
    "mappedFileSizeCommitLog": LOG_SIZE,
    "mappedFileSizeConsumeQueue": 400,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2000,
}
LIGHT = {"enableLmq": True, "enableMultiDispatch": True}
NUMBERS = ["0", "5", "-1", "+7", "007", "٣", "99", "4Pinpoint-Flags", "3s", " 3", "3 ", "1.0", "0x3", "1_0", "-", "+"]
SHORTS = ["32767", "32768", "-32768", "-32769"]
INTS = ["2147483647", "2147483648", "-2147483648", "99999999999"]
LAST_UNIT = 461168601842738790
LONGS = ["9223372036854775807", "9223372036854775808", "-9223372036854775808"]


def cases() -> list[dict[str, Any]]:
    """The odd records: topic, properties, sys_flag, and the keys of the store."""
    found = [("SCHEDULE_TOPIC_XXXX", {"DELAY": value}, 0, {}) for value in NUMBERS + INTS]
    found += [("T", {"DELAY": value}, 0, {}) for value in ("x", "99999999999")]
    for value in [*NUMBERS, *SHORTS]:
        found.append(("T", {"INNER_NUM": value, "INNER_BASE": "0"}, 0, {}))
    for value in [*NUMBERS, *LONGS]:
        found.append(("T", {"INNER_NUM": "1", "INNER_BASE": value}, 0, {}))
    found += [("Bulk", {"INNER_NUM": value, "INNER_BASE": "0"}, 128, {}) for value in ("x", "40000", "1")]
    found += [("T", {"INNER_NUM": "x"}, 0, {}), ("T", {"INNER_BASE": "x"}, 0, {})]
    pairs = [
        ("%LMQ%a", "x"), ("%LMQ%a", "0"), ("%LMQ%a,%LMQ%b", "0,x"), ("%LMQ%a,%LMQ%b", "0"), ("%LMQ%a", "0,x"),
        ("%LMQ%a,%LMQ%b", "0,"), ("%LMQ%a,%LMQ%b", ",0"), ("%LMQ%a/b", "x"), ("a", "x"), (" ", "x"), ("%LMQ%a", " "),
        ("%LMQ%a", "9223372036854775808"), ("%LMQ%a", "-1"), ("%LMQ%a", "-3"), ("a", "-1"), ("%LMQ%a/b", "-1"),
        ("%LMQ%a", "9223372036854775807"), ("%LMQ%a", "461168601842738790"), ("%LMQ%a", "461168601842738791"),
        ("%LMQ%a", "100000000000"), ("%LMQ%a", "-9223372036854775808"), (",%LMQ%a", "0,0"), ("%LMQ%a,,x", "0,0,0"),
    ]  # fmt: skip
    for names, offsets in pairs:
        both = {"INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": offsets}
        found.append(("T", both, 0, LIGHT))
    odd = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "x"}
    found += [("T", odd, 0, {}), ("T", odd, 0, {"enableMultiDispatch": True}), ("T", odd, 0, {"enableLmq": True})]
    found += [(topic, odd, 0, LIGHT) for topic in ("%RETRY%g", "rmq_sys_t", "SCHEDULE_TOPIC_XXXX", "%DLQ%g")]
    found += [("T", odd, flag, LIGHT) for flag in (4, 8, 12)]
    found += [("T", {"INNER_MULTI_QUEUE_OFFSET": "x"}, 0, LIGHT)]
    found += [("T", {name: "x"}, 0, {}) for name in ("REAL_QID", "TIMER_OUT_MS", "TRAN_PREPARED_QUEUE_OFFSET")]
    found += [("T", {"__CRC32#": "x"}, 0, {})]
    made = [dict(zip(("topic", "properties", "sys_flag", "keys"), case, strict=True)) for case in found]
    for offset in (-1, -5, 2**62, LAST_UNIT, LAST_UNIT + 1, 2**63 - 1, 10**11):
        made.append({"topic": "T", "properties": {}, "sys_flag": 0, "keys": {}, "queue_offset": offset})
    return made


def make(root: Path, case: dict[str, Any]) -> None:
    """Make the store of a case, cleanly stopped."""
    text = "".join(f"{name}\x01{value}\x02" for name, value in case["properties"].items())
    odd = {"topic": case["topic"].encode(), "properties": text.encode(), "sys_flag": case["sys_flag"]}
    odd["queue_offset"] = case.get("queue_offset", 0)
    tiny(root, {}, odd, {"queue_offset": 1})


def verdict(java: Java, case: dict[str, Any]) -> str:
    """What a start of this version makes of the case."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "store"
        make(root, case)
        found = loads(java, root, case["keys"])
    return {"3 records": "loaded", "1 records": "cut"}.get(found, found)


def loads(java: Java, root: Path, keys: dict[str, Any]) -> str:
    """How many records a start finds, or `refused`."""
    more = {"topics": {"Bulk": {"queues": 1, "attributes": {"queue.type": "BatchCQ"}}}}
    with tempfile.TemporaryDirectory() as place:
        words = java.words("scan", root, KEYS | keys, (), (), Path(place), more)
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    if done.returncode:
        return "refused"
    records = [line for line in done.stdout.splitlines() if '"physical_offset"' in line]
    return f"{len(records)} records"


def _key(case: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in case.items() if name != "verdicts"}, sort_keys=True)


def main() -> None:
    """Ask the three versions for what is not recorded yet."""
    found = cases()
    known = {_key(case): case["verdicts"] for case in (json.loads(FILE.read_text()) if FILE.exists() else ())}
    for version in VERSIONS:
        built, why = home(version)
        assert built is not None, why
        for case in found:
            answer = known.get(_key(case), {}).get(version) or verdict(Java(version, built), case)
            case.setdefault("verdicts", {})[version] = answer
            print(version, json.dumps(case, ensure_ascii=False), flush=True)
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in found)
    FILE.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
