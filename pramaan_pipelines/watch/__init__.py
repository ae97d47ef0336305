"""What stands where, read in one place for whoever shows it: checks, `pramaan status`, gauges.

Promises: a bounded cost with millions of rows; each reading says when it could not be made.
Never: changes anything, or knows who asks.
"""
