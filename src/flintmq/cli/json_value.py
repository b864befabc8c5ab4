"""Converts values of Arrow for JSON."""

from __future__ import annotations

import json
import math
from binascii import b2a_base64
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def json_text(value: Any) -> str:
    """Return a value as compact JSON for people, with their letters."""
    return _ENCODER.encode(json_value(value))


def json_value(value: Any) -> Any:
    """Convert a value for JSON: bytes in base64, times as text, whole decimals as numbers."""
    if isinstance(value, bytes):
        return b2a_base64(value, newline=False).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else str(value)
    if isinstance(value, (date, datetime, time, timedelta)):
        return str(value)
    if isinstance(value, list):
        if value and all(isinstance(one, tuple) and len(one) == 2 for one in value):  # a map
            return {str(key): json_value(one) for key, one in value}
        return [json_value(one) for one in value]
    if isinstance(value, dict):
        return {str(key): json_value(one) for key, one in value.items()}
    return value if isinstance(value, (int, float, str, bool, type(None))) else str(value)
