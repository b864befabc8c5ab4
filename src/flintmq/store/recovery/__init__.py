"""Recovers a store after any stop: first the log's end, then queues and index.

apply        recovers a store: finds the log's end, then takes the steps of the plan
plan         decides the steps and their order
find_end     finds the end of the log, or refuses it; where reading begins
torn_record  finds records above the durable mark that were not completely written
lost_log     refuses a store without log files unless it never held a message
truncate     truncates the log at its end; later records go to quarantine/
derived      recovers queues and index from the log; where rewriting units begins
decisions    collects what was decided, one line each
preview      reports the findings and steps of a start without changing anything
"""
