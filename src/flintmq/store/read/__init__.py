"""Reads messages by queue and offset, by key, and in batches; units and items are hints.

answer        has RocketMQ's rules of one answer: statuses, limits, filter by tags
get           answers a get of a running store
view_queue    answers a get of a view, as a running store does
by_place      finds one message by its log offset or offset message id
get_batch     returns the records of a queue in place, for Arrow columns
queue_lookup  finds messages by queue and offset in a view
known_topics  compares topics that a read names with those of the store
undelivered   counts messages that nobody will deliver: of timers, of transactions
timer_units   reads the timer log, and says what it lacks
lost_records  tells records that cannot be read from places that never were records
log_map       finds messages that no queue file covers
batch         reads many messages of one queue at once
key_query     finds messages by key
"""
