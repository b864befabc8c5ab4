"""The codes of requests and of answers in RocketMQ's remoting protocol.

Upstream: RequestCode, ResponseCode, RemotingSysResponseCode.
"""

from __future__ import annotations

from typing import Final

# Asked of a broker.
SEND: Final = 10
PULL: Final = 11
QUERY: Final = 12
GET_OFFSET: Final = 14
COMMIT_OFFSET: Final = 15
MAKE_TOPIC: Final = 17
GET_TOPICS: Final = 21
SET_CONFIG: Final = 25
GET_CONFIG: Final = 26
GET_RUNTIME: Final = 28
GET_OFFSET_AT: Final = 29
GET_QUEUE_END: Final = 30
GET_QUEUE_BEGIN: Final = 31
GET_EARLIEST_TIME: Final = 32
VIEW: Final = 33
HEARTBEAT: Final = 34
LEAVE: Final = 35
SEND_BACK: Final = 36
END_TRANSACTION: Final = 37
GET_MEMBERS: Final = 38
LOCK_QUEUES: Final = 41
UNLOCK_QUEUES: Final = 42
GET_OFFSETS: Final = 43
GET_DELAYS: Final = 45
CHECK_CLIENT: Final = 46
GET_TIMER_CHECK: Final = 60
MAKE_GROUP: Final = 200
GET_GROUPS: Final = 201
GET_TOPIC_STATS: Final = 202
GET_CONNECTIONS: Final = 203
DELETE_GROUP: Final = 207
GET_CONSUME_STATS: Final = 208
DELETE_TOPIC: Final = 215
RESET_OFFSET: Final = 222
GET_GROUPS_OF: Final = 300
GET_RUNNING: Final = 307
CONSUME_DIRECTLY: Final = 309
SEND_SHORT: Final = 310
GET_STATS: Final = 315
SEND_BATCH: Final = 320
REPLY: Final = 324
REPLY_SHORT: Final = 325
GET_TOPIC: Final = 351
PULL_LITE: Final = 361
RECALL: Final = 370
GET_ASSIGNMENT: Final = 400
SET_MODE: Final = 401
GET_MODES: Final = 402
GET_HA_ADDRESS: Final = 906
POP: Final = 200050
ACK: Final = 200051
PEEK: Final = 200052
CHANGE_INVISIBLE: Final = 200053
NOTIFICATION: Final = 200054
ACK_BATCH: Final = 200151

# Asked of a name server.
REGISTER: Final = 103
UNREGISTER: Final = 104
GET_ROUTE: Final = 105
GET_CLUSTERS: Final = 106
GET_ALL_TOPICS: Final = 206
FORGET_TOPIC: Final = 216

# What a broker says to a client.
CHECK_TRANSACTION: Final = 39
MEMBERS_CHANGED: Final = 40
RESET_CLIENT: Final = 220
PUSH_REPLY: Final = 326

# Answered.
SUCCESS: Final = 0
SYSTEM_ERROR: Final = 1
NOT_SUPPORTED: Final = 3
FLUSH_DISK_TIMEOUT: Final = 10
SLAVE_NOT_AVAILABLE: Final = 11
FLUSH_SLAVE_TIMEOUT: Final = 12
MESSAGE_ILLEGAL: Final = 13
SERVICE_NOT_AVAILABLE: Final = 14
NO_PERMISSION: Final = 16
TOPIC_NOT_EXIST: Final = 17
PULL_NOT_FOUND: Final = 19
PULL_RETRY_IMMEDIATELY: Final = 20
PULL_OFFSET_MOVED: Final = 21
QUERY_NOT_FOUND: Final = 22
SUBSCRIPTION_PARSE_FAILED: Final = 23
SUBSCRIPTION_NOT_EXIST: Final = 24
SUBSCRIPTION_NOT_LATEST: Final = 25
GROUP_NOT_EXIST: Final = 26
FILTER_DATA_NOT_EXIST: Final = 27
INVALID_PARAMETER: Final = 29
CONSUMER_NOT_ONLINE: Final = 206
CONSUME_TIMEOUT: Final = 207
NO_MESSAGE: Final = 208
POLLING_FULL: Final = 209
POLLING_TIMEOUT: Final = 210
ILLEGAL_OPERATION: Final = 604
PASSING: Final = (2, 14, 1500)
"""Codes that another attempt may not meet: busy (flow control), not available, about to stop. Codes below 0 are of a
broker's own requests to others, and pass too. 1 is any exception of it, one that stays as well."""
