"""Files, time and randomness: the only code that calls the operating system about them.

filesystem         does every call to files, clock and randomness: Effects
store_url          resolves a path or URL to the Effects that read it
lock               takes the store's lock as RocketMQ takes it
dispatch_lock      locks queues and index against a second dispatcher
overlay            shows the disk with planned changes
tree               walks a local directory tree completely, or raises
mutex              makes locks that no interrupt leaves taken
stop_event         asks loops to end, also from a signal handler
whole_file         writes a file as a whole, durably
versioned_json     keeps state in a small JSON file that names its version
staging            makes a directory beside its target, then renames it
system_error       tells the system's errors from a signal handler's
full_disk          names the place in errors of a full disk
mapped_file        maps one log file that is being written
mapped_file_queue  keeps the mapped files of a log in order
service_thread     runs a loop of a store in a thread, started and stopped once
allocation         makes log files before the writer needs them
warm_up            makes a file's pages present before records are stored
transient_pool     lends locked buffers for new records
libc_memory        calls libc about mapped memory without the GIL
"""
