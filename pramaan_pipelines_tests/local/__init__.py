"""Tests of the embedded stack: real servers in throw-away folders."""
