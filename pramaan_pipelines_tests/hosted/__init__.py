"""What is under deploy/: the hosted instance, the image, and each target's files."""
