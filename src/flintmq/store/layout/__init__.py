"""Where a store's files are, how large they are, and the small ones beside log, queues and index.

directories    finds a store's directories; sizes and divides its files
queue_name     names a queue's directory, and lists those that are there
store_config   completes a configuration by what is on disk
small_files    writes abort, checkpoint and flintmq.mark
config_reader  reads what a broker keeps in config/
config_writer  replaces the files of config/ as a whole
"""
