"""Publishes exports into tables, and reads what a table has.

target                says what every format does with an export and its manifest
parquet_target        publishes an export as Parquet into a directory
bucket_target         publishes Parquet below a URL of object storage
transactional_target  publishes an export into a table of a format that commits
delta                 commits to a Delta table
iceberg               commits to an Iceberg table
iceberg_catalog       opens the catalog of an Iceberg table
iceberg_files         makes the files of Iceberg's metadata durable
formats               gives a table the target of its format
row_files             reads rows of one Parquet file of a table
row_mask              applies the predicate of a scan to rows of a table
table_rows            reads rows of one version of a table
"""
