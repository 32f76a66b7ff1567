"""Tells pytest that these are candidates for a diagnosis, not tests; some need torch or JAX."""

collect_ignore_glob = ["*.py"]
