"""`python -m flintmq`."""

from __future__ import annotations

import subprocess
import sys

import flintmq


def test_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "flintmq", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"flintmq {flintmq.__version__}\n"
