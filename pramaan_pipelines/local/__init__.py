"""The embedded stack: Postgres and AWS from Python packages, for a laptop and for tests.

Promises: `pramaan up` needs no Docker, no account and no root; what it starts stays local.
Never: is imported by a hosted process, or by any room but the command line.
"""
