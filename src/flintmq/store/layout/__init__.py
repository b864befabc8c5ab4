"""Paths and sizes of a store's files, and the small files beside log, queues and index.

directories    finds a store's directories, and refuses other kinds of stores
file_geometry  determines the sizes of derived files, and the division of index files
given_sizes    refuses sizes that were given and that the files contradict
root_names     knows the names in a store's root, and what is of somebody else
queue_name     maps queues to directories, and lists those on disk
store_config   completes a configuration from the files on disk
mark           is the value of flintmq.mark: how far log, queues and index are on disk
small_files    writes abort, checkpoint and flintmq.mark
deleted_topics  says up to where records of deleted topics count for nothing
followed       is the file of a store that is a copy of a master's log
following      is the file in which a follower notes how far it is
timer_files    reads the timer log, and how far it is done
config_reader  reads the files of config/ that a broker keeps
config_writer  replaces the files of config/ as a whole
kept_members   keeps members of a table of config/ as objects
"""
