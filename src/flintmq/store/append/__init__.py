"""Appends messages to the log, and waits until they are durable.

service          runs one put end to end: check, append, wait for flush, count
checks           refuses illegal messages before anything is changed
commit_log       appends to the log: queue offset, record, roll-over
batch            puts a batch, all or none
columns          puts Arrow columns of one topic
multi_queue      assigns several queue offsets to one message
raw_log          appends the bytes of a master's log, in role SLAVE
delayed_message  converts a message with a delay level to its waiting form, and back
half_message     converts the messages of a transaction
timed_message    converts a message that waits for a time to its waiting form; asks for the end of its wait
unique_keys      gives messages their UNIQ_KEY
slow_section     measures the part of a put that may hold the lock for long
after_put        is woken by a put: flush, pool_commit or dispatch
flush            makes the log durable: what any flusher promises, and the one on a Python thread
native_flush     the one on a native thread, and what that asks: files, a failed sync, a lost store
group_commit     answers puts that wait for the disk, threads and event loops, a group at a time
pool_commit      copies records from the pool's buffers to files
replicas         declares how a put waits for replicas
disk_failure     records the first failed fsync, after which no put is accepted
stats            counts the work of a running store
"""
