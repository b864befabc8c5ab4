"""`flintmq offsets NAME`: how far groups have consumed a store, and changes of that; one file a command.

show         the place of each group in each queue
set          one place of a group
reset        a group, to a time or to an end of its queues
clone        the places of one group, for another
export       places as a file
import_file  places from a file

changes      options of those that write, and what they print
"""
