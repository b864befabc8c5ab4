"""Compares two stores: the bytes of their logs, or their messages.

run          compares two stores
reading      reads both logs whole, in one process
ranges       finds where the bytes of two logs differ
records      names the records of a range that differ
by_message   compares the messages of two logs whose offsets differ
differences  collects what differs, in runs
"""
