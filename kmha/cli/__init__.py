"""The command line: parse, call, print.

What a command needs is imported when the command runs, so that help is quick.
"""

from kmha.cli.main import main

__all__ = ["main"]
