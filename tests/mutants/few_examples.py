"""A pytest plugin (`-p tests.mutants.few_examples`): hypothesis draws 20 examples where a test leaves it free, not 100,
and does not look for the smallest one that fails.

A mutant is tried with every test of its module, and most die by the examples that were chosen by hand.
"""

from hypothesis import Phase, settings

settings.register_profile(
    "few", max_examples=20, deadline=None, derandomize=True, database=None, phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("few")
