"""Mapped files of a log, and memory that takes records first.

mapped_file        maps one log file that is being written
mapped_file_queue  keeps the mapped files of a log in order
allocation         makes log files before the writer needs them
warm_up            makes a file's pages present before records are stored
transient_pool     lends locked buffers for new records
"""
