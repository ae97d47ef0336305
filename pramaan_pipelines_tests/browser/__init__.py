"""What a person finds and presses in the UI of `pramaan dev`, by a real browser."""
