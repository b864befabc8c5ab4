"""The key index: files that map the hash of a key to log offsets.

reader         looks keys up in the index files
writer         writes items in log order, and a new file when one is full
builder        builds one index file in memory before anybody reads it
index_service  continues the index of a running store
durable_point  keeps the log offset up to which the index is on disk
"""
