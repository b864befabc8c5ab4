"""Starts: P9k, P9a, P20. And P10: making queues and index anew.

P9k: a store of 1 GiB that was killed, as a kill leaves one that runs: its files are flushed but for the last hundredth
of the messages, and queues, index, checkpoint, and of ours `flintmq.mark` are there. Both sides start on copies of it,
as whole processes.

P9a: of the same log each side has an `abort` file and its checkpoint, and no queues and no index, so everything is
validated and dispatched. Without our mark nothing says that the log is on the disk, so it is synced, dropped from the
page cache and read again, which Java does not do: that is a start on the disk of somebody else's broker. With our mark
(`P9a.100B`, `P9a.1KB`) it is a start on our own log. Starting on a tiny log is taken off.

P20: a store of 10,000 queues with a message each is killed before its first checkpoint, so that every queue changed
since. Each run opens and closes a copy of it, which then was stopped cleanly, and opens and closes it again.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import java
from data import SIZES, sized, store
from harness import Case, Context, Cost, Found, Result, measure, timed

SCRIPT = """
import sys
from flintmq import MessageStore
with MessageStore(sys.argv[1], unique_keys=False) as store:
    assert store.wait_dispatched()
"""
# Puts into queues of so many topics, four each, and is killed once all is dispatched; rests before the last hundredth.
KILLED = """
import os, signal, sys, time
from flintmq import Message, MessageStore
path, topics, count, size, rest, keys = sys.argv[1], *map(int, sys.argv[2:6]), eval(sys.argv[6])
store, body = MessageStore(path, config=keys, unique_keys=False), os.urandom(size)
for number in range(count):
    if rest and number == count - count // 100:
        time.sleep(rest)
    message = Message(f"topic-{number % topics:05d}", body, keys=f"k{number}", queue_id=number // topics % 4)
    assert store.put(message).status.name == "PUT_OK"
assert store.wait_dispatched()
os.kill(os.getpid(), signal.SIGKILL)
"""
OPEN_AND_CLOSE = """
import json, sys, time
from flintmq import MessageStore
begin = time.process_time()
MessageStore(sys.argv[1], unique_keys=False).close()
print(json.dumps({"cpu inside": time.process_time() - begin}))
"""
REST = 5  # seconds in which a store that runs flushes log, queues and index, several times
TOPICS, QUEUES, LOG_FILE = 2500, 4, 64 << 20  # of the store of P20, and bytes of its log files
Results = dict[str, Result]


def script(text: str, *words: str) -> str:
    """Run a script in a process of its own; return what it printed."""
    return subprocess.run([sys.executable, "-c", text, *words], check=True, capture_output=True, text=True).stdout


def killed_store(path: Path, topics: int, count: int, size: int, rest: int = 0, **keys: int) -> None:
    """Make a store that was killed after its last message was dispatched."""
    words = [sys.executable, "-c", KILLED, str(path), str(topics), str(count), str(size), str(rest), repr(keys)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the store was not filled: {done.stderr.strip()[-500:]}")


def many_queues(context: Context) -> Path:
    """A store of 10,000 queues that was killed before its first checkpoint."""
    path, topics = context.scratch / "queues", TOPICS // 10 if context.quick else TOPICS
    if not path.exists():
        context.say(f"  making a store of {topics * QUEUES} queues")
        keys = {"flushIntervalConsumeQueue": 1 << 30, "mappedFileSizeCommitLog": LOG_FILE}
        killed_store(path, topics, topics * QUEUES, 100, **keys)
    return path


def again(killed: Path) -> Path:
    """A copy of a killed store, sparse as it is, whose files are not on disk either."""
    if not (killed / "abort").exists():
        raise RuntimeError(f"{killed} was stopped cleanly meanwhile")
    copy = killed.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    subprocess.run(["cp", "-a", "--sparse=always", str(killed), str(copy)], check=True)
    return copy


def opened_and_closed(path: Path) -> Cost:
    """Seconds of a process that opens and closes a store, and what of its processor time is inside."""
    inside: dict[str, float] = {}
    whole = timed(lambda: inside.update(json.loads(script(OPEN_AND_CLOSE, str(path)))))()
    return {**whole, **inside}


def p20(context: Context) -> Results:
    killed = many_queues(context)
    rounds = []
    for _ in range(context.rounds):  # not in turns: a copy is killed once, and clean afterwards
        copy = again(killed)
        rounds.append((opened_and_closed(copy), opened_and_closed(copy)))
    found = Found({"killed": [first for first, _ in rounds], "clean": [second for _, second in rounds]})
    return {"P20.killed.wall": found.result(found["killed wall"]), "P20.clean": found.result(found["clean cpu inside"])}


def small_files(root: Path) -> dict[Path, bytes]:
    """What a start replaces in a store, by name: all but the log, the queues and the index."""
    kept = [path for path in root.rglob("*") if path.is_file() and path.relative_to(root).parts[0] not in
            ("commitlog", "consumequeue", "index")]  # fmt: skip
    return {path: path.read_bytes() for path in kept}


def p9k(context: Context) -> Results:
    """Before each run the small files are again what the kill left; the large ones no start changes."""
    count, paths = (context.mib << 20) // (1024 + 176), [context.scratch / name for name in ("killed", "killed-java")]
    killed_store(paths[0], 4, count, 1024, REST)
    subprocess.run(["cp", "-a", "--sparse=always", *map(str, paths)], check=True)
    os.sync()
    kept = {path: data for root in paths for path, data in small_files(root).items()}
    if not {"abort", "checkpoint", "flintmq.mark"} <= {path.name for path in kept}:
        raise RuntimeError(f"a kill left only {sorted(path.name for path in kept)}")

    def before() -> None:
        for path in [path for root in paths for path in small_files(root) if path not in kept]:
            path.unlink()
        for path, data in kept.items():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)

    cases = {
        "java": timed(lambda: java.oracle(context, "rebuild", paths[1])),
        "flintmq": timed(lambda: script(SCRIPT, str(paths[0]))),
    }
    found = measure(context, cases, warm=True, before=before)
    for path in paths:
        shutil.rmtree(path)
    return {"P9k": found.result(found["java wall"] / found["flintmq wall"])}


def p9a(context: Context) -> Results:
    results: Results = {}
    tiny = java.log_only(context, store(context, "tiny", 100, mib=1).path, "tiny-java")
    for size in SIZES:
        copy = java.log_only(context, sized(context, size).path, f"java-{size}")
        kept: dict[Path, dict[str, bytes]] = {}
        for path in (copy, tiny):
            java.strip(path)
            script(SCRIPT, str(path))
            kept[path] = {name: (path / name).read_bytes() for name in ("checkpoint", "flintmq.mark")} | {"abort": b"1"}

        def crashed(kept: dict[Path, dict[str, bytes]] = kept) -> None:
            for path, files in kept.items():
                java.strip(path)
                for name, data in files.items():
                    (path / name).write_bytes(data)

        def ours(path: Path, mark: bool) -> Cost:
            if not mark:
                (path / "flintmq.mark").unlink()
            return timed(lambda: script(SCRIPT, str(path)))()

        cases: dict[str, Case] = {
            "java": timed(partial(java.oracle, context, "rebuild", copy)),
            "java start": timed(partial(java.oracle, context, "rebuild", tiny)),
            "no mark": partial(ours, copy, False),
            "no mark, start": partial(ours, tiny, False),
            "mark": partial(ours, copy, True),
            "mark, start": partial(ours, tiny, True),
        }
        found = measure(context, cases, warm=True, before=crashed)
        peer = found["java wall"] - found["java start wall"]
        for id_, mark in ((f"P9a.bare.{size}", "no mark"), (f"P9a.{size}", "mark")):
            results[id_] = found.result(peer / (found[f"{mark} wall"] - found[f"{mark}, start wall"]))
        for path in kept:
            java.strip(path)
    return results


def rebuild(source: Path, into: Path) -> None:
    """`flintmq rebuild` as a process of its own, at its best; Java maps its files too."""
    main = "import sys; from flintmq.__main__ import main; sys.exit(main())"
    script(main, "rebuild", str(source), "--into", str(into), "--access", "map")


def p10(context: Context) -> Results:
    """Both from commitlog/ alone, in a process of their own; what the same costs on a tiny log is taken off."""
    results: Results = {}
    tiny, into = store(context, "tiny", 100, mib=1).path, context.scratch / "rebuilt"
    tiny_copy = java.log_only(context, tiny, "tiny-java")
    for size in SIZES:
        path = sized(context, size).path
        copy = java.log_only(context, path, f"java-{size}")

        def clear(copy: Path = copy) -> None:
            for stripped in (copy, tiny_copy):
                java.strip(stripped)
            shutil.rmtree(into, ignore_errors=True)
            into.mkdir()

        cases = {
            "java": timed(partial(java.oracle, context, "rebuild", copy)),
            "java start": timed(partial(java.oracle, context, "rebuild", tiny_copy)),
            "flintmq": timed(partial(rebuild, path, into)),
            "flintmq start": timed(partial(rebuild, tiny, into)),
        }
        found = measure(context, cases, warm=True, before=clear)
        ratio = (found["java cpu"] - found["java start cpu"]) / (found["flintmq cpu"] - found["flintmq start cpu"])
        results[f"P10.cpu.{size}"] = found.result(ratio)
    return results


FAMILIES = {"P9k": p9k, "P9a": p9a, "P20": p20, "P10": p10}
