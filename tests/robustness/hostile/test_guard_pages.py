"""No kernel reads or writes one byte outside its buffers, whatever the bytes and numbers are (see guard.py)."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from flintmq.kernels import _select
from labs.hostile import guard

ROOT = Path(__file__).resolve().parents[3]
ROUNDS = 4000


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=60)


@pytest.mark.turn(2, of=["src/flintmq/kernels/"])
@pytest.mark.skipif(
    not _select.compiled(), reason="uncompiled kernels cannot leave a buffer: Python checks each access"
)
def test_kernels_stay_within_their_buffers():
    done = run("-m", "labs.hostile.guard", "all", "1", str(ROUNDS))
    assert done.returncode == 0, f"exit {done.returncode} (-11 is a segmentation fault)\n{done.stdout}{done.stderr}"
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == list(guard.KERNELS)
    refused = re.findall(r"(\w+): \d+ rounds, (\d+) refused", done.stdout)
    assert len(refused) == len(guard.KERNELS)
    assert [name for name, times in refused if int(times) == ROUNDS] == [], "arguments that never fit try nothing"


# Kernels that never see bytes of a file: what they get, their callers have made. (All but the last are tried, too.)
ONLY_WRITE = {
    "encode_one",
    "fast_append",
    "append_columns",
    "message",
    "unique_keys",
    "handoff",
    "flusher",
    "loop_puts",
    "ring",
    "call_stack",
    "replica_lane",
}


def test_every_kernel_is_tried():
    """A kernel that is new has to be added to guard.py."""
    tried = {"gather", "gather_fill", "property_shapes", "odd_text", "walk", "select", "record_parts"}
    tried |= {"derive", "group_units", "index_insert", "index_check", "encode", "fetch"}
    tried |= {"fast_get", "gather_views", "only_file", "zone_keys", "json_line", "send_frame", "pull_frame"}
    assert set(_select.state()) - ONLY_WRITE == tried


def test_the_guard_page_kills():
    """The test above would notice: a read of one byte behind a guarded buffer ends the process."""
    code = (
        "import ctypes; from labs.hostile.guard import Guarded; g = Guarded(4096); v = g.last(16);"
        "a = ctypes.addressof(ctypes.c_char.from_buffer(v)); ctypes.string_at(a, 16); print('inside', flush=True);"
        "ctypes.string_at(a, 17)"
    )
    done = run("-c", code)
    assert done.stdout == "inside\n"
    assert done.returncode == -11, "no segmentation fault: the guard page does not guard"
