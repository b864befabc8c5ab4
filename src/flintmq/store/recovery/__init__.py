"""A store into order after any stop: the log's end, then queues and index.

recover      recovers a store: finds the end, cuts, makes the rest agree
derived      recovers queues and index from the log
torn_record  tells a torn record above the durable mark from a whole one
lost_log     tells a new store from one whose log is somewhere else
"""
