"""The commands of the core, one a file: options in, one function, its value printed.

offsets  flintmq offsets NAME, one file a command

completion  the script that lets a shell complete command lines
copy        a consistent copy of a store, also of a live one, whole or filtered
dead        dead letters and retries, with the message that each is a copy of
diff        what differs between two stores
doctor      the state of this installation, with advice for what is missing
explain     one file of a store, byte by byte
get         the message at one offset of a queue
halves      transactions that have not ended
help        a command, the exit codes, or the format of times
inspect     a summary of a store's content
put         store messages from the command line
query       the messages with a key, found through the index
rebuild     rebuild queues and index from the commit log
recover     recover a store after an unclean stop
retention   what retention would delete, when, by which rule
salvage     recover the intact messages of a damaged store
scan        the records of the log in physical order
sql         queries about the messages, in SQL
tail        the newest messages of a topic, and new ones as they arrive
timers      what waits for its time
trace       what became of a message
ui          a web page over stores
verify      checks everything in a store against everything else
version     the version of this installation
"""
