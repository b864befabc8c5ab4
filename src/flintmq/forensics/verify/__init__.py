"""Verifies a store: every record, unit and item, and the small files around them.

run             runs a verification, of all or of a part of the log
verify_pass     takes the pieces of one walk through the log to all checks
context         holds the context of the checks: log bounds, damage, last stop
findings        collects defects and notes
codes           describes each code: meaning, cost and advice
log_check       checks the commit log's files and records
queue_set       compares all queues of a store
queue_check     compares one queue's units with the log's
queue_files     reads the raw units of one queue
queue_findings  gathers one queue's findings into runs
index_check     compares index items with the log's keys
index_files     lists index files and their geometry
index_cursor    reads one index file in the order of its creation
timer_check     checks the timer store
small_files     checks checkpoint, config/ and other files in the root
"""
