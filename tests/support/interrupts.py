"""Signals at every place where Python looks for them."""

import sys
from collections.abc import Callable
from types import FrameType

WHERE = ("store/append/commit_log.py", "store/append/batch.py", "storage/memory/mapped_file_queue.py")


def interrupted_at(
    step: int,
    call: Callable[[], object],
    where: tuple[str, ...] = WHERE,
    error: type[BaseException] = KeyboardInterrupt,
) -> bool:
    """Run a call; at the step-th place inside the append where Python looks for signals a handler raises an error.

    That is where a function of Python's begins and where one of C's ends, in these files. False if there are fewer.
    """
    left = [step]

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event in ("call", "c_return") and frame.f_code.co_filename.endswith(where):
            left[0] -= 1
            if left[0] < 0:
                sys.setprofile(None)
                raise error("of a signal handler")

    sys.setprofile(profile)
    try:
        call()
    except error:
        pass
    finally:
        sys.setprofile(None)
    return left[0] < 0  # at the end of a generator Python itself drops the exception
