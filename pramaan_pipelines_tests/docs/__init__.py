"""The pages under docs/ that hold commands and changes: what they say is done."""
