"""Pages that a disk zeroed, lost, doubled or wrote to another place, and files cut to every length, gone, doubled,
swapped or named otherwise: each is done to a copy of one small store and judged (`judge.py`).

    python -m tests.hostile.pages [--report docs/reliability.md]
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flintmq.format import checkpoint, flintmq_mark
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from tests.hostile.judge import Whole, judge, written
from tests.store.crashed import Clock

PAGE = 4096
KEYS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 4 * PAGE, "mappedFileSizeConsumeQueue": 200, "maxHashSlotNum": 8, "maxIndexNum": 32
}  # fmt: skip
STOPS = ("clean", "flushed", "unflushed", "clean, no mark", "killed, no mark")
Case = tuple[str, list[str]]


def make(root: Path, count: int = 70, size: int = 700, **keys: Any) -> Whole:
    """A store of some log files, two topics, an index; closed cleanly."""
    keys = KEYS | keys
    chance = random.Random(7)
    with MessageStore(root, config=keys, effects=Clock()) as store:
        for n in range(count):
            body = chance.randbytes(chance.randrange(size // 2, size))
            store.put(Message("TU"[n % 3 == 0], body, tags=f"t{n % 3}", keys=f"k{n}", queue_id=n % 2))
    return written(root, keys)


def stop(root: Path, how: str, whole: Whole) -> Whole:
    """Let the store look as after this kind of stop."""
    if "no mark" in how:
        (root / "flintmq.mark").unlink()
    if how not in ("clean", "clean, no mark"):
        (root / "abort").write_text("1")
    if how == "unflushed":
        (root / "checkpoint").write_bytes(checkpoint.encode(checkpoint.Checkpoint()))
        (root / "flintmq.mark").write_bytes(flintmq_mark.encode(0, 0))
    return Whole(whole.records, whole.places, whole.keys, marked=how in ("clean", "flushed"))


def log_pages(root: Path) -> list[tuple[Path, int]]:
    """Every page of the log that holds anything."""
    files = sorted((root / "commitlog").iterdir())
    return [(p, at) for p in files for at in range(0, p.stat().st_size, PAGE) if any(_page(p, at))]


def _page(path: Path, at: int) -> bytes:
    with path.open("rb") as file:
        file.seek(at)
        return file.read(PAGE)


def _put(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def page_cases(folder: Path, stride: int = 1) -> Iterator[Case]:
    """Each page of the log zeroed, half lost, overwritten by another one; each after each kind of stop in turn."""
    whole = make(folder / "whole")
    pages, turn = log_pages(folder / "whole"), 0
    for n, (path, at) in enumerate(pages):
        others = [m for m in range(len(pages)) if m != n]
        chance = random.Random(n)
        acts: dict[str, Callable[[Path], None]] = {
            "zeroed": lambda target, at=at: _put(target, at, bytes(PAGE)),
            "half of it lost": lambda target, at=at: _put(target, at + PAGE // 2, bytes(PAGE // 2)),
            "a sector lost": lambda target, at=at, s=chance.randrange(8): _put(target, at + 512 * s, bytes(512)),
        }
        for other in chance.sample(others, min(3, len(others))):
            source, place = pages[other]
            acts[f"overwritten by {source.name}+{place}"] = lambda target, at=at, data=_page(source, place): _put(
                target, at, data
            )
        for name, act in acts.items():
            for how in STOPS:
                turn += 1
                if turn % stride:
                    continue
                root = shutil.copytree(folder / "whole", folder / "case")
                now = stop(root, how, whole)
                act(root / "commitlog" / path.name)
                yield f"{path.name}+{at} {name}, {how}", judge(root, now)
                shutil.rmtree(root)


SMALL: dict[str, Any] = KEYS | {"mappedFileSizeCommitLog": 1024}
FILES = {
    "log, first": "commitlog/00000000000000000000",
    "log, middle": "commitlog/00000000000000002048",
    "log, last": "commitlog/00000000000000004096",
    "queue, first": "consumequeue/T/0/00000000000000000000",
    "queue, last": "consumequeue/T/1/00000000000000000200",
    "index": "index/*",
    "checkpoint": "checkpoint",
    "mark": "flintmq.mark",
    "list of queues": "flintmq.queues",
    "topics": "config/topics.json",
    "topics, backup": "config/topics.json.bak",
    "lock": "lock",
    "abort": "abort",
}


def small(root: Path) -> Whole:
    """A store whose files can be tried at each of their lengths."""
    return make(root, count=40, size=40, **SMALL)


def the_file(root: Path, kind: str) -> Path:
    """The file of this kind; `abort` is there after an unclean stop only, the backup once a table was saved again."""
    path = sorted(root.glob(FILES[kind]))
    return path[-1] if path else root / FILES[kind]


def length_cases(folder: Path, stride: int = 1) -> Iterator[Case]:
    """Each kind of file cut to each of its lengths, after a clean stop and after a kill in turn."""
    whole, turn = small(folder / "whole"), 0
    for kind in FILES:
        path = the_file(folder / "whole", kind)
        for length in range(path.stat().st_size if path.exists() else 0):
            for how in ("clean", "flushed"):
                turn += 1
                if turn % stride == 0:
                    yield _tried(folder, whole, how, f"{kind} cut to {length}", kind, lambda p, n=length: _cut(p, n))


def name_cases(folder: Path) -> Iterator[Case]:
    """Each kind of file gone, empty, longer, renamed, doubled, swapped with its neighbour, holding another kind's bytes."""
    whole = small(folder / "whole")
    acts: dict[str, Callable[[Path], object]] = {
        "gone": lambda p: p.unlink(),
        "empty": lambda p: p.write_bytes(b""),
        "a byte longer": lambda p: p.write_bytes(p.read_bytes() + b"x"),
        "twice as long": lambda p: p.write_bytes(p.read_bytes() * 2),
        "renamed": lambda p: p.rename(p.with_name(_next_name(p.name))),
        "doubled": lambda p: shutil.copyfile(p, p.with_name(_next_name(p.name))),
        "with a stranger beside it": lambda p: p.with_name("stranger").write_bytes(b"abc"),
        "swapped": _swap,
        "another kind's bytes": lambda p: p.write_bytes(_other_kind(p)),
    }
    for kind in FILES:
        for name, act in acts.items():
            for how in STOPS:
                if the_file(folder / "whole", kind).exists() or kind == "abort":
                    yield _tried(folder, whole, how, f"{kind} {name}", kind, act)


def _tried(folder: Path, whole: Whole, how: str, name: str, kind: str, act: Callable[[Path], object]) -> Case:
    root = shutil.copytree(folder / "whole", folder / "case")
    try:
        now = stop(root, how, whole)
        path = the_file(root, kind)
        if path.exists():
            act(path)
        if kind in ("mark", "checkpoint", "lock", "abort"):
            now = Whole(now.records, now.places, now.keys, marked=False)
        return f"{name}, {how}", judge(root, now)
    finally:
        shutil.rmtree(root)


def _cut(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])


def _next_name(name: str) -> str:
    return f"{int(name) + 12_345:0{len(name)}d}" if name.isdigit() else name + "2"


def _swap(path: Path) -> None:
    others = [p for p in sorted(path.parent.iterdir()) if p != path and p.is_file()]
    if others:
        mine, data = path.read_bytes(), others[0].read_bytes()
        path.write_bytes(data)
        others[0].write_bytes(mine)


def _other_kind(path: Path) -> bytes:
    root = path
    while not (root / "commitlog").is_dir():
        root = root.parent
    source = "index/*" if path.parent.name == "commitlog" else "commitlog/*"
    return next(iter(sorted(root.glob(source)))).read_bytes()[: max(path.stat().st_size, 1)]
