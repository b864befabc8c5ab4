"""Frames of the engine in the call stack: whose modules surround the frames that ask."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from flintmq.kernels import call_stack, compiled

compiled_only = pytest.mark.skipif(not compiled(), reason="this kernel runs compiled only")


def asked(*modules: str, most: int = 24) -> bool:
    """What the kernel says if functions of these modules call each other, the last one the kernel."""
    call: Callable[[], bool] = partial(call_stack.engine_around, most)
    for module in reversed(modules):
        space: dict[str, Any] = {"__name__": module, "inner": call}
        exec("def call(): return inner()", space)
        call = space["call"]
    return call()


OWN = ("flintmq.store.message_store", "flintmq.store.assembly", "flintmq.store.reentry")


@compiled_only
def test_the_frames_that_ask_do_not_count():
    assert not asked(*OWN) and not asked("user", *OWN) and not asked("flintmq.cli.put", *OWN)


@pytest.mark.parametrize("module", ["flintmq.store.append.flush", "flintmq.storage.memory.mapped_file"])
@pytest.mark.parametrize("between", [1, 2, 23])
def test_the_engine_around_other_code_is_seen(module: str, between: int):
    assert asked(module, *["user"] * between, *OWN)


@compiled_only
def test_so_many_frames_are_looked_at():
    around = "flintmq.store.append.flush"
    assert not asked(around, *["user"] * 24, *OWN)
    assert asked(around, *["user"] * 3, *OWN, most=4) and not asked(around, *["user"] * 3, *OWN, most=3)


@compiled_only
@pytest.mark.parametrize("module", ["flintmq.cli.put", "flintmq.storages", "", "flintmq", "store"])
def test_other_modules_are_not_the_engine(module: str):
    assert not asked(module, "user", *OWN)


def test_a_number_of_another_size():
    if compiled():
        with pytest.raises(OverflowError):
            call_stack.engine_around(1 << 40)
    else:
        assert call_stack.engine_around(1 << 40)
