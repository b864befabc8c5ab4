# Nothing here is for Python: `columns` calls these loops.
