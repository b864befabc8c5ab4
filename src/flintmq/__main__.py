"""`python -m flintmq`: the command where its script is not on the path."""

from __future__ import annotations

from flintmq.cli.app import main

if __name__ == "__main__":
    main()
