"""The store as RocketMQ means it: the log and where it ends, queues and index, and the view that answers from them."""
