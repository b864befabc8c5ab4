"""Publishes exports into tables, and reads what a table has.

target           publishes the files of an export with a manifest
bucket_target    publishes them below a URL of object storage
delta            publishes an export into a Delta table
iceberg          publishes an export into an Iceberg table
iceberg_catalog  opens the catalog of an Iceberg table
iceberg_files    makes the files of Iceberg's metadata durable
table_rows       reads rows of one version of a table
row_mask         applies the predicate of a scan to rows of a table
"""
