"""Makes filters of subscriptions, which are tags or a condition in SQL92."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flintmq.broker import sql
from flintmq.broker.requests import Answer, Handler, Refused, Request
from flintmq.broker.served import EVERYTHING, Filter
from flintmq.errors import FormatError
from flintmq.remoting.names import CHECK_CLIENT, SUBSCRIPTION_PARSE_FAILED, SYSTEM_ERROR
from flintmq.remoting.pulls import TAG

TAGS_MAX: Final = 64 << 10  # letters of a subscription, whose tags each look at the queue counts anew


class Filters:
    """Makes filters of subscriptions. Thread: the loop's.

    Args:
        by_properties: conditions are allowed.
    """

    def __init__(self, *, by_properties: bool) -> None:
        self._by_properties = by_properties

    def handlers(self) -> dict[int, Handler]:
        return {CHECK_CLIENT: self.check}

    def of(
        self,
        expression: str,
        kind: str,
        code: int = SUBSCRIPTION_PARSE_FAILED,
        why: str = "parse the consumer's subscription failed",
    ) -> Filter:
        """Return what an expression wants.

        Raises Refused: there are no expressions of this kind here; or, with this code, it is none of them.
        """
        if kind == TAG:
            if len(expression) > TAGS_MAX:
                raise Refused(SYSTEM_ERROR, f"a subscription of {len(expression)} letters; {TAGS_MAX} are the most")
            return EVERYTHING if expression.strip() in ("", "*") else Filter(expression)
        if kind != sql.SQL92 or not self._by_properties:
            raise Refused(SYSTEM_ERROR, f"The broker does not support consumer to filter message by {kind:.50}")
        try:
            return Filter(wanted=sql.wanted(expression))
        except FormatError as error:
            raise Refused(code, f"{why}: {error}") from None

    def check(self, request: Request) -> Answer:
        """Say whether a subscription can be served, for which clients ask before they consume."""
        asked = request.json().get("subscriptionData")
        told: Mapping[Any, Any] = asked if isinstance(asked, dict) else {}
        self.of(str(told.get("subString") or ""), str(told.get("expressionType") or TAG), why="Invalid MessageSelector")
        return request.answer()
