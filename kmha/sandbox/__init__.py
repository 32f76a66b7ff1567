"""Run untrusted code in a separate process: a fork server, its limits, the worker and the encoding of results."""
