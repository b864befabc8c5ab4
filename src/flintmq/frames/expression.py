"""Reads comparisons of columns out of an Arrow filter, so that a scan can drop rows early.

pyarrow shows the inside of an expression only in its serialized form: an IPC file of one row whose schema metadata
is the tree in prefix order (call ... end, field_ref, literal, options) and whose columns are the literals. The metadata
are a list with repeated keys, of which pyarrow offers only the printed form.

Parts that are not understood here have no effect on the rows: the whole expression is applied after the scan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from flintmq.store.commitlog.pushdown import LIMITED, TIME, Comparison

_LINE = re.compile(r"^([a-z_]+): '(.*)'$", re.MULTILINE)
_ORDER = {"equal": "=", "greater": ">", "greater_equal": ">=", "less": "<", "less_equal": "<="}
_TURNED = {"=": "=", ">": "<", ">=": "<=", "<": ">", "<=": ">="}
_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass
class Node:
    """A call with its arguments, a column (`field_ref`), or a literal with its Arrow scalar.

    Attributes:
        kind: call, field_ref, literal, or other.
        name: the function or the column.
        value: the literal; of a call, its options.
        inner: the arguments.
    """

    kind: str
    name: str = ""
    value: Any = None
    inner: list[Node] = field(default_factory=list)

    def columns(self) -> Iterator[str]:
        """Yield the columns that are used anywhere below this node."""
        if self.kind == "field_ref":
            yield self.name
        for one in self.inner:
            yield from one.columns()


def tree_of(expression: Any) -> Node | None:
    """Return the expression as a tree; None if this pyarrow serializes it in an unknown way."""
    try:
        _, (data, *_) = expression.__reduce__()
        batch = pa.ipc.open_file(data).read_all()
        text = batch.schema.to_string(show_schema_metadata=True, truncate_metadata=False)
        words = _LINE.findall(text.partition("-- schema metadata --")[2])
        root, rest = _node(words, 0, batch)
        return root if rest == len(words) else None
    except (AttributeError, TypeError, ValueError, IndexError, RecursionError, pa.ArrowException):
        return None


def _node(words: list[tuple[str, str]], at: int, literals: Any) -> tuple[Node, int]:
    kind, name = words[at]
    at += 1
    if kind == "literal":
        return Node(kind, value=literals.column(int(name))[0]), at
    if kind == "nested_field_ref":  # a field inside a column: the column has to be read
        return Node("other", inner=[Node("field_ref", words[at][1])]), at + int(name)
    if kind != "call":
        return Node(kind if kind == "field_ref" else "other", name), at
    node = Node(kind, name)
    while words[at][0] != "end":
        if words[at][0] == "options":
            node.value = literals.column(int(words[at][1]))[0]
            at += 1
        else:
            one, at = _node(words, at, literals)
            node.inner.append(one)
    return node, at + 1


def comparisons(node: Node) -> list[Comparison]:
    """Return the comparisons of single columns that every row passing the tree meets."""
    if node.kind != "call":
        return []
    if node.name in ("and_kleene", "and"):
        return [one for part in node.inner for one in comparisons(part)]
    if node.name in ("or_kleene", "or"):
        return _either(*(comparisons(part) for part in node.inner))
    if node.name == "if_else" and node.inner[2].kind == "literal" and not node.inner[2].value.is_valid:
        return comparisons(node.inner[1])  # otherwise the result is null, which does not pass
    if node.name == "is_in" and node.inner[0].kind == "field_ref" and node.inner[0].name in LIMITED:
        # Not of other columns: Python has no time outside the years 1 to 9999.
        return among(node.inner[0].name, node.value.as_py()["value_set"])
    return _compared(node)


def _compared(node: Node) -> list[Comparison]:
    """Return the comparison of a column with a literal, in either order."""
    if [one.kind for one in node.inner] == ["field_ref", "literal"]:
        column, literal = node.inner
    elif [one.kind for one in node.inner] == ["literal", "field_ref"]:
        literal, column = node.inner
    else:
        return []
    if node.name == "equal" and column.name in LIMITED:
        return among(column.name, [literal.value.as_py()])
    ns = _time(literal.value) if column.name == TIME else None
    if ns is None:
        return []
    if node.name not in _ORDER:
        return []
    operator = _ORDER[node.name]
    return in_time(operator if node.inner[0] is column else _TURNED[operator], ns)


def in_time(operator: str, ns: int) -> list[Comparison]:
    """Return the comparison of the store time with a moment."""
    return [(TIME, one, ns) for one in ((">=", "<=") if operator == "=" else (operator,))]


def among(column: str, values: list[Any]) -> list[Comparison]:
    """Return the comparison of a column with values; none if the scan cannot use it."""
    kind = int if column == "queue_id" else str
    known = column in LIMITED and all(type(value) is kind for value in values)  # a null in the list could match
    return [(column, "in", frozenset(values))] if known else []


def _either(left: list[Comparison], right: list[Comparison]) -> list[Comparison]:
    """Combine the comparisons of two alternatives: for a column in both, the values of both."""
    sets = [{column: value for column, operator, value in side if operator == "in"} for side in (left, right)]
    return [(column, "in", value | sets[1][column]) for column, value in sets[0].items() if column in sets[1]]


def _time(scalar: Any) -> int | None:
    if not scalar.is_valid or not pa.types.is_timestamp(scalar.type):
        return None
    return int(scalar.value) * _NS[scalar.type.unit]
