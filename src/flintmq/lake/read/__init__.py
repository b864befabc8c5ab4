"""Plans reads of stores: options, topics, offsets, ranges of the log; one store or several.

options         checks the options of a read
broker_options  divides the options of a read of several stores by broker
option_text     parses options that Spark passes as text: names, flags, numbers, durations
offsets         reads queue offsets from JSON
asked           compares the topics, offsets and times of a read with the store
splits          cuts a log into ranges at record starts
scan            plans a read, and scans one range of it into batches
members         plans a read of several stores
explode         turns the messages of inner batches into rows
"""
