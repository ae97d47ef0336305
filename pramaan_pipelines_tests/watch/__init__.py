"""The watch: what stands where, as it is read."""
