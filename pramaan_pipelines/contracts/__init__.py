"""What crosses a boundary: event types, envelopes, outcomes and the invoke payload.

Promises: every value that leaves or enters a process has one definition, and it stands here.
Never: carries document text or matter content; an envelope holds ids and trace context only.
"""
