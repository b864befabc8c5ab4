"""What commands cost on bombs: CPU seconds and memory, measured in this process.

`python -m labs.hostile.cost KIB,KIB NAME...` makes each bomb at each size, runs COMMANDS on it and prints a
JSON line a command. CPU time, not wall time: other processes do not count. Memory is the growth of the peak while a
command ran.
"""

import gc
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.robustness.hostile.bombs import BOMBS
from tests.robustness.hostile.commands import run

COMMANDS = {
    "scan": ("scan", "STORE", "--skip-damage", "--limit", "1000000000", "--format", "{topic}"),
    "inspect": ("inspect", "STORE", "--json"),
    "verify": ("verify", "STORE"),
    "get": ("get", "STORE", "T", "0", "5"),
    "query": ("query", "STORE", "T", "k"),
    "rebuild": ("rebuild", "STORE", "--into", "INTO"),
}
# Where rebuild has to make a directory and a file for each record, it is the disk that is measured.
LEFT_OUT = {
    ("a_queue_for_each_record", "rebuild"),
    ("topics_of_one_hash", "rebuild"),
    ("odd_text_everywhere", "rebuild"),
    ("records_of_many_light_queues", "rebuild"),
}


def memory(field: str) -> int:
    """VmRSS or VmHWM of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {field} in /proc/self/status")


def measure(words: list[str]) -> dict[str, object]:
    """One command: its exit code, CPU seconds and growth in bytes."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, began = memory("VmRSS"), time.process_time()
    done = run(*words)
    cpu = time.process_time() - began
    return {"status": done.status, "cpu": round(cpu, 3), "growth": memory("VmHWM") - before, "error": done.err[-300:]}


def main(words: list[str]) -> int:
    """KIB,KIB NAME...: see above."""
    run("--help")  # what is loaded once is not measured
    for name in words[1:] or BOMBS:
        for kib in map(int, words[0].split(",")):
            with tempfile.TemporaryDirectory(prefix="flintmq-bomb-") as folder:
                store, into = Path(folder, "store"), Path(folder, "into")
                store.mkdir()
                BOMBS[name](store, kib << 10)
                for command, argv in COMMANDS.items():
                    if (name, command) in LEFT_OUT:
                        continue
                    places = {"STORE": str(store), "INTO": str(into)}
                    found = measure([places.get(word, word) for word in argv])
                    print(json.dumps({"bomb": name, "command": command, "kib": kib, **found}), flush=True)
                    shutil.rmtree(into, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
