"""The framer room: gates, claims, the sweep."""
