"""The handle of a message that waits; the expected text is `printf 'v1 T broker-a 1700000000001 K1' | base64`."""

import pytest

from flintmq.errors import FormatError
from flintmq.format import recall_handle
from flintmq.format.recall_handle import RecallHandle

TEXT = "djEgVCBicm9rZXItYSAxNzAwMDAwMDAwMDAxIEsx"
HANDLE = RecallHandle("T", "broker-a", 1_700_000_000_001, "K1")


def test_both_ways():
    assert recall_handle.encode(HANDLE) == TEXT and recall_handle.decode(TEXT) == HANDLE


def test_letters_that_plain_base64_has_not():
    odd = HANDLE._replace(unique_key="~~~???")
    assert not set(recall_handle.encode(odd)) & {"+", "/"} and recall_handle.decode(recall_handle.encode(odd)) == odd


@pytest.mark.parametrize("text", ["", "x", "djE=", "é", TEXT[:-4], "djIgVCBiIDEgSw==", "djEgVCBiIHggSw=="])
def test_what_is_none(text: str):
    """Words that are missing; v2; a time that is no number."""
    with pytest.raises(FormatError, match="not a recall handle"):
        recall_handle.decode(text)


def test_the_handle_of_what_waits():
    pairs = {"TIMER_OUT_MS": "1700000000000", "REAL_TOPIC": "T", "UNIQ_KEY": "K1"}
    assert recall_handle.of_waiting(pairs, "broker-a") == TEXT
    for name in pairs:
        assert recall_handle.of_waiting({one: value for one, value in pairs.items() if one != name}, "b") is None
    assert recall_handle.of_waiting({**pairs, "REAL_TOPIC": "%RETRY%G"}, "b") is None
