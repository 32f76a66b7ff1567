"""What a caller of the sandbox can catch."""


class SandboxError(RuntimeError):
    """The sandbox does not start. Its message gives the reason in one line."""
