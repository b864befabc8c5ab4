"""Consumers for embedded users: `store.consumer(group, topic)`.

consumer        hands out messages and commits offsets
async_messages  does so in an event loop
retry           makes a retry or a dead letter of a message that a consumer gives back
group           divides a topic's queues among the consumers of a group
source          reads one topic for a consumer
retried         reads a topic and its group's retries as one
broadcast       keeps the offsets of a member that reads every message
"""
