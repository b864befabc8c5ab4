"""tests/harness/order.py: the files of the list are there, and workers get them first."""

from types import SimpleNamespace

import pytest

from tests.harness import order


def test_the_files_of_the_list_are_there() -> None:
    assert len(set(order.LONGEST_FIRST)) == len(order.LONGEST_FIRST)
    assert [name for name in order.LONGEST_FIRST if not (order.ROOT / name).is_file()] == []


@pytest.mark.parametrize("worker", [True, False])
def test_workers_get_the_longest_files_first(worker: bool) -> None:
    first, second, *_ = order.LONGEST_FIRST
    names = ["arrow/a.py", second, "arrow/b.py", "arrow/b.py", first, first]
    items = [SimpleNamespace(path=order.ROOT / name, name=str(number)) for number, name in enumerate(names)]
    order.sort(SimpleNamespace(**{"workerinput": {}} if worker else {}), items)  # type: ignore[arg-type]
    assert "".join(item.name for item in items) == ("451230" if worker else "012345")


def test_files_are_handed_out_as_collected() -> None:
    config = SimpleNamespace(option=SimpleNamespace(loadscopereorder=True))
    order.with_several_workers(config)  # type: ignore[arg-type]
    assert config.option.loadscopereorder is False
    order.with_several_workers(SimpleNamespace(option=SimpleNamespace()))  # type: ignore[arg-type]  # without xdist
