"""Log bytes to Arrow record batches in the one schema. Needs the extra `arrow`; the core never imports it.

schema      the columns as Arrow types, and narrowing them
predicate   which records are wanted, tried on their bytes
block       the output arrays of one batch
batches     pieces of the log to batches
scan        scan_arrow for users, batches() for Spark's tasks
"""
