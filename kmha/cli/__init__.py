"""The command line: parse options, call the library, print results.

A command imports what it needs when it runs, so that `--help` is fast.
"""

from kmha.cli.main import main

__all__ = ["main"]
