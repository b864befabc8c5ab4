"""Reading a store as a stream: `spark.readStream.format("flintmq")`."""
