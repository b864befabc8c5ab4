"""Keeps the old path `flintmq.testing.sim.contract`, and those of what belongs to it."""

import sys
import warnings

from flintmq.testing import consumer_ledger, contract, slow_read

warnings.warn("flintmq.testing.sim.contract is flintmq.testing.contract now", DeprecationWarning, stacklevel=2)
# The import system looks here for `flintmq.testing.sim.contract` once its parent is loaded, as for `os.path`.
for module in (consumer_ledger, contract, slow_read):
    sys.modules[f"{__name__}.{module.__name__.rpartition('.')[2]}"] = module
