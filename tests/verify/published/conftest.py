"""Tells pytest that these are candidates for `test_published.py`, not tests; some need torch or JAX."""

collect_ignore_glob = ["*.py"]
