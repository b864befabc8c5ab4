from __future__ import annotations

import pytest

from flintmq.hooks import HOOKS, load


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_loads(name: str):
    module, _, function = HOOKS[name].partition(":")
    found = load(name)
    assert callable(found)
    assert (found.__module__, found.__qualname__) == (module, function)
