"""Dagster's clothes for the core: resources, ops, jobs, schedules, sensors, assets.

Promises: an op is a gate or a drain of the core with its outcome told in metadata, tags and one
summary line; everything that should run comes up RUNNING.
Never: holds a rule of its own.
"""
