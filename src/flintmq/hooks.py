"""Names what the core takes from the lake and from what is live.

FlintMQ has three quarters: the core; the lake (`lake`, `spark`, `cli/lake`); what is live (`ha`, `metrics`,
`remoting`, `cli/live`). The two may import the core, and know neither each other nor are known to it. Where the core
needs one of them, it loads a hook by its name here, when it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

HOOKS: Final = {
    "engine_metrics": "flintmq.metrics.engine:engine_metrics",
    "history": "flintmq.lake.history:History",
    "make_listener": "flintmq.ha.listener:HaListener",
    "store_metrics": "flintmq.metrics.stores:store_metrics",
}
"""Name of a hook -> its module and the function or class there."""


def load(name: str) -> Any:
    """Return the function or class of a hook.

    Raises:
        ModuleNotFoundError: an optional package that its module needs is not installed.
    """
    module, _, function = HOOKS[name].partition(":")
    return getattr(import_module(module), function)
