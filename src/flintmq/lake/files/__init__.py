"""Names and keeps the files and folders of tables.

failed_file      names the file of an error, and gives up one that is not to be finished
table_format     tells the format of a table
table_folder     reads and writes the directory of a table, on a disk or in a bucket
task_folders     gives each attempt at a task a directory of its own
storage_options  names the options of object storage for deltalake and PyIceberg
"""
