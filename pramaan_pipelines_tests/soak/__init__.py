"""The soak: everything at once on a stack of its own, under random kills, with a ledger at the end.

`python -m pramaan_pipelines_tests.soak --minutes 3 [--seed N] [--json]`
"""
