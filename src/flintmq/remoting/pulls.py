"""The fields of a pull, and its answer, as a frame and in pieces.

kernels/write/pull_frame.py reads the fields, and puts the values of an answer between the pieces, so that what an
answer looks like is said here alone. Upstream: PullMessageRequestHeader, PullMessageResponseHeader.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from flintmq.remoting.frames import ANSWER, RemotingFrame, encode_frame

TAG: Final = "TAG"  # how tags are given, in expressionType
BYTES_MAX: Final = 256 << 10  # of one answer, as of RocketMQ; a larger record goes alone
FIELDS: Final[Mapping[str, Any]] = {
    "consumerGroup": None, "topic": None, "queueId": None, "queueOffset": None, "maxMsgNums": 32, "sysFlag": 0,
    "commitOffset": -1, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0, "expressionType": TAG,
    "maxMsgBytes": BYTES_MAX,
}  # fmt: skip
"""Each field of a pull, in the kernel's order -> its value where it is left out; None: it is not left out."""
_OPAQUE: Final = 1_000_000_007  # a number that no text of a header has


def pull_answer(
    opaque: int,
    version: int,
    code: int,
    remark: str,
    following: int | str,
    low: int | str,
    high: int | str,
    body: bytes = b"",
) -> RemotingFrame:
    """Return the frame that answers a pull.

    Args:
        opaque: number of the request.
        version: of RocketMQ that the answer names.
        code, remark: how it went.
        following: the offset from which the client is to go on.
        low, high: bounds of the queue.
        body: records, end to end.
    """
    fields = {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(following),
        "minOffset": str(low),
        "maxOffset": str(high),
        "topicSysFlag": "0",
        "groupSysFlag": "0",
    }
    return RemotingFrame(code, opaque, ANSWER, remark, fields, body, "JAVA", version)


def answer_pieces(version: int, code: int, remark: str) -> tuple[bytes, ...]:
    """Return the header of an answer in pieces.

    Its three offsets and the request's number are cut out.
    """
    frame = encode_frame(pull_answer(_OPAQUE, version, code, remark, "?1", "?2", "?3"))
    return tuple(re.split(rb"\?[123]|%d" % _OPAQUE, frame[8:]))
