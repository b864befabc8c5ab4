"""Configuration files: every key with its bytes, also where the text breaks off."""

from pathlib import Path

import pytest

from tests.support.looks import look

TEXT = '{\n\t"dataVersion":{"timestamp":1700000000000},"offsetTable":{"T@g":{0:15,1:9},"中@g":{0:1}},"l":["a",2]}\n'


def write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "config" / "consumerOffset.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def test_every_key_and_element(tmp_path: Path) -> None:
    seen = look(write(tmp_path, TEXT.encode()))
    assert [(line.name, line.value) for line in seen.lines] == [
        ("begin", 0), ("dataVersion", "1 member"), ("dataVersion.timestamp", 1700000000000),
        ("offsetTable", "2 members"), ("offsetTable.T@g", "2 members"), ("offsetTable.T@g[0]", 15),
        ("offsetTable.T@g[1]", 9), ("offsetTable.中@g", "1 member"), ("offsetTable.中@g[0]", 1),
        ("l", "2 elements"), ("l[0]", "a"), ("l[1]", 2),
    ]  # fmt: skip
    assert seen.field("offsetTable.T@g[1]").data.startswith(b"1:9")
    assert seen.field("offsetTable.T@g[1]").meaning == "next queue offset to consume of this queue"
    assert seen.field("dataVersion.timestamp").text.endswith("(2023-11-14T22:13:20.000Z)")
    assert seen.found["meaning"] == "how far each group has consumed each queue"


def test_one_place_of_it(tmp_path: Path) -> None:
    path = write(tmp_path, TEXT.encode())
    at = TEXT.encode().index(b"1:9")
    for inside in (at, at + 2):
        names = [line.name for line in look(path, inside).lines]
        assert names[0] == "before" and names[1:4] == ["offsetTable.T@g[0]", "offsetTable.T@g[1]", "offsetTable.中@g"]
    assert look(path, 0).lines[0].name == "begin"
    assert look(path, limit=3).lines[-1].name == "rest"


@pytest.mark.parametrize("cut", range(0, len(TEXT.encode()) - 2, 3))
def test_broken_off_anywhere(cut: int, tmp_path: Path) -> None:
    seen = look(write(tmp_path, TEXT.encode()[:cut]))
    if cut:
        assert seen.explained.problems >= 1 and seen.explained.first is not None
        assert "brokers take consumerOffset.json.bak instead" in seen.found["broken"]


@pytest.mark.parametrize(
    ("data", "position"), [(b'{"a":1}x', 7), (b'{"a" 1}', 5), (b'\xef\xbb\xbf{"a":?}', 8), (b'{"\xe4":[1,,]}', 8)]
)
def test_where_it_breaks(data: bytes, position: int, tmp_path: Path) -> None:
    seen = look(write(tmp_path, data))
    [line] = seen.problems
    assert (line.name, line.offset) == ("unreadable", position)


def test_texts_are_java_s(tmp_path: Path) -> None:
    """Bytes that are no UTF-8, escapes, single quotes."""
    seen = look(write(tmp_path, b"{'\\u4e2d':\"\xff\\n\",b:null,c:true}"))
    assert [(line.name, line.value, line.text) for line in seen.lines[1:]] == [
        ("中", "�\n", "�\n"), ("b", None, "null"), ("c", True, "true")
    ]  # fmt: skip
