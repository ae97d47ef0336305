"""What is installed, and from where it is known."""
