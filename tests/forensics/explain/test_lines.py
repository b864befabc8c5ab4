from flintmq.forensics.explain.lines import TEXT_CHARS, Line, Remark, blame, field_lines, text_of
from flintmq.format import consume_queue, timer


def test_fields_say_what_the_declaration_says() -> None:
    data = consume_queue.UNIT.pack(consume_queue.Unit(7, 8, -1))
    lines = list(field_lines(consume_queue.UNIT, data, 100, "unit 5", {"size": Remark("so", "wrong")}))
    assert [(line.offset, line.length, line.name, line.value) for line in lines] == [
        (100, 8, "physical_offset", 7), (108, 4, "size", 8), (112, 8, "tags_code", -1)
    ]  # fmt: skip
    assert [part.meaning for _, part in consume_queue.UNIT.parts] == [line.meaning for line in lines]
    assert (lines[1].text, lines[1].problem) == ("8: so", "wrong")
    assert b"".join(line.data for line in lines) == data


def test_a_cut_and_a_rest() -> None:
    data = consume_queue.UNIT.pack(consume_queue.Unit(7, 8, 9))
    *_, last = field_lines(consume_queue.UNIT, data[:15], 0, "")
    assert (last.name, last.length, last.value) == ("tags_code", 3, None)
    assert last.problem == "tags_code needs 8 bytes, 3 are left"
    *_, rest = field_lines(consume_queue.UNIT, data + b"abc", 0, "")
    assert (rest.name, rest.offset, rest.length) == ("rest", 20, 3)


def test_bits_have_names() -> None:
    unit = timer.LogUnit(52, -1, 7, 1_700_000_000_000, 0, 0, 0, 0)
    lines = {line.name: line.text for line in field_lines(timer.LOG_UNIT, timer.LOG_UNIT.pack(unit), 0, "")}
    assert lines["magic"] == "0x7 (unit, rolled, deletes)"
    assert lines["write_time"] == "1700000000000 (2023-11-14T22:13:20.000Z)"


def test_blame_finds_the_line() -> None:
    lines = [Line(0, 4, "", "a", 1, "1", ""), Line(4, 4, "", "b", 2, "2", "", "old")]
    assert [line.problem for line in blame(lines, 5, "new")] == [None, "old; new"]
    assert [line.problem for line in blame(lines, 99, "new")] == ["new", "old"]
    assert blame([], 0, "new") == []


def test_texts_are_cut() -> None:
    assert text_of(b"abc\xff") == "abc�"
    assert len(text_of(b"x" * 10_000_000)) == TEXT_CHARS
