"""Files, time and randomness: the only code that calls the operating system about them.

filesystem         does every call to files, clock and randomness: Effects
store_url          resolves a path or URL to the Effects that read it
lock               takes the store's lock as RocketMQ takes it
dispatch_lock      locks queues and index against a second dispatcher
overlay            shows the disk with planned changes
tree               walks a local directory tree completely, or raises
whole_file         writes a file as a whole, durably
staging            makes a directory beside its target, then renames it
