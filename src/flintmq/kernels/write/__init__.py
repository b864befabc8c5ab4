"""Kernels that write, and the get that reads what they keep.

message         defines Message and PutResult
encode          encodes messages into a commit log, record after record
encode_one      encodes one message into a mapped log file
unique_keys     numbers unique keys and writes them
fast_append     appends a plain message in one call; holds the state of appends
append_columns  appends messages given as columns
index_insert    inserts keys into slots and items of an index file
send_frame      reads the frame of a plain send into a message, writes the frame of its answer
pull_frame      reads the frame of a plain pull into its values, writes the frame of its answer
fast_get        answers a plain get in one call; holds the kept units of a running queue
"""
