"""What can be done to one file of a store: a table of damages, and the kinds of files to do them to."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

Damage = Callable[[Path, random.Random], None]


class Victim(NamedTuple):
    """A kind of file: a golden store that has it, and which one of its files is damaged."""

    store: str
    pattern: str
    which: int = 0


VICTIMS = {
    "log, first": Victim("rolled", "commitlog/*"),
    "log, middle": Victim("rolled", "commitlog/*", 2),
    "log, last": Victim("rolled", "commitlog/*", -1),
    "log of a crash": Victim("crash", "commitlog/*", -2),
    "log of all flags": Victim("flags", "commitlog/*", 1),
    "log with CRC properties": Victim("crc", "commitlog/*"),
    "queue": Victim("rolled", "consumequeue/*/*/*", 3),
    "queue of a delay level": Victim("config", "consumequeue/SCHEDULE_TOPIC_XXXX/*/*"),
    "extension": Victim("cqext", "consumequeue_ext/*/*/*"),
    "queue with extension": Victim("cqext", "consumequeue/*/*/*"),
    "batch queue": Victim("batch", "batchconsumequeue/*/*/*"),
    "light queue": Victim("lmq", "consumequeue/%LMQ%*/*/*"),
    "index, first": Victim("rolled", "index/*"),
    "index, last": Victim("rolled", "index/*", -1),
    "checkpoint": Victim("crash", "checkpoint"),
    "abort": Victim("crash", "abort"),
    "lock": Victim("rolled", "lock"),
    "topics": Victim("config", "config/topics.json"),
    "topics, backup": Victim("config", "config/topics.json.bak"),
    "groups": Victim("config", "config/subscriptionGroup.json"),
    "consumer offsets": Victim("config", "config/consumerOffset.json"),
    "delay offsets": Victim("config", "config/delayOffset.json"),
    "timer check": Victim("timer", "config/timercheck"),
    "timer log": Victim("timer", "timerlog/*"),
    "timer log, last": Victim("timer", "timerlog/*", -1),
    "timer wheel": Victim("timer", "timerwheel"),
    "position checkpoint": Victim("timer", "compaction/position-checkpoint"),
}

DAMAGES: dict[str, Damage] = {}


def damage(act: Damage) -> Damage:
    """Enter a damage in the table."""
    DAMAGES[act.__name__.replace("_", " ")] = act
    return act


def rewrite(path: Path, data: bytes | bytearray) -> None:
    """Other bytes under this name, in a file of its own: copies of stores share what is not damaged."""
    remove(path)
    path.write_bytes(data)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def used(data: bytes) -> int:
    """Bytes up to the last that is not zero."""
    return len(data.rstrip(b"\0"))


DAMAGES["empty"] = lambda path, chance: rewrite(path, b"")


def _cut(at: Callable[[bytes], int]) -> Damage:
    def act(path: Path, chance: random.Random) -> None:
        data = path.read_bytes()
        rewrite(path, data[: max(0, min(at(data), len(data) - 1))])

    return act


for _length in (1, 2, 7, 8, 19, 20, 39, 40, 41, 46, 51, 56, 90, 91, 111):
    DAMAGES[f"cut to {_length}"] = _cut(lambda data, length=_length: length)  # type: ignore[misc]
DAMAGES["cut by one"] = _cut(lambda data: len(data) - 1)
DAMAGES["cut in the middle"] = _cut(lambda data: len(data) // 2 + 3)
DAMAGES["cut where it is used"] = _cut(lambda data: used(data) - 5)
DAMAGES |= {
    "random bytes": lambda path, chance: rewrite(path, chance.randbytes(path.stat().st_size)),
    "all ff": lambda path, chance: rewrite(path, b"\xff" * path.stat().st_size),
    "all 7f": lambda path, chance: rewrite(path, b"\x7f" * path.stat().st_size),
    "all 80": lambda path, chance: rewrite(path, b"\x80" * path.stat().st_size),
    "zeros": lambda path, chance: rewrite(path, bytes(path.stat().st_size)),
    "reversed ": lambda path, chance: rewrite(path, path.read_bytes()[::-1]),
    "one byte longer": lambda path, chance: rewrite(path, path.read_bytes() + b"x"),
    "twice": lambda path, chance: rewrite(path, path.read_bytes() * 2),
}


@damage
def sectors_shuffled(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    parts = [data[at : at + 512] for at in range(0, len(data), 512)]
    chance.shuffle(parts)
    rewrite(path, b"".join(parts))


@damage
def sectors_zeroed(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(5):
        at = chance.randrange(max(1, used(data))) // 512 * 512
        data[at : at + 512] = bytes(len(data[at : at + 512]))
    rewrite(path, data)


@damage
def bits_flipped(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes() or b"\0")
    for _ in range(20):
        data[chance.randrange(max(1, used(data)))] ^= 1 << chance.randrange(8)
    rewrite(path, data)


EXTREMES = (-1, -0x80000000, 0x7FFFFFFF, 0x80, -0x8000000000000000, 0x7FFFFFFFFFFFFFFF, 1 << 40, 0)


def _numbers(width: int) -> Damage:
    def act(path: Path, chance: random.Random) -> None:
        """Extremes where numbers of this width stand, here and there."""
        data = bytearray(path.read_bytes() or bytes(width))
        for _ in range(12):
            at = chance.randrange(max(1, used(data))) // width * width
            value = chance.choice(EXTREMES) & (1 << 8 * width) - 1
            data[at : at + width] = value.to_bytes(width, "big")
        rewrite(path, data)

    return act


for _width in (1, 2, 4, 8):
    DAMAGES[f"extreme numbers of {_width}"] = _numbers(_width)


@damage
def another_of_its_kind(path: Path, chance: random.Random) -> None:
    """Swapped with a neighbour, or holding another kind of file where there is none."""
    others = sorted(p for p in path.parent.iterdir() if p != path and p.is_file())
    other = chance.choice(others) if others else path.parent / "x"
    data = other.read_bytes() if others else b"abc"
    mine = path.read_bytes()
    rewrite(path, data)
    if others:
        rewrite(other, mine)


@damage
def another_kind(path: Path, chance: random.Random) -> None:
    root = path
    while not (root / "commitlog").is_dir():
        root = root.parent
    kinds = ("commitlog/*", "index/*", "checkpoint", "consumequeue/*/*/*")
    found = [p for kind in kinds for p in sorted(root.glob(kind)) if p.is_file() and p != path]
    rewrite(path, chance.choice(found).read_bytes())


@damage
def gone(path: Path, chance: random.Random) -> None:
    remove(path)


@damage
def a_directory(path: Path, chance: random.Random) -> None:
    remove(path)
    (path / "inside").mkdir(parents=True)


@damage
def a_fifo(path: Path, chance: random.Random) -> None:
    remove(path)
    os.mkfifo(path)


@damage
def a_link_to_itself(path: Path, chance: random.Random) -> None:
    remove(path)
    path.symlink_to(path.name)


@damage
def a_link_to_endless_zeros(path: Path, chance: random.Random) -> None:
    remove(path)
    path.symlink_to("/dev/zero")


@damage
def a_link_to_a_file_elsewhere(path: Path, chance: random.Random) -> None:
    outside = path.parent.parent / f"outside-{chance.randrange(10**6)}"
    shutil.copyfile(path, outside)
    remove(path)
    path.symlink_to(outside)


def _renamed(name: Callable[[str], str | bytes]) -> Damage:
    def act(path: Path, chance: random.Random) -> None:
        os.rename(os.fsencode(path), os.path.join(os.fsencode(path.parent), os.fsencode(name(path.name))))

    return act


DAMAGES["renamed by one"] = _renamed(lambda name: f"{int(name) + 1:0{len(name)}}" if name.isdigit() else name + "1")
DAMAGES["renamed to the end of numbers"] = _renamed(lambda name: "9223372036854775807".rjust(max(20, len(name)), "0"))
DAMAGES["renamed beyond 64 bits"] = _renamed(lambda name: "9" * max(20, len(name)))
DAMAGES["renamed to an escape sequence"] = _renamed(lambda name: "\x1b]0;owned\x07\x1b[2J\u202e" + name)
DAMAGES["renamed to no text"] = _renamed(lambda name: b"\xff\xfe\x80" + name.encode())
DAMAGES["renamed with a line end"] = _renamed(lambda name: f"x\n{name}\r")

COMMANDS: dict[str, tuple[str, ...]] = {
    "inspect": ("inspect", "STORE"),
    "inspect --json": ("inspect", "STORE", "--json"),
    "scan": ("scan", "STORE"),
    "scan --json": ("scan", "STORE", "--json"),
    "scan --skip-damage": ("scan", "STORE", "--skip-damage", "--json", "--decompress"),
    "scan --format": ("scan", "STORE", "--skip-damage", "--format", "{topic} {keys} {properties} {born_host} {body}"),
    "get": ("get", "STORE", "TOPIC", "0", "3"),
    "get --json": ("get", "STORE", "TOPIC", "1", "0", "--json"),
    "query": ("query", "STORE", "TOPIC", "KEY"),
    "query --json": ("query", "STORE", "TOPIC", "KEY", "--json"),
    "tail": ("tail", "STORE", "TOPIC"),
    "tail --json": ("tail", "STORE", "TOPIC", "--json", "--decompress"),
    "explain": ("explain", "FILE"),
    "explain --json": ("explain", "FILE", "--json"),
    "explain --at": ("explain", "FILE", "--at", "100"),
    "sql": ("sql", "STORE", "select topic, count(*), max(length(body)) from messages group by 1 order by 1"),
    "stats": ("stats", "STORE"),
    "stats --skip-damage": ("stats", "STORE", "--skip-damage", "--json"),
    "retention explain": ("retention", "explain", "STORE"),
    "recover --dry-run": ("recover", "STORE", "--dry-run"),
    "salvage --dry-run": ("salvage", "STORE", "--in-place", "--dry-run"),
    "salvage --into": ("salvage", "STORE", "--into", "INTO"),
    "copy": ("copy", "STORE", "--into", "INTO", "--topic", "TOPIC", "--skip-damage"),
    "verify": ("verify", "STORE"),
    "verify --json": ("verify", "STORE", "--json"),
    "rebuild": ("rebuild", "STORE", "--into", "INTO"),
    "rebuild --json": ("rebuild", "STORE", "--into", "INTO", "--peer", "5.4.0", "--json"),
}
