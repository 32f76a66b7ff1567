"""The messages of other people's errors, without the text that Keras puts around them."""

import itertools
import re


def error_lines(error: BaseException) -> list[str]:
    """Return the lines of an error's message, without Keras' additions.

    >>> error_lines(ValueError("Exception encountered when calling Dense.call().\\n\\n\\x1b[1mno input\\x1b[0m\\n"))
    ['no input']
    """
    try:
        text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    except Exception:  # the `__str__` of an untrusted error may itself raise
        return []
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    inner = [line for line in lines if not line.startswith("Exception encountered when")]
    return list(itertools.takewhile(lambda line: not line.startswith("Arguments received by"), inner)) or lines


def error_text(error: BaseException) -> str:
    """Return the error's type and message on one line.

    >>> error_text(ValueError("no\\ninput"))
    'ValueError: no input'
    """
    return f"{type(error).__name__}: {' '.join(error_lines(error))}"
