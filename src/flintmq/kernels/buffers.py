"""Types of the arrays that kernels take and return."""

from __future__ import annotations

from array import array
from typing import TypeAlias

Numbers: TypeAlias = "array[int] | memoryview"  # 32 or 64 bits each
