# Nothing here is for Python: `gather` calls these loops.
