"""Files, time and randomness: what calls the operating system about a store's files.

A room imports those above it in this list alone:

threads  makes locks, requests to stop, and threads that run a loop
files    does every call to files, clock and randomness; reads and writes whole files and folders
memory   maps the files of a log, and makes their memory ready before the writer needs it
"""
