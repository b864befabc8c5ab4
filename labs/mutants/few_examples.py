"""A pytest plugin (`-p labs.mutants.few_examples`): hypothesis draws at most 20 examples, and does not look
for the smallest one that fails.

A mutant is tried with every test of its module, and most die by the examples that were chosen by hand.
"""

from typing import Any

import pytest
from hypothesis import Phase, settings

MOST = 20

settings.register_profile(
    "few", max_examples=MOST, deadline=None, derandomize=True, database=None, phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("few")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that ask for more get as many as the others."""
    for item in items:
        function: Any = getattr(getattr(item, "obj", None), "__func__", getattr(item, "obj", None))
        asked = getattr(function, "_hypothesis_internal_use_settings", None)
        if asked is not None and asked.max_examples > MOST:
            phases = settings.get_profile("few").phases
            function._hypothesis_internal_use_settings = settings(
                asked, max_examples=MOST, deadline=None, derandomize=True, database=None, phases=phases
            )
