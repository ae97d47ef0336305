"""`make bench`: what the code costs, beside what it could cost, in one run.

One module a line of the table in docs/performance.md; `measure.py` interleaves and repeats them.
"""
