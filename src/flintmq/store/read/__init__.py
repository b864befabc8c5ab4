"""Messages by queue and offset, by key, in batches: units and items are hints, the log is the truth.

get           answers a get of a running store with RocketMQ's statuses
get_batch     gives the records of a queue where they lie in the log
queue_lookup  finds messages by queue and offset in a store that is looked at
log_map       finds messages that no queue file covers
batch         reads many messages of one queue at once
key_query     finds messages by key
"""
