"""The programs that are measured, each in a process of its own.

A peer's program runs in the peer's environment: it imports nothing of ours but `protocol`.
"""
