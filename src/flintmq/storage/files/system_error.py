"""Tells an error of the system from one that a signal handler raises amid a call of it."""

from __future__ import annotations


def of_system(error: OSError) -> bool:
    """Return whether a call of the system raised this error, as seen where it is caught.

    What a handler raises, or meets at a file of its own, has a frame of the handler's in its traceback. An error that
    another thread throws into this one has no number.
    """
    at = error.__traceback__
    while at is not None and at.tb_frame.f_globals.get("__name__", "").startswith("flintmq."):
        at = at.tb_next
    return at is None and error.errno is not None
