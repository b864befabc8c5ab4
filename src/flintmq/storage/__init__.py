"""Files: the only door to the disk, to time and to randomness, and what is built on it.

filesystem         opens the one door to files and time: Effects
store_url          tells what a path or URL means, and which door it has
lock               takes the store's lock as RocketMQ takes it
dispatch_lock      locks who writes queues and index beside the engine
overlay            shows the disk with planned changes
tree               walks a local directory tree completely, or stops
whole_file         writes a file as a whole, durably
staging            makes a directory beside its place, and renames it in
mapped_file        maps one log file that is being written
mapped_file_queue  keeps the mapped files of a log in order
allocation         makes log files ahead of the writer
warm_up            makes a file's pages present before records come
touch_ahead        touches a map's pages ahead of its reader
transient_pool     lends locked buffers for new records
libc_memory        calls libc about mapped memory without the GIL
"""
