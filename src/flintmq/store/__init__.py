"""The store; its folders are named after the directories and tasks that they serve.

layout        paths and sizes of a store's files, and its small files
commitlog     the log as bytes: files, records, end
dispatch      records to queue units and index keys
consumequeue  queue files: read, written, served
index         index files: read, written, recovered
append        messages into the log, until they are durable
read          messages by queue and offset, by key, in batches
recovery      repairs a store after any stop
services      tasks beside puts: dispatch, topics, offsets, delay, retention
consumer      a queue for an embedded user

message_store  defines MessageStore, the class that users call
topics_and_groups  its methods about topics, consumer groups and their offsets
delivered_later  its methods about transactions and recalls
assembly       makes the parts of a store, connects, starts and stops them
listening      declares what a store and the listener of its followers need of each other
view           defines StoreView, which `open_store` returns: reads a store and never writes
view_source    gives a consumer one topic of a view
arguments      refuses arguments of a wrong type, by name
reentry        refuses calls from a signal handler that interrupted a call
"""
