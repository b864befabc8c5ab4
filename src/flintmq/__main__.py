"""Runs the command line: the script `flintmq` and `python -m flintmq`.

Modules are loaded when they are needed: printing the version needs none.
"""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run one command and leave the process with its exit code.

    Raises:
        SystemExit: always.
    """
    if sys.argv[1:] in (["--version"], ["-V"], ["version"]) and sys.stdout is not None:
        from flintmq import __version__

        try:
            print(f"flintmq {__version__}", flush=True)
            sys.exit(0)
        except BrokenPipeError:
            sys.stdout = None  # the reader is gone: leave nothing to flush at exit
            sys.exit(0)
        except OSError:
            pass  # the command line meets it again, and explains it
    from flintmq.cli.app import main

    main()


if __name__ == "__main__":
    main()
