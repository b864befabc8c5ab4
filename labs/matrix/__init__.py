"""The matrix: real stores times every command, job and reader, each answer compared with the slow reference codecs.

`stores.py` makes the stores, `truth.py` reads them slowly, `cells.py` and `spark_cells.py` ask one
question each in one way, `judge.py` says what is wrong with an answer. `python -m labs.matrix` runs all of
it; `test_matrix.py` a tenth, another one each day (FLINTMQ_TURN=N names one).
"""
