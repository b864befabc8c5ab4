"""Jobs of Spark on a cluster of this machine, for tests/spark/test_cluster.py and test_every_job.py."""
