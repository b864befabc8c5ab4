"""Plans reads and streams, and exports: plan, read, write, publish; all without Spark.

Imports no pyspark.

options         checks the options of a read
broker_options  divides the options of a read of several stores by broker
option_text     parses options that Spark passes as text: names, flags, numbers, durations
offsets         reads queue offsets from JSON
asked           compares the topics, offsets and times of a read with the store
splits          cuts a log into ranges at record starts
scan            plans a read, and scans one range of it into batches
members         plans a read of several stores
each_store      plans several stores at the same time
stream          plans the micro-batches of a stream, and reads their tasks
explode         turns the messages of inner batches into rows
columns         shapes the columns of an export: properties, bodies
bodies          decodes bodies: text, JSON, Avro, Protobuf
dead_letters    keeps the messages whose bodies do not decode
parquet         writes batches as Parquet files
failed_file     names the file of an error, and gives up one that is not to be finished
compact         combines small files up to a target size
target          publishes the files of an export with a manifest
bucket_target   publishes them below a URL of object storage
table_folder    reads and writes the directory of a table, on a disk or in a bucket
task_folders    gives each attempt at a task a directory of its own
storage_options names the options of object storage for deltalake and PyIceberg
delta           publishes an export into a Delta table
iceberg         publishes an export into an Iceberg table
iceberg_catalog opens the catalog of an Iceberg table
iceberg_files   makes the files of Iceberg's metadata durable
table_format    tells the format of a table
table_rows      reads rows of one version of a table
row_mask        applies the predicate of a scan to rows of a table
history         reads a table and what is not exported yet as one frame
diff_table      compares stores with the table of their exports
checkpoint      keeps a copy of the progress of an export
export          continues after the last export: begins, writes, publishes
export_once     exports what is new
export_stream   exports what is new, and goes on
history_stream  streams a table, then its stores
stream_source   plans the micro-batches of an export
workers         runs the tasks of an export
"""
