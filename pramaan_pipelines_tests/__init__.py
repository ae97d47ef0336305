"""The tests of the project, one folder per room."""
