"""The errors that a caller of the sandbox can catch."""


class SandboxError(RuntimeError):
    """The sandbox does not start. The message gives the reason in one line."""


class StoppedError(RuntimeError):
    """The sandbox was stopped for good while code ran in it."""
