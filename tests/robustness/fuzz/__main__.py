"""`python -m tests.robustness.fuzz SECONDS [TARGET...]` fuzzes; `... replay TARGET FILE` tries one input again."""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.robustness.fuzz.corpus import load
from tests.robustness.fuzz.more_targets import TARGETS
from tests.robustness.fuzz.run import fuzz, try_one


def main(words: list[str]) -> int:
    """Exit code 1 if something was found."""
    if words[:1] == ["replay"]:
        found = try_one(words[1], Path(words[2]).read_bytes())
        if found is not None:
            traceback.print_exception(found)
        return 1 if found is not None else 0
    seconds, names = float(words[0]), words[1:] or list(TARGETS)
    seed, failed = time.time_ns() % 1_000_000_007, 0
    folder = Path(tempfile.mkdtemp(prefix="flintmq-found-"))
    for name in names:
        done = fuzz(name, load(name), seed, seconds=seconds / len(names))
        print(f"{name:16} {done.rounds:9} inputs, {done.refused:9} refused", flush=True)
        if done.found is not None:
            failed += 1
            path = folder / f"{name}-{seed}.bin"
            path.write_bytes(done.input)
            print(f"  {done.found!r:.300}\n  python -m tests.robustness.fuzz replay {name} {path}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
