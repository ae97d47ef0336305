"""The framer trigger: from a `matter.created` envelope to an agent run, gate by gate.

Promises: the gate order is the contract; an event makes at most one agent run; a run row exists
before the agent is invoked, and never without consent.
Never: works as staff where a firm's rows are touched.

`ops.matter_frame_jobs` is shared with other services: its columns, statuses and claim semantics are
added to, never reshaped.
"""
