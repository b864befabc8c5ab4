"""The key index: files that lead from the hash of a key to places in the log.

reader         looks keys up in the index files
writer         writes items in log order, and a new file when one is full
builder        builds one index file in memory that nobody reads yet
index_service  continues the index of a running store
durable_point  tells how far the index is on disk
"""
