"""Run untrusted code in a process of its own: a fork server, its limits, the worker and the encoding of results."""
