"""A stream of several stores tells of each broker that is gone, once each time it goes."""

from pathlib import Path

from flintmq.lake.read.options import ReadOptions
from flintmq.lake.stream.members import StoresStream
from flintmq.lake.stream.options import StreamOptions
from flintmq.testing import write_store


def test_a_broker_that_is_gone_is_told_once_until_it_returns(tmp_path: Path) -> None:
    """Also where one broker's name begins with the other's."""
    for name in ("a", "a b"):
        write_store(tmp_path / name, 20)
    pattern = str(tmp_path / "*")
    said: list[str] = []
    read = ReadOptions(pattern, stores=pattern, fail_on_data_loss=False)
    stream = StoresStream(StreamOptions(read), said.append)
    offset = stream.next_end(stream.initial())
    assert sorted(offset) == ["a", "a b"] and said == []

    def looks(*gone: str) -> list[str]:
        """What two looks tell while these brokers are gone."""
        said.clear()
        for name in gone:
            (tmp_path / name).rename(tmp_path.parent / name)
        for _ in range(2):
            stream.next_end(offset)
        for name in gone:
            (tmp_path.parent / name).rename(tmp_path / name)
        return said

    def told(name: str) -> str:
        return f"{pattern}: the store of broker '{name}' is gone; the stream goes on there when it returns"

    assert looks("a") == [told("a")]
    assert looks("a b") == [told("a b")]
    assert looks() == []
    assert looks("a") == [told("a")]
    assert looks("a", "a b") == [told("a b")], "a was told, and no look has found it back"
