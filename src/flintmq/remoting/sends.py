"""The answer of a send, as a frame and in pieces.

kernels/write/send_frame.py puts the values between the pieces, so that what an answer looks like is said here alone.
Upstream: SendMessageResponseHeader, SendMessageProcessor.
"""

from __future__ import annotations

import re
from typing import Final

from flintmq.remoting.frames import ANSWER, RemotingFrame, encode_frame
from flintmq.remoting.names import SUCCESS

REGION: Final = "DefaultRegion"
_OPAQUE: Final = 1_000_000_007  # a number that no text of a header has


def send_answer(
    opaque: int,
    version: int,
    offset_msg_id: str,
    queue_id: int | str,
    queue_offset: int | str,
    unique_key: str | None,
    region: str = REGION,
    recall_handle: str | None = None,
) -> RemotingFrame:
    """Return the frame that says where a message is stored.

    `unique_key`: of the message; a client takes it for the transaction's id. None: it has none. `recall_handle`: of a
    message that waits for its time.
    """
    fields = {"msgId": offset_msg_id, "queueId": str(queue_id), "queueOffset": str(queue_offset)}
    if unique_key is not None:
        fields["transactionId"] = unique_key
    if recall_handle is not None:
        fields["recallHandle"] = recall_handle
    fields |= {"MSG_REGION": region, "TRACE_ON": "true"}
    return RemotingFrame(SUCCESS, opaque, ANSWER, None, fields, b"", "JAVA", version)


def answer_pieces(version: int, region: str = REGION) -> tuple[bytes, ...]:
    """Return the header of an answer in pieces: its five values are cut out.

    With the unique key its quotes are cut out, too.
    """
    frame = encode_frame(send_answer(_OPAQUE, version, "?1", "?2", "?3", "?4", region))
    return tuple(re.split(rb'\?[123]|"\?4"|%d' % _OPAQUE, frame[8:]))
