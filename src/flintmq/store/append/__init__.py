"""A message into the log, until it is durable.

service          runs one put: append, wait for the flush, count
checks           refuses a put before anything is touched
commit_log       appends to the log: queue offset, record, roll-over
batch            puts a batch, all or none
columns          puts Arrow columns of one topic
multi_queue      puts messages that take several queue offsets
delayed_message  stores a message with a delay level, and restores it when due
unique_keys      gives messages their UNIQ_KEY
slow_section     guards the part of a put that may hold the lock for long
flush            makes the log durable
group_commit     answers puts that wait for the disk, a group at a time
async_puts       answers puts that an event loop waits for
pool_commit      brings records from the pool's buffers into files
disk_failure     remembers that the disk refused once
stats            counts what a running store did
"""
