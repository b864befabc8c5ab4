"""`typing.override` also for Python 3.11: type checkers say where such a method overrides nothing.

It stands where a docstring would only say "see the base".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import override
else:

    def override(method: Any) -> Any:
        """Return the method."""
        return method


__all__ = ["override"]
