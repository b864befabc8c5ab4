"""The store as RocketMQ means it: rooms are named as the directories and journeys that they serve.

layout        where files are, how large, and the small ones
commitlog     the log as bytes: its files, its records, its end
dispatch      from a record to queue units and index keys
consumequeue  queue files: read, written, served
index         index files: read, written, recovered
append        a message into the log, until it is durable
read          messages by queue and offset, by key, in batches
recovery      a store into order after any stop
services      what runs beside puts: dispatch, topics, offsets, delay, retention
consumer      a queue for an embedded user

message_store  is MessageStore, what users call
assembly       makes the parts of a store, connects, starts and stops them
open_state     says whether a store may be called
view           is StoreView, what `open_store` gives: reads a store and never writes
view_source    gives a consumer one topic of a view
arguments      refuses arguments of a wrong type, by name
reentry        refuses a signal handler that calls the store amid a call
"""
