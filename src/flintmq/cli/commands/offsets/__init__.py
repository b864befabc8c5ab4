"""`flintmq offsets NAME`: offsets of consumer groups, shown and moved; one file a command.

show         the place of each group in each queue
set          one place of a group
reset        a group, to a time or to an end of its queues
clone        the places of one group, for another
export       places as a file
import_file  places from a file

changes      options of those that write, and what they print
"""
