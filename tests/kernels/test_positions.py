"""Positions inside records, units and index files that kernels have as C constants, compared with the declarations.

Each line below is a piece of a kernel's source, with names for its numbers: the numbers are taken from the layouts of
`format/`, and the line must then be in the source. A read or write at a number that no line covers fails too.
"""

import re
from pathlib import Path

import pytest

from flintmq import kernels
from flintmq.format import index
from flintmq.format.consume_queue import UNIT, UNIT_SIZE
from flintmq.format.record import BLANK, BORN_HOST_V6, MIN_SIZE, RECORD, STORE_HOST_V6

V6 = BORN_HOST_V6 | STORE_HOST_V6
BODY = RECORD.offset("body", {"sys_flag": 0})
BOTH_HOSTS = (
    RECORD.offset("store_timestamp", {"sys_flag": 0})
    - RECORD.offset("born_host")
    + (RECORD.offset("reconsume_times", {"sys_flag": 0}) - RECORD.offset("store_host", {"sys_flag": 0}))
)
WIDER = RECORD.offset("store_timestamp", {"sys_flag": BORN_HOST_V6}) - RECORD.offset("store_timestamp", {"sys_flag": 0})
NUMBERS = {
    **{name: RECORD.offset(name, {"sys_flag": 0}) for name, _ in RECORD.parts if name not in ("topic", "properties")},
    "version": RECORD.offset("magic") + 3,
    "flag_byte": RECORD.offset("sys_flag") + 3,
    "least": MIN_SIZE,
    "head": RECORD.offset("body", {"sys_flag": V6}) + 4,
    "after_length": BODY + 4,
    "length_without_hosts": BODY - BOTH_HOSTS,
    "body_without_hosts": BODY + 4 - BOTH_HOSTS,
    "wider": WIDER,
    "narrow_host": RECORD.offset("store_timestamp", {"sys_flag": 0}) - RECORD.offset("born_host"),
    "wide_host": RECORD.offset("store_timestamp", {"sys_flag": V6}) - RECORD.offset("born_host"),
    "v6_store_timestamp": RECORD.offset("store_timestamp", {"sys_flag": BORN_HOST_V6}),
    "prepared_after_times": RECORD.offset("prepared_transaction_offset", {"sys_flag": 0})
    - RECORD.offset("reconsume_times", {"sys_flag": 0}),
    "length_after_times": BODY - RECORD.offset("reconsume_times", {"sys_flag": 0}),
    "blank_magic": BLANK.offset("magic"),
    "unit": UNIT_SIZE,
    **{f"unit_{name}": UNIT.offset(name) for name in ("size", "tags_code")},
    "item": index.ITEM.size,
    **{f"item_{name}": index.ITEM.offset(name) for name in index.Item._fields},
    "header": index.HEADER.size,
    **{f"header_{name}": index.HEADER.offset(name) for name in index.Header._fields},
    "slot": index.SLOT.size,
}
LINES = {
    "fast_get": """
        i64be(p, unit + {unit_tags_code})
        i32be(p, unit + {unit_size})
    """,
    "walk": """
        _LEAST = cython.declare(cython.longlong, {least})
        u32be(p, at + {magic})
        left < {head}
        i64be(p, at + {physical_offset})
        i32be(p, at + {sys_flag})
        i32be(p, at + {length_without_hosts} + hosts)
        crc32_of(p, at + {body_without_hosts} + hosts, body)
        u32be(p, at + {body_crc})
        i64be(p, at + ({v6_store_timestamp} if p[at + {flag_byte}] & 16 else {store_timestamp}))
    """,
    "record_parts": """
        size < {least} or size > limit - at
        p[at + {version}] == 0xAB
        (12 if p[at + {flag_byte}] & 16 else 0)
        (12 if p[at + {flag_byte}] & 32 else 0)
        at + ({wider} if p[
        born + ({wider} if p[
        i32be(p, both + {body})
        both + {after_length} + body
    """,
    "derive": """
        put32be(to, at + {unit_size}, size)
        put64be(to, at + {unit_tags_code}, tags_code)
        bytearray({unit})
        i32be(p, record + {sys_flag})
        i32be(p, record + {queue_id})
        i64be(p, spans[SPAN_BORN] + {store_timestamp})
        i64be(p, record + {queue_offset})
        put_unit(up, units * {unit},
    """,
    "encode": """
        put32be(out, at + {magic}, _V2
        put32be(out, at + {queue_id}, queue_id)
        put32be(out, at + {flag}, flag)
        put64be(out, at + {queue_offset}, queue_offset)
        put64be(out, at + {physical_offset}, physical_offset)
        put32be(out, at + {sys_flag}, sys_flag)
        put64be(out, at + {born_timestamp}, born_time)
        at += {born_host}
        {wide_host} if sys_flag & 16 else {narrow_host}
        {wide_host} if sys_flag & 32 else {narrow_host}
        put64be(out, at + {prepared_after_times}, prepared_offset)
        put32be(out, at + {length_after_times}, body)
        put32be(out, start + {body_crc}, crc32_of
        put32be(out, at + {blank_magic}, _BLANK_MAGIC)
    """,
    "fetch": """
        UNIT = {unit}
        {after_length} + ({wider} if self._p[{flag_byte}] & 16 else 0) + ({wider} if self._p[{flag_byte}] & 32 else 0)
        i64be(p, {unit} * (first + i))
        i32be(p, {unit} * (first + i) + {unit_size})
        i32be(p, at + {queue_id}) != queue_id or i64be(p, at + {queue_offset}) != queue_offset or p[at + {flag_byte}]
        at + {after_length} + ({wider} if p[at + {flag_byte}] & 16 else 0)
        + ({wider} if p[at + {flag_byte}] & 32 else 0)
        p[at + {version}] == 0xA7
        i32be(u, later + {unit_size})
        i64be(u, {unit} * (first + i)) - base
        i32be(u, {unit} * (first + i) + {unit_size})
        p[spans[SPAN_RECORD] + {flag_byte}] & 0x80
        size < {least} or size > len(data) - at
    """,
    "gather_views": """
        p[spans[8 * i + SPAN_RECORD] + {flag_byte}] & 1
        p[spans[8 * i + SPAN_RECORD] + {version}] == 0xA7
    """,
    "gather_fill": """
        where <= {born_host} else (SPAN_BORN if where <= {store_host}
        spans[8 * i + SPAN_BORN] + {store_host}
        p[spans[8 * i + SPAN_RECORD] + {version}] == 0xA7
        p[spans[8 * i + SPAN_RECORD] + {flag_byte}] & 1
        put_hex8(out, start + used + 2 * width, p, spans[8 * i + SPAN_RECORD] + {physical_offset})
    """,
    "gather": """
        {born_host} if kind == 7 else {store_host}
    """,
    "select": """
        i64be(p, spans[SPAN_BORN] + {store_timestamp})
        i32be(p, spans[SPAN_RECORD] + {queue_id}), i64be(p, spans[SPAN_RECORD] + {queue_offset})
    """,
    "json_line": """
        ({born_host} if kind == KIND_BORN_HOST else {store_host})
        put_hex8(to, used + 1, p, spans[SPAN_BORN] + {store_host})
        put_hex8(to, used + 17, p, spans[SPAN_RECORD] + {physical_offset})
        p[spans[SPAN_RECORD] + {version}] == 0xA7
    """,
    "zone_keys": """
        time: cython.longlong = i64be(p, spans[SPAN_BORN] + {store_timestamp})
    """,
    "odd_text": """
        i64be(p, spans[SPAN_BORN] + {store_timestamp})
        i64be(p, spans[SPAN_RECORD] + {queue_offset}) < 0
        i64be(p, spans[SPAN_RECORD] + {queue_offset}) > _LAST_UNIT
    """,
    "group_units": """
        units * {unit} > len(unit_bytes)
        copy_bytes(target, starts[q] * {unit}, source, first * {unit}, (i - first) * {unit})
    """,
    "append_columns": """
        put_unit(to, {unit} * k,
    """,
    "index_check": """
        count > len(buf) // {item}
        i64be(p, at + {item_physical_offset})
        i32be(p, at + {item_seconds})
        i32be(p, at + {item_previous})
    """,
    "index_insert": """
        _HEADER = cython.declare(cython.longlong, {header})
        len(buf) < {header} + {slot} * slots + {item} * items
        i32be(p, {header_index_count})
        i32be(p, {header_slots_used})
        i64be(p, {header_begin_timestamp})
        at: cython.longlong = _HEADER + {slot} * slots + {item} * (count - window)
        put64be(p, at + {item_physical_offset}, key_offsets[i])
        put32be(p, at + {item_seconds}, seconds)
        put32be(p, at + {item_previous}, previous)
        put64be(p, {header_begin_timestamp}, begin)
        put64be(p, {header_begin_physical_offset}, key_offsets[i])
        put64be(p, {header_end_timestamp}, key_times[i - 1])
        put64be(p, {header_end_physical_offset}, key_offsets[i - 1])
        put32be(p, {header_slots_used}, used)
        put32be(p, {header_index_count}, count)
    """,
}
# Numbers that are positions in texts (names of properties, unique keys, UTF-8), hosts or frames, not in a layout.
IN_TEXTS = {
    ("derive", "p[at + 4]"),  # DELAY
    ("odd_text", "p[at + 12]"),  # INNER_MULTI_DISPATCH
    ("zone_keys", "put32be(to, 6"),  # 64 * i + 60: the end of a block of bits
    ("encode", "out[at + 8]"),  # __CRC32#
    ("encode", "out[at + 19]"),
    ("fast_append", "u32be(p, 0"),
    ("fast_append", "u32be(p, at + 4"),  # UNIQ_KEY
    ("gather_fill", "p[at + 4]"),  # a host's port
    ("gather_fill", "p[at + 5]"),
    ("gather_views", "p[at + 4]"),
    ("gather_views", "p[at + 5]"),
    ("json_line", "p[at + 4]"),
    ("json_line", "p[at + 5]"),
    ("json_line", "to[used + 33]"),
    ("json_line", "to[used + 1]"),
    ("json_line", "to[used + 2]"),
    ("json_line", "to[used + 3]"),
    ("pull_frame", "p[at + 4]"),  # of a frame
    ("pull_frame", "u32be(p, at + 4"),
    ("pull_frame", "i32be(p, at + 5"),
    ("pull_frame", "i32be(p, at + 9"),
    ("pull_frame", "i32be(p, at + 13"),
    ("pull_frame", "put32be(to, 0"),
    ("pull_frame", "put32be(to, 4"),
    ("record_parts", "u32be(p, name + 4"),
    ("record_parts", "p[at + 1]"),  # of a character
    ("record_parts", "p[at + 4]"),  # the magic's bytes, which are compared one by one
    ("record_parts", "p[at + 5]"),
    ("record_parts", "p[at + 6]"),
    ("send_frame", "u32be(p, at + 4"),  # of a frame
    ("send_frame", "p[at + 1]"),
    ("send_frame", "put64be(to, used + 16"),
    ("send_frame", "put32be(to, 0"),
    ("send_frame", "put32be(to, 4"),
    ("send_frame", "to[used + 1]"),  # of a character
    ("send_frame", "to[used + 2]"),
    ("unique_keys", "put64be(to, at + 46"),
    ("unique_keys", "to[at + 41]"),
}
CALL = r"(?:put|[iu])(?:16|32|64)be\(\w+, (?:[\w.]+(?:\[[^\]]*\])? \+ )?\d+(?! \*)"
BYTE = r"(?:p|u|out|to)\[[a-z]+(?:\[[^\]]*\])? \+ \d+\]"
ACCESS = re.compile(rf"\b(?:{CALL}|{BYTE})")


def source_of(kernel: str) -> str:
    [path] = Path(kernels.__path__[0]).rglob(f"{kernel}.py")
    return path.read_text()


def lines_of(kernel: str) -> list[str]:
    return [line.strip().format(**NUMBERS) for line in LINES[kernel].strip().splitlines()]


@pytest.mark.parametrize("kernel", LINES)
def test_constants_are_the_declared_positions(kernel: str) -> None:
    source = source_of(kernel)
    assert [line for line in lines_of(kernel) if line not in source] == []


def test_no_position_is_left_out() -> None:
    assert (NUMBERS["least"], NUMBERS["wider"], NUMBERS["head"], NUMBERS["length_without_hosts"]) == (91, 12, 112, 68)
    left = []
    for path in sorted(Path(kernels.__path__[0]).rglob("[a-z]*.py")):
        known = " ".join(lines_of(path.stem)) if path.stem in LINES else ""
        for access in ACCESS.findall(path.read_text()):
            if access not in known and (path.stem, access) not in IN_TEXTS:
                left.append((path.stem, access))
    assert left == []
