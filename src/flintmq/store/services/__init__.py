"""What runs beside puts, on threads of its own.

dispatch_service  follows the log: writes units and items of each new record
checkpointer      writes how far log, queues and index are on disk
ownership         notices that the store became somebody else's
housekeeping      keeps topics and offsets, delivers what is due, deletes what is old
scheduler         calls slow steps at their intervals
topics            keeps config/topics.json
consumer_offsets  keeps config/consumerOffset.json
delay             delivers messages with a delay level
retention         deletes log files that are old, or whose space is needed
retention_rules   decides when which file goes
expire_derived    lets queues and index begin where the log begins
"""
