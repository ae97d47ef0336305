"""The outbox: producers write rows in the caller's transaction, relays drain them.

Promises: at least once, with event_id for the consumer's dedupe; the one window for a duplicate is
a crash between the destination's acceptance and the commit.
Never: invokes an agent or advances a document's status; a relay moves the message and nothing else.
"""
