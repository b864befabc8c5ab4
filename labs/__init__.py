"""The laboratory: programs that run for minutes, hours or days, and what they counted. They are no tests.

A folder has a program, its parts, and its figures as JSON. Tests of tests/robustness, interop and sim import them
for short forms, which run with every change; `make torture` runs all long ones. The programs' docstrings say what
they do. `make lint-labs` checks style and types: each night, and after a change here.

fuzz                every parser on mutations of what Java wrote
hostile             bits flipped, pages lost, files cut; kernels beside pages that may not be touched
crash               kills, power cuts, consumers that are killed
failing_calls       each system call refused
sim                 power cuts on the simulated disk of tests/sim, for hours
clocks, matrix      every door asked about every kind of store
salvaging           stores damaged at random, salvaged both ways
soak                all of it for minutes
interop             RocketMQ on the same directories
replication, promotion, three_brokers   a master and its followers
broker_kills, broker_cuts   a broker killed, and its power cut, while clients send (parts: broker)
broker_fuzz, broker_soak    a broker among hostile clients, and under a steady load
broker_stream       a Spark stream of a broker's store, all killed
torture_spark, dispatch_kills, bucket_kills, upsert_kills   exports and dispatches that are killed
job_kills           the lake's own writers, the sink, replays and rebuilds that are killed
mutants             mutmut's mutants, and branches that are taken
spark_cluster       each job of Spark on a cluster whose workers are killed
planted_differences differences that `flintmq diff` must find
torture             all of them in turn; the sums in docs/internals/reliability.md
"""
