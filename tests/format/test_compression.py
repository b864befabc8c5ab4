"""Bodies that Java's clients compressed, and bodies that claim to be."""

import builtins
import json
import re
import sys
import tracemalloc
import zlib

import pytest

from flintmq.errors import FormatError, MissingExtraError
from flintmq.format import record
from flintmq.format.compression import NAMES, original_body
from tests.compat.stores import FOLDER

TEXT = b"flintmq " * 50
ZLIB, LZ4, ZSTD, OLD = 0x301, 0x101, 0x201, 0x001


def frame(kind: int, data: bytes = TEXT) -> bytes:
    if kind in (ZLIB, OLD):
        return zlib.compress(data)
    if kind == LZ4:
        return pytest.importorskip("lz4.frame", reason="lz4 is not installed").compress(data)  # type: ignore[no-any-return]
    package = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    return pytest.importorskip(package, reason="zstd is not installed").compress(data)  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", [ZLIB, LZ4, ZSTD, OLD])
class TestEachKind:
    def test_gives_what_was_compressed(self, kind: int) -> None:
        assert original_body(frame(kind), kind) == TEXT
        assert original_body(frame(kind, b""), kind) == b""
        assert original_body(frame(kind), kind & ~1) == frame(kind), "bit 0 is not set: not compressed"

    def test_cut_short_at_any_byte_is_refused(self, kind: int) -> None:
        whole = frame(kind)
        for length in range(len(whole)):
            with pytest.raises(FormatError, match="cut short|is no "):
                original_body(whole[:length], kind)

    def test_other_bytes_are_refused(self, kind: int) -> None:
        for data in (b"", b"\x00", b"hello", bytes(range(256)), b"\xff" * 100):
            with pytest.raises(FormatError, match="cut short|is no "):
                original_body(data, kind)

    def test_a_bomb_stops_at_the_limit(self, kind: int) -> None:
        bomb = frame(kind, bytes(32 << 20))
        assert len(original_body(bomb, kind)) == 32 << 20
        tracemalloc.start()
        with pytest.raises(FormatError, match="more than 1000000 bytes"):
            original_body(bomb, kind, limit=1_000_000)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 << 20

    def test_the_limit_itself_is_allowed(self, kind: int) -> None:
        assert original_body(frame(kind), kind, limit=len(TEXT)) == TEXT
        with pytest.raises(FormatError, match="more than"):
            original_body(frame(kind), kind, limit=len(TEXT) - 1)


@pytest.mark.parametrize("kind", [LZ4, ZSTD])
def test_frames_in_a_row_are_one_body(kind: int) -> None:
    assert original_body(frame(kind, b"one ") + frame(kind, b"two"), kind) == b"one two"


def test_an_unknown_type_is_named() -> None:
    for flags, number in ((0x701, 7), (0x401, 4)):
        with pytest.raises(FormatError, match=f"compression type {number} is not known"):
            original_body(TEXT, flags)


@pytest.mark.parametrize(("kind", "name"), [(LZ4, "LZ4"), (ZSTD, "ZSTD")])
def test_a_missing_package_is_an_error_that_names_the_extra(
    kind: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(module: str, *args: object, **kwargs: object) -> object:
        if module.partition(".")[0] in ("lz4", "backports", "compression"):
            raise ImportError(module)
        return real(module, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=rf"{name} need a package: pip install 'flintmq\[compress\]'"):
        original_body(TEXT, kind)


def test_bodies_that_javas_clients_compressed(golden) -> None:  # type: ignore[no-untyped-def]
    """The script of the store `flags` says how long each body was; its generator makes words of lower-case letters."""
    pytest.importorskip("lz4", reason="lz4 is not installed")
    script = [json.loads(line) for line in (FOLDER / "flags.ops.jsonl").read_text().splitlines()]
    wanted = [(op["compress"]["type"], op["body"]["size"]) for op in script if "compress" in op]
    log = (golden("flags").path / "commitlog" / "00000000000000000000").read_bytes()
    found = []
    for row in golden("flags").rows:
        if row["sys_flag"] & 1:
            body = original_body(record.decode(log, row["physical_offset"]).body, row["sys_flag"])
            assert re.fullmatch(rb"[a-z ]+", body)
            found.append((NAMES[row["sys_flag"] & 0x700], len(body)))
    assert found == wanted and len(found) == 7


@pytest.mark.parametrize("kind", [LZ4, ZSTD])
def test_a_body_of_empty_frames_is_refused_soon(kind: int) -> None:
    """Millions of frames fit a large body, and what follows a frame is copied for each."""
    assert original_body(frame(kind, b"") * 99 + frame(kind), kind) == TEXT
    with pytest.raises(FormatError, match="more than 100"):
        original_body(frame(kind, b"") * 101, kind)


@pytest.mark.parametrize(("kind", "name"), [(ZLIB, "ZLIB"), (LZ4, "LZ4"), (ZSTD, "ZSTD")])
def test_what_is_wrong_with_a_body_is_told(kind: int, name: str) -> None:
    with pytest.raises(FormatError) as caught:
        original_body(frame(kind)[:-1], kind)
    assert caught.value.reason == f"the body is a {name} stream that was cut short"
    with pytest.raises(FormatError) as caught:
        original_body(b"these bytes are none of them", kind)
    assert re.fullmatch(rf"the body is no {name} stream \(.+\)", caught.value.reason)


@pytest.mark.parametrize("kind", [LZ4, ZSTD])
def test_the_limit_is_one_of_all_frames(kind: int) -> None:
    frames = frame(kind, bytes(600)) + frame(kind, bytes(400)) + frame(kind, b"")
    assert original_body(frames, kind, limit=1000) == bytes(1000)
    with pytest.raises(FormatError, match="more than 999 bytes"):
        original_body(frames, kind, limit=999)


class FakeDecoder:
    """Of frames of 4 bytes each, which notes what it may give; a body that begins with ! is none."""

    eof = True
    asked: list[int]

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if data.startswith(b"!"):
            raise RuntimeError("no " * 100)
        self.asked.append(max_length)
        self.unused_data = data[4:]
        return data[:4]


def test_each_frame_may_give_what_is_left_and_a_byte_that_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a frame claims beyond the limit is not made; an error's text is bounded too."""
    FakeDecoder.asked = []
    pytest.importorskip("lz4.frame", reason="lz4 is not installed")
    monkeypatch.setattr("lz4.frame.LZ4FrameDecompressor", FakeDecoder)
    assert original_body(b"one two last", LZ4, limit=20) == b"one two last"
    assert FakeDecoder.asked == [21, 17, 13]
    with pytest.raises(FormatError) as caught:
        original_body(b"!", LZ4)
    assert caught.value.reason == "the body is no LZ4 stream (" + ("no " * 27)[:80] + ")"
