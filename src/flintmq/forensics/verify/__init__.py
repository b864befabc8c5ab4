"""Verify: every record, unit and item, and the small files around them.

run             runs a verification, whole or in parts
part            carries one part of a verification, so that another goes on
state_file      keeps the state between parts in a file
context         holds what derived files are judged by: bounds, damage, last stop
findings        collects defects and notes
codes           says what each code means, costs and asks for
repair_hints    names the command that mends each defect
log_check       checks the commit log's files and records
queue_set       compares all queues of a store
queue_check     compares one queue's units with the log's
queue_files     reads the raw units of one queue
queue_findings  gathers what one queue shows into runs
index_check     compares index items with the log's keys
index_files     lists index files and their division
index_cursor    reads one index file in the order of its making
timer_check     checks the timer store
small_files     checks checkpoint, config/ and what else is in the root
"""
