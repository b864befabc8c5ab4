"""Services that run beside puts, in threads of their own.

dispatch_service  follows the log and writes units and items of each new record
checkpointer      records how far log, queues and index are on disk
ownership         notices that another process took over the store
copied_queues     holds, makes and removes queues of a copy as its follower says
housekeeping      saves topics and offsets, delivers due messages, deletes old files
scheduler         calls slow steps at their intervals
topics            keeps config/topics.json
groups            keeps config/subscriptionGroup.json
topic_deletion    deletes topics as a whole
consumer_offsets  keeps config/consumerOffset.json
delay             delivers messages with a delay level
transactions      ends half messages as their senders say, and has these asked
timers            delivers messages that wait for a time
timer_log         writes what waits for a time, as RocketMQ does
zone_mapping      makes zone maps of full log files
retention         deletes log files that are old, or whose space is needed
retention_rules   decides which files may be deleted when
expire_derived    truncates queues and index to the log's beginning
"""
