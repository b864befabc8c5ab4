"""Where a micro-batch ends: compared with trying every place in the log."""

from hypothesis import given
from hypothesis import strategies as st

from flintmq.lake.stream.admission import limited


class FakePlaces:
    """A queue whose message n stands at positions[n]."""

    def __init__(self, positions):
        self.positions = positions

    def first_at(self, position, low, high):
        return next((n for n in range(low, high) if self.positions[n] >= position), high)


@st.composite
def logs(draw):
    """Sizes of records, and the queue of each."""
    return draw(st.lists(st.tuples(st.sampled_from("ABC"), st.integers(1, 5000)), min_size=1, max_size=60))


@given(logs(), st.integers(1, 20_000), st.booleans(), st.integers(0, 5))
def test_as_much_as_fits_and_one_at_least(log, limit, by_bytes, skipped):
    at = 0
    queues = {name: [] for name, _ in log}
    for name, size in log:
        queues[name].append((at, size))
        at += size
    places = {name: FakePlaces([position for position, _ in found]) for name, found in queues.items()}
    spans = {name: (min(skipped, len(found) - 1), len(found)) for name, found in queues.items()}
    wanted = sorted((queues[name][n], name) for name, (low, high) in spans.items() for n in range(low, high))

    def weigh(name, low, high):
        return sum(size for _, size in queues[name][low:high]) if by_bytes else high - low

    ends = limited(places, spans, wanted[0][0][0], at, weigh, limit)
    count = weight = 0
    for (_, size), _ in wanted:
        weight += size if by_bytes else 1
        if weight > limit:
            break
        count += 1
    taken = [name for _, name in wanted[: max(count, 1)]]
    assert ends == {name: low + taken.count(name) for name, (low, _) in spans.items()}
