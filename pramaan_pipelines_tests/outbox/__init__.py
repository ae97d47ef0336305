"""The outbox room: producers, drains, relay runs, the backlog."""
