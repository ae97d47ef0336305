"""Postgres: the engine, the tenant scopes, the tables, the migrations.

Promises: every statement of this project runs inside a scope of `Database`, so that a tenant
setting never outlives its transaction.
Never: a connection that may bypass row level security.
"""
