from array import array

Bytes = bytes | bytearray | memoryview
Ints = array[int] | memoryview

def group(
    unit_queue: Ints,
    unit_offset: Ints,
    unit_time: Ints,
    unit_bytes: Bytes,
    units: int,
    starts: Ints,
    out_offset: Ints,
    out_time: Ints,
    out_bytes: bytearray | memoryview,
) -> None: ...
def run_length(offsets: Ints, start: int, end: int) -> int: ...
