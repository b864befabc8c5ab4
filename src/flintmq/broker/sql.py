"""SQL92 of subscriptions: a condition on the properties of a message, compiled to closures.

The language, its types, its three-valued logic and its oddities are those of RocketMQ's filters:

*   A property is text. Beside a number it is read as one of the same type: `a > 3` reads `7`, and fails at `7.0`.
*   Where reading fails, all of the evaluation does, and the message does not match, whatever else is in the condition.
*   A whole condition may be followed by anything that begins with a word: `a = 1 b #` is `a = 1`.

One thing differs: hexadecimal text of a property (`0x1p3`) is no number here. Recursion is bounded by DEPTH_MAX, which
RocketMQ leaves to the stack of a thread.

Upstream: SelectorParser.jj, ComparisonExpression, LogicExpression, UnaryExpression, ConstantExpression.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from flintmq.errors import FormatError

SQL92: Final = "SQL92"  # the type of such expressions
LENGTH_MAX: Final = 4096  # letters of one
DEPTH_MAX: Final = 64
KEPT: Final = 100  # compiled ones, as many as RocketMQ keeps

Evaluate: TypeAlias = Callable[[Mapping[str, str]], Any]  # properties to text, number, True, False, or None: unknown
_INTS, _LONGS = 1 << 31, 1 << 63

_WORD = re.compile(
    r"""(?P<space>[ \t\n\r\f]+|/\*(?s:.*?)\*/)
    |(?P<double>(?:(?<![0-9])[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?<![0-9])[0-9]+[eE][+-]?[0-9]+)
    |(?P<whole>0|[1-9][0-9]*[lL]?)
    |(?P<text>'[^']*'(?:'[^']*')*)
    |(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
    |(?P<sign><>|>=|<=|[=<>(),+-])""",
    re.VERBOSE,
)
_COMMENT = re.compile(r"(?P<space>--[^\n\r]*[\n\r])")  # apart: without an end of line it is two signs
_ORDERS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
_SEARCHES: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "CONTAINS": operator.contains, "STARTSWITH": str.startswith, "ENDSWITH": str.endswith,
}  # fmt: skip
_CONSTANTS: Final[Mapping[str, bool | None]] = {"TRUE": True, "FALSE": False, "NULL": None}
_KEYWORDS: Final = {"NOT", "AND", "OR", "BETWEEN", "IN", "IS", *_SEARCHES, *_CONSTANTS}

# Texts that Java reads as numbers. Each repetition is possessive: a long one that is none is looked at once.
_WHOLE = re.compile(r"([+-]?)(?=\d)0*+([^\D\U00010000-\U0010ffff]{0,19})")  # digits of any script, of 16 bits
_DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[fFdD]?)")
_BLANKS = "".join(map(chr, range(33)))


def compiled(text: str) -> Evaluate:
    """Return the function of a condition: True, False or None of the properties of a message.

    It raises ValueError where RocketMQ's evaluation fails.

    Raises:
        FormatError: RocketMQ refuses the condition; or it is longer or deeper than it may be here.
    """
    if len(text) > LENGTH_MAX:
        raise FormatError(f"a condition of {len(text)} letters; {LENGTH_MAX} are the most")
    found = _compiled(text)
    if isinstance(found, FormatError):
        raise FormatError(found.reason, found.position)
    return found


@lru_cache(KEPT)
def _compiled(text: str) -> Evaluate | FormatError:
    """Return the function of a condition, or its refusal: that of a long one takes as long."""
    parser = _ConditionParser(text)
    try:
        return parser.logic(parser.alternatives()).of
    except FormatError as error:
        return error.with_traceback(None)  # which keeps all the words


def wanted(text: str) -> Callable[[Mapping[str, str]], bool]:
    """Return whether a message with these properties is wanted, as a function.

    Raises:
        FormatError: as `compiled`.
    """
    of = compiled(text)

    def is_wanted(properties: Mapping[str, str]) -> bool:
        try:
            return of(properties) is True
        except ValueError:
            return False

    return is_wanted


class _Node(NamedTuple):
    """A part of a condition.

    Attributes:
        of: evaluates it.
        kind: "logic", "property", "constant", or "number": a constant with a sign.
        value: of a constant.
        depth: of the calls that evaluate it.
    """

    of: Evaluate
    kind: str
    value: Any = None
    depth: int = 1


def _words(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield each word's kind, or the keyword or sign itself, its letters, and where it begins.

    The last one is of kind "": the end; or "?": letters that are none, which is an error only for who gets there.
    """
    at, last = 0, max(text.rfind("\n"), text.rfind("\r"))
    while (found := (at < last and _COMMENT.match(text, at)) or _WORD.match(text, at)) is not None:
        kind, word = found.lastgroup or "", found[0]
        if kind != "space":
            yield word.upper() if kind == "sign" or word.upper() in _KEYWORDS else kind, word, at
        at = found.end()
    yield "?" if at < len(text) else "", text[at : at + 1], at


class _ConditionParser:
    """Reads a condition, by recursive descent."""

    def __init__(self, text: str) -> None:
        self._words, self._at, self._depth = list(_words(text)), 0, 0

    # -- words --------------------------------------------------------------------------------------------------------

    def _peek(self) -> str:
        kind = self._words[self._at][0]
        if kind == "?":
            raise self._refusal()
        return kind

    def _read(self, *kinds: str) -> str:
        """Return the letters of the next word, which must be of these kinds."""
        if self._peek() not in kinds:
            raise self._refusal()
        self._at += 1
        return self._words[self._at - 1][1]

    def _skipped(self, kind: str) -> bool:
        """Pass over the next word if it is of this kind; return whether it is."""
        is_there = self._peek() == kind
        self._at += is_there
        return is_there

    def _refusal(self, why: str = "") -> FormatError:
        """Return the error of a condition, by default that its next word cannot be there."""
        _, word, at = self._words[self._at]
        return FormatError(why or f"{ascii(word)[:50] if word else 'its end'} cannot follow what comes before", at)

    # -- the grammar --------------------------------------------------------------------------------------------------

    def alternatives(self) -> _Node:
        return self._joined("OR", self._conjunction, True)

    def _conjunction(self) -> _Node:
        return self._joined("AND", self._equality, False)

    def _joined(self, word: str, part: Callable[[], _Node], decides: bool) -> _Node:
        parts = [part()]
        while self._skipped(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else self._chain(parts, decides)

    def _equality(self) -> _Node:
        left = self._comparison()
        while True:
            if self._skipped("="):
                left = self._equal(left, self._comparison())
            elif self._skipped("<>"):
                left = self._not(self._equal(left, self._comparison()))
            elif self._skipped("IS"):
                is_not = self._skipped("NOT")
                self._read("NULL")
                left = self._null(left, is_not)
            else:
                return left

    def _comparison(self) -> _Node:
        left = self._sign()
        while True:
            word = self._peek()
            if word in _ORDERS:
                self._read(word)
                left = self._ordered(word, left, self._sign())
                continue
            is_not = self._skipped("NOT")
            word = self._peek()
            if word in _SEARCHES:
                self._read(word)
                left = self._searched(_SEARCHES[word], left, self._quoted(), is_not)
            elif self._skipped("BETWEEN"):
                low = self._sign()
                self._read("AND")
                left = self._between(left, low, self._sign(), is_not)
            elif self._skipped("IN"):
                self._read("(")
                texts = [self._quoted()]
                while self._skipped(","):
                    texts.append(self._quoted())
                self._read(")")
                left = self._in(left, frozenset(texts), is_not)
            elif is_not:
                raise self._refusal()
            else:
                return left

    def _sign(self) -> _Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._refusal(f"more than {DEPTH_MAX} signs and parentheses in each other")
        if self._skipped("+"):
            found = self._sign()
        elif self._skipped("-"):
            found = self._negative(self._sign())
        elif self._skipped("NOT"):
            found = self._not(self.logic(self._sign()))
        else:
            found = self._primary()
        self._depth -= 1
        return found

    def _primary(self) -> _Node:
        kind = self._peek()
        if kind == "(":
            self._read("(")
            found = self.alternatives()
            self._read(")")
            return found
        if kind == "name":
            name = self._read("name")
            return _Node(lambda properties: properties.get(name), "property")
        value = self._quoted() if kind == "text" else self._constant(kind)
        return _Node(lambda properties: value, "constant", value)

    def _quoted(self) -> str:
        return self._read("text")[1:-1].replace("''", "'")

    def _constant(self, kind: str) -> float | bool | None:
        word = self._read("whole", "double", *_CONSTANTS)
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        value = float(word) if kind == "double" else int(word.rstrip("lL"))
        if not (0 < value < math.inf if kind == "double" else value < _LONGS):
            raise self._refusal("a number that RocketMQ does not take")
        return value

    # -- types, and what each part does -------------------------------------------------------------------------------

    def _node(self, of: Evaluate, *parts: _Node, kind: str = "logic") -> _Node:
        depth = 1 + max(part.depth for part in parts)
        if depth > DEPTH_MAX:
            raise self._refusal(f"more than {DEPTH_MAX} comparisons in each other")
        return _Node(of, kind, None, depth)

    def logic(self, node: _Node) -> _Node:
        """Return a part as one that is true, false or unknown: of a property, false or unknown."""
        if node.kind == "property":
            return self._node(lambda properties: None if node.of(properties) is None else False, node)
        is_known = node.kind == "constant" and (node.value is None or isinstance(node.value, bool))
        if node.kind != "logic" and not is_known:
            raise self._refusal("what comes before is neither true nor false")
        return node

    def _chain(self, parts: Sequence[_Node], decides: bool) -> _Node:
        """Join by OR, which a True decides, or by AND, which a False does."""
        each = [self.logic(part).of for part in parts]

        def chain(properties: Mapping[str, str]) -> bool | None:
            found: bool | None = not decides
            for of in each:
                value: bool | None = of(properties)
                if value is decides:
                    return value
                if value is None:
                    found = None
            return found

        return self._node(chain, *parts)

    def _not(self, node: _Node) -> _Node:
        def opposite(properties: Mapping[str, str]) -> bool | None:
            value = node.of(properties)
            return None if value is None else not value

        return self._node(opposite, node)

    def _negative(self, node: _Node) -> _Node:
        def negative(properties: Mapping[str, str]) -> float | None:
            value = node.of(properties)
            return None if value is None or isinstance(value, (str, bool)) else -value

        return self._node(negative, node, kind="number")

    def _null(self, node: _Node, is_not: bool) -> _Node:
        return self._node(lambda properties: (node.of(properties) is None) is not is_not, node)

    def _equal(self, left: _Node, right: _Node) -> _Node:
        both = [node for node in (left, right) if node.kind == "constant"]
        has_null = any(node.value is None for node in both)
        if has_null or (len(both) == 2 and isinstance(left.value, bool) and not isinstance(right.value, bool)):
            raise self._refusal("constants that cannot be compared")

        def equal(properties: Mapping[str, str]) -> bool | None:
            one, other = left.of(properties), right.of(properties)
            if one is None or other is None:
                return True if one is other else None if one is None else False
            return _compared(one, other) == 0

        return self._node(equal, left, right)

    def _ordered(self, word: str, left: _Node, right: _Node) -> _Node:
        for node in (left, right):
            value = node.value if node.kind == "constant" else 0
            if node.kind == "logic" or isinstance(value, (str, bool)) or value is None:
                raise self._refusal("a side of a comparison is neither a property nor a number")
        is_so = _ORDERS[word]

        def ordered(properties: Mapping[str, str]) -> bool | None:
            one, other = left.of(properties), right.of(properties)
            if one is None or other is None:
                return None
            if isinstance(one, str) and isinstance(other, str):
                one, other = _double(one), _double(other)
            return is_so(_compared(one, other), 0)

        return self._node(ordered, left, right)

    def _between(self, node: _Node, low: _Node, high: _Node, is_not: bool) -> _Node:
        if is_not:
            return self._chain([self._ordered("<", node, low), self._ordered(">", node, high)], True)
        both = [self._ordered(">=", node, low), self._ordered("<=", node, high)]
        if low.kind == high.kind == "constant" and _compared(low.value, high.value) > 0:
            raise self._refusal("the first value of a BETWEEN is larger than the second one")
        return self._chain(both, False)

    def _in(self, node: _Node, texts: frozenset[str], is_not: bool) -> _Node:
        if node.kind != "property":
            raise self._refusal("IN needs a property")

        def is_in(properties: Mapping[str, str]) -> bool | None:
            value = node.of(properties)
            return None if value is None else (value in texts) is not is_not

        return self._node(is_in, node)

    def _searched(self, search: Callable[[str, str], bool], node: _Node, text: str, is_not: bool) -> _Node:
        def searched(properties: Mapping[str, str]) -> bool:
            value = node.of(properties) if text else None
            return isinstance(value, str) and search(value, text) is not is_not

        return self._node(searched, node)


# -- Java's comparison of values ---------------------------------------------------------------------------------------


def _compared(left: Any, right: Any) -> int:
    """Return how two values compare, as ComparisonExpression.compare does: less than 0, 0, more.

    Raises ValueError: a text is no number of the other's type; a TRUE or FALSE is followed by a text.
    """
    if isinstance(left, str) and not isinstance(right, str):
        left = _read_as(right, left)
    elif isinstance(right, str) and not isinstance(left, str):
        if isinstance(left, bool):
            raise ValueError
        right = _read_as(left, right)
    if isinstance(left, bool) is not isinstance(right, bool):
        return -1
    if isinstance(left, float) or isinstance(right, float):
        left, right = _place(float(left)), _place(float(right))
    return int(left > right) - int(left < right)


def _read_as(like: float | bool, text: str) -> float | bool:
    """Read a text as a value of the same type as another one."""
    if isinstance(like, bool):
        return text.lower() == "true"
    if isinstance(like, float):
        return _double(text)
    found, most = _WHOLE.fullmatch(text), _INTS if -_INTS < like < _INTS else _LONGS
    value = most if found is None else int(found[1] + (found[2] or "0"))
    if not -most <= value < most:
        raise ValueError
    return value


@lru_cache(256)  # a long condition may read one long text again and again
def _double(text: str) -> float:
    text = text.strip(_BLANKS)
    if not _DOUBLE.fullmatch(text):
        raise ValueError
    return float(text.rstrip("fFdD"))


def _place(value: float) -> tuple[float, ...]:
    """Return the place of a number in Java's order: -0.0 before 0.0, NaN after all."""
    return (1,) if math.isnan(value) else (0, value, math.copysign(1, value))
