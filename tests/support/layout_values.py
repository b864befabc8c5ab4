"""Hypothesis strategies made from the declarations: random values of any layout."""

from typing import Any

from hypothesis import strategies as st

from flintmq.format.layout import WIDTHS, CountedBytes, Int, Layout, Sized, Total


def numbers(type_: str) -> st.SearchStrategy[int]:
    """Any number of a type such as "i32"; the ends and small ones come often."""
    bits = WIDTHS[type_] * 8
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if type_[0] == "i" else (0, (1 << bits) - 1)
    return st.one_of(st.integers(low, high), st.sampled_from([low, high, 0, 1]))


@st.composite
def values(draw: st.DrawFn, layout: Layout[Any], **given_fields: st.SearchStrategy[Any]) -> tuple[Any, dict[str, Any]]:
    """(a random value of the layout, what is to be `given` to its codec). Keywords replace a field's strategy."""
    given = {"address_width": draw(st.sampled_from([4, 16]))}
    fields: dict[str, Any] = dict(given)
    for name, part in layout.parts:
        if isinstance(part, Total):
            continue
        if name in given_fields:
            fields[name] = draw(given_fields[name])
        elif isinstance(part, Int):
            fields[name] = draw(numbers(part.type))
        elif isinstance(part, Sized):
            width = part.choose(fields)
            fields[name] = draw(st.binary(min_size=width, max_size=width))
        else:
            assert isinstance(part, CountedBytes)
            fields[name] = draw(st.binary(max_size=100))
    return layout.type(*(fields[name] for name in layout.type._fields)), given
