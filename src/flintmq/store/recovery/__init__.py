"""A store into order after any stop: the log's end, then queues and index.

apply        recovers a store: finds the log's end, then takes the steps of the plan
plan         decides the steps and their order
find_end     finds the end of the log, or refuses it
scan_start   says where reading and dispatching begin
torn_record  tells a torn record above the durable mark from a whole one
lost_log     tells a new store from one whose log is somewhere else
truncate     cuts the log at its end; records after it go to quarantine/
derived      recovers queues and index from the log
decisions    collects what was decided, one line each
preview      tells what a start would do, and does nothing
"""
