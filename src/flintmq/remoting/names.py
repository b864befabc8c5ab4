"""The codes of requests and of answers in RocketMQ's remoting protocol.

Upstream: RequestCode, ResponseCode, RemotingSysResponseCode.
"""

from __future__ import annotations

from typing import Final

# Asked of a broker.
GET_TOPICS: Final = 21
GET_CONFIG: Final = 26
GET_RUNTIME: Final = 28
GET_QUEUE_END: Final = 30
GET_OFFSETS: Final = 43
GET_DELAYS: Final = 45
GET_GROUPS: Final = 201
GET_MODES: Final = 402
GET_HA_ADDRESS: Final = 906

# Asked of a name server.
REGISTER: Final = 103
UNREGISTER: Final = 104
GET_CLUSTERS: Final = 106

# Answered.
SUCCESS: Final = 0
SYSTEM_ERROR: Final = 1
NOT_SUPPORTED: Final = 3
PASSING: Final = (2, 14, 1500)
"""Codes that another attempt may not meet: busy (flow control), not available, about to stop. Codes below 0 are of a
broker's own requests to others, and pass too. 1 is any exception of it, one that stays as well."""
