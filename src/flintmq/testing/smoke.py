"""Tests an installed FlintMQ: `python -m flintmq.testing.smoke compiled`, or `pure`.

It runs in any directory: imports FlintMQ, runs its doctor, stores messages and finds them again from Python and by the
command. `make dist` and cibuildwheel run it on every wheel, in an environment with nothing but the wheel and its
requirements.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import flintmq
from flintmq.cli.installation import installed
from flintmq.kernels._select import state

MESSAGES = 100
CONFIG = {"mappedFileSizeCommitLog": 1 << 20, "maxHashSlotNum": 50, "maxIndexNum": 200}


def check(compiled: bool) -> str:
    """Test the installation; return a line about the tests.

    Args:
        compiled: whether the kernels must be compiled; else none may be.

    Raises:
        AssertionError: a test failed; the text says which.
    """
    kernels = state()
    built = [name for name, is_compiled in kernels.items() if is_compiled]
    _same("compiled kernels", built, list(kernels) if compiled else [])
    doctor = json.loads(_command("doctor", "--json"))
    _same("broken parts", [found["name"] for found in doctor["checks"] if found["state"] == "broken"], [])
    states = {found["name"]: found["state"] for found in doctor["checks"]}
    _same("doctor's word about the kernels", states["kernels"], "ok" if compiled else "slow")
    for name in ("cython", "Cython"):
        _same(f"distributions of {name}", installed(name), None)
    with tempfile.TemporaryDirectory(prefix="flintmq-smoke-") as root:
        _round_trip(root)
    version = ".".join(map(str, sys.version_info[:3]))
    how = f"{len(built)} compiled kernels" if compiled else "no compiled kernel"
    return f"flintmq {flintmq.__version__} works on Python {version} with {how}: {Path(flintmq.__file__).parent}"


def _round_trip(root: str) -> None:
    """Put messages, get them, and verify the store by the command."""
    bodies = [b"%d" % number * 20 for number in range(MESSAGES)]
    with flintmq.MessageStore(root, config=flintmq.StoreConfig.from_keys(CONFIG)) as store:
        for body in bodies:
            store.put(flintmq.Message("Smoke", body, keys="smoke"))
    with flintmq.open_store(root) as view:
        _same("bodies", [view.get("Smoke", 0, offset).body for offset in range(MESSAGES)], bodies)
    words = [f"{key}={value}" for key, value in CONFIG.items()]
    found = json.loads(_command("verify", root, "--json", *(f"--set={word}" for word in words)).splitlines()[-1])
    _same("records and defects", (found["records"], found["defect_count"]), (MESSAGES, 0))


def _command(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "flintmq", *words], capture_output=True, text=True, timeout=60)
    _same(f"exit code of flintmq {words[0]} ({done.stderr.strip()[-500:]})", done.returncode, 0)
    return done.stdout


def _same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"{what}: {found!r:.300} instead of {expected!r:.300}")


def main(words: Sequence[str]) -> int:
    """Run the check that the one word names; return the exit code."""
    if list(words) not in (["compiled"], ["pure"]):
        sys.stderr.write("usage: python -m flintmq.testing.smoke compiled | pure\n")
        return 2
    try:
        print(check(words[0] == "compiled"))
    except AssertionError as error:
        sys.stderr.write(f"flintmq.testing.smoke: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
