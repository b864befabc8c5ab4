"""The commands of the lake: exports, and jobs on Spark.

spark  flintmq spark NAME, one file a job

export          flintmq export: messages to Parquet, Delta or Iceberg, without Spark
export_options  the words of the two exports, and what both run and print
stats           flintmq stats: a store's traffic as figures and as a page, without Spark
stats_options   the words of the two counts, and what both print
spark_job       opens the Spark session of a command
table_content   summarizes a table of exports, for flintmq inspect
table_diff      compares a store with its table, for flintmq diff
installation    finds out whether Spark would run, for flintmq doctor
"""
