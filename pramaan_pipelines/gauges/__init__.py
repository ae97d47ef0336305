"""`pramaan metrics`: the numbers that stand, exported by one process that outlives every run.

Promises: they keep coming while nothing runs, while Dagster is stuck, and past an outage of the
database or of the queues, which itself is one of the numbers.
Never: changes anything; what it reads is the watch's business.
"""
