"""Files, folders, clock and randomness.

filesystem      does every call to files, clock and randomness: Effects
store_url       resolves a path or URL to the Effects that read it
lock            takes the store's lock as RocketMQ takes it
dispatch_lock   locks queues and index against a second dispatcher
file_lock       keeps others from a file that is replaced as a whole
overlay         shows the disk with planned changes
tree            walks a local directory tree completely, or raises
whole_file      writes a file as a whole, durably
versioned_json  keeps state in a small JSON file that names its version
staging         makes a directory beside its target, then renames it
system_error    tells the system's errors from a signal handler's
full_disk       names the place in errors of a full disk
libc_memory     calls libc about mapped memory without the GIL
"""
