"""Pages that a disk zeroed, lost, doubled or wrote to another place, and files cut to every length, gone, doubled,
swapped or named otherwise: each is done to a copy of one small store and judged (`judge.py`).

    python -m labs.hostile.pages [--seconds S] [--state FILE] [--only KIND] [--report
    docs/internals/reliability.md]

It goes on where it was stopped; its state is a file of the repository.
"""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from flintmq.format import checkpoint, flintmq_mark
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from labs.hostile.judge import Whole, judge, written
from labs.torture import figures, report
from tests.support.crashed import Clock, small_and_quick
from tests.support.engine import tree

PAGE = 4096
KEYS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 4 * PAGE, "mappedFileSizeConsumeQueue": 200, "maxHashSlotNum": 8, "maxIndexNum": 32
}  # fmt: skip
STOPS = ("clean", "flushed", "unflushed", "clean, no mark", "killed, no mark")
STATE = Path("labs/torture/state/pages.json")
Case = tuple[str, Callable[[], list[str]]]  # what is done, and what tries it and gives everything that must not be


def make(root: Path, count: int = 70, size: int = 700, **keys: Any) -> Whole:
    """A store of some log files, two topics, an index; closed cleanly."""
    keys = KEYS | keys
    chance = random.Random(7)
    with MessageStore(root, config=keys, effects=Clock(), unique_keys=False) as store:
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
        writes = {
            "zeroed": (at, bytes(PAGE)),
            "half of it lost": (at + PAGE // 2, bytes(PAGE // 2)),
            "a sector lost": (at + 512 * chance.randrange(8), bytes(512)),
        }
        for other in chance.sample(others, min(3, len(others))):
            source, place = pages[other]
            writes[f"overwritten by {source.name}+{place}"] = at, _page(source, place)
        for name, write in writes.items():
            for how in STOPS:
                turn += 1
                if turn % stride:
                    continue
                act = partial(_on_page, folder, whole, how, path.name, *write)
                yield f"{path.name}+{at} {name}, {how}", act


def _on_page(folder: Path, whole: Whole, how: str, name: str, at: int, data: bytes) -> list[str]:
    root = shutil.copytree(folder / "whole", folder / "case")
    try:
        now = stop(root, how, whole)
        _put(root / "commitlog" / name, at, data)
        return judge(root, now)
    finally:
        shutil.rmtree(root)


SMALL: dict[str, Any] = KEYS | {"mappedFileSizeCommitLog": 1024}
FILES = {
    "log, first": "commitlog/00000000000000000000",
    "log, middle": "commitlog/00000000000000002048",
    "log, last": "commitlog/*",  # of those, the last one
    "queue, first": "consumequeue/T/0/00000000000000000000",
    "queue, last": "consumequeue/T/1/00000000000000000200",
    "index": "index/*",
    "mark": "flintmq.mark",
    "list of queues": "flintmq.queues",
    "topics": "config/topics.json",
    "topics, backup": "config/topics.json.bak",
    "lock": "lock",
    "abort": "abort",
    "checkpoint": "checkpoint",  # the longest by far, of which a few bytes count: last
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
                    act = partial(_tried, folder, whole, how, kind, partial(_cut, length))
                    yield f"{kind} cut to {length}, {how}", act


def name_cases(folder: Path, stride: int = 1) -> Iterator[Case]:
    """Each kind of file gone, empty, longer, renamed, doubled, swapped with a neighbour, of another kind."""
    whole, turn = small(folder / "whole"), 0
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
                turn += 1
                if turn % stride == 0 and (the_file(folder / "whole", kind).exists() or kind == "abort"):
                    yield f"{kind} {name}, {how}", partial(_tried, folder, whole, how, kind, act)


def _tried(folder: Path, whole: Whole, how: str, kind: str, act: Callable[[Path], object]) -> list[str]:
    root = shutil.copytree(folder / "whole", folder / "case")
    try:
        now = stop(root, how, whole)
        path = the_file(root, kind)
        if path.exists():
            act(path)
        if kind in ("mark", "checkpoint", "lock", "abort"):
            now = Whole(now.records, now.places, now.keys, marked=False)
        return judge(root, now)
    finally:
        shutil.rmtree(root)


def _cut(length: int, path: Path) -> None:
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


DERIVED = {
    "queues": "consumequeue", "index": "index", "checkpoint": "checkpoint", "mark": "flintmq.mark",
    "list of queues": "flintmq.queues", "topics": "config",
}  # fmt: skip


def subset_cases(folder: Path, stride: int = 1) -> Iterator[Case]:
    """Everything that is derived, or small, gone or zeroed in each of its 64 subsets, then an unclean start: queues and
    index are, byte for byte, what they were."""
    yield from _subsets(folder / "gone", False, stride)
    yield from _subsets(folder / "zeroed", True, stride)


def _subsets(folder: Path, spoiled: bool, stride: int) -> Iterator[Case]:
    whole = small(folder / "whole")
    wanted = tree(folder / "whole", "consumequeue", "index")
    for number in range(0, 1 << len(DERIVED), stride):
        names = [name for n, name in enumerate(DERIVED) if number >> n & 1]
        act = partial(without, folder, whole, wanted, names, spoiled)
        yield f"{'zeroed' if spoiled else 'gone'}: {', '.join(names) or 'nothing'}", act


def without(folder: Path, whole: Whole, wanted: dict[str, bytes], names: list[str], spoiled: bool) -> list[str]:
    """Start a copy of folder/"whole" without these of DERIVED (or zeroed); what is not as it was."""
    root = shutil.copytree(folder / "whole", folder / "case")
    try:
        (root / "abort").write_text("1")
        for name in names:
            for path in [p for p in [root / DERIVED[name], *(root / DERIVED[name]).rglob("*")] if p.is_file()]:
                _put(path, 0, bytes(path.stat().st_size)) if spoiled else path.unlink()
        with MessageStore(root, config=whole.keys, effects=Clock(), unique_keys=False) as store:
            store.wait_dispatched(10)
        found = tree(root, "consumequeue", "index")
        differing = [n for n in wanted if found.get(n) != wanted[n]]
        return [f"{differing} differ"] if [*found.values()] != [*wanted.values()] else []
    finally:
        shutil.rmtree(root)


KINDS: dict[str, Callable[..., Iterator[Case]]] = {
    "pages of the log zeroed, half lost, or overwritten by another": page_cases,
    "files gone, empty, too long, renamed, doubled, swapped, of another kind": name_cases,
    "subsets of what is derived gone or zeroed, and made anew": subset_cases,
    "files cut, one case for each of their lengths": length_cases,
}


def go_on(name: str, state: report.State, until: float) -> None:
    """The cases of a kind that are not done yet, for so long."""
    commit = report.commit()
    known = state["kinds"].setdefault(name, {"done": 0, "wrong": [], "all": False})
    with tempfile.TemporaryDirectory(prefix="flintmq-pages-", dir=report.memory()) as folder:
        for case, tried in islice(KINDS[name](Path(folder)), known["done"], None):
            if time.monotonic() > until:
                break
            complaints = tried()
            if complaints:
                known["wrong"].append(f"{case}: {'; '.join(complaints[:3])}")
                print(known["wrong"][-1], flush=True)
            known["done"] += 1
            report.note(state, commit)
            if known["done"] % 500 == 0:
                state.save()
                print(f"{name}: {known['done']:,}, {len(known['wrong'])} wrong", flush=True)
        else:
            known["all"] = True
    state.save()


def series(state: report.State) -> figures.Series:
    """What the run has counted."""
    rows = []
    for name in KINDS:
        known = state["kinds"].get(name, {"done": 0, "wrong": [], "all": False})
        rows.append([name, known["done"], "all" if known["all"] else "not all", len(known["wrong"])])
    return figures.Series(["what was done", "cases", "whole", "wrong"], rows, state["commits"])


def main() -> int:
    """The long form: every case. 3: the time was up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, help="the kind of this number, from 0 on")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long; the next call goes on")
    parser.add_argument("--state", type=Path, default=STATE, help="what is done; remove it to begin again")
    parser.add_argument("--report", type=Path)
    words = parser.parse_args()
    small_and_quick(setattr)
    logging.disable(logging.ERROR)
    state, until = report.State(words.state, kinds={}, commits=[]), time.monotonic() + words.seconds
    for number, name in enumerate(KINDS):
        if words.only in (None, number) and not state["kinds"].get(name, {}).get("all"):
            go_on(name, state, until)
    print(*figures.shown("pages", series(state)), sep="\n")
    if words.report is not None:
        figures.record(words.report, "pages", series(state))
    kinds = state["kinds"].values()
    if any(known["wrong"] for known in kinds):
        return 1
    return 0 if len(kinds) == len(KINDS) and all(known["all"] for known in kinds) else 3


if __name__ == "__main__":
    sys.exit(main())
