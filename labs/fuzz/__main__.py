"""Fuzzes parsers, or tries one input again.

python -m labs.fuzz SECONDS [TARGET...]
python -m labs.fuzz replay TARGET FILE
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from pathlib import Path

from labs.fuzz.corpus import load
from labs.fuzz.more_targets import TARGETS
from labs.fuzz.run import fuzz, try_one


def replay(words: list[str]) -> int:
    """Try one input again; exit code 1 if it fails."""
    parser = argparse.ArgumentParser(prog="python -m labs.fuzz replay")
    parser.add_argument("target", choices=list(TARGETS))
    parser.add_argument("file", type=Path)
    given = parser.parse_args(words)
    found = try_one(given.target, given.file.read_bytes())
    if found is not None:
        traceback.print_exception(found)
    return 1 if found is not None else 0


def main(words: list[str]) -> int:
    """Exit code 1 if something was found."""
    if words[:1] == ["replay"]:
        return replay(words[1:])
    parser = argparse.ArgumentParser(
        prog="python -m labs.fuzz", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("seconds", type=float, help="for all targets together")
    parser.add_argument("targets", nargs="*", metavar="target", help=f"of: {', '.join(TARGETS)}; default: all")
    given = parser.parse_args(words)
    if unknown := set(given.targets) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    names = given.targets or list(TARGETS)
    seed, failed = time.time_ns() % 1_000_000_007, 0
    folder = Path(tempfile.mkdtemp(prefix="flintmq-found-"))
    for name in names:
        done = fuzz(name, load(name), seed, seconds=given.seconds / len(names))
        print(f"{name:16} {done.rounds:9} inputs, {done.refused:9} refused", flush=True)
        if done.found is not None:
            failed += 1
            path = folder / f"{name}-{seed}.bin"
            path.write_bytes(done.input)
            print(f"  {done.found!r:.300}\n  python -m labs.fuzz replay {name} {path}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
