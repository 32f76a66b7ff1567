"""The messages of other people's errors, without the text that frameworks put around them."""

import itertools
import re

# What frameworks add to a message: colours, the name of TensorFlow's kernel and operation, the address of an object.
_NOISE = (
    (r"\x1b\[[0-9;]*[A-Za-z]", ""),
    (r"\{\{function_node [^}]*\}\} ?", ""),
    (r" ?\[Op:\w+\]( name: ?\S*)?", ""),
    (r" (object )?at 0x[0-9a-fA-F]+", ""),
)


def error_lines(error: BaseException) -> list[str]:
    """Return the lines of an error's message, without the additions of frameworks.

    >>> error_lines(ValueError("Exception encountered when calling Dense.call().\\n\\n\\x1b[1mno input\\x1b[0m\\n"))
    ['no input']
    >>> error_lines(ValueError("{{function_node __wrapped__MatMul}} In[1] ndims must be >= 2 [Op:MatMul] name: "))
    ['In[1] ndims must be >= 2']
    """
    try:
        text = str(error)
    except Exception:  # the `__str__` of an untrusted error may itself raise
        return []
    for pattern, replacement in _NOISE:
        text = re.sub(pattern, replacement, text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    inner = [line for line in lines if not line.startswith("Exception encountered when")]
    return list(itertools.takewhile(lambda line: not line.startswith("Arguments received by"), inner)) or lines


def error_text(error: BaseException) -> str:
    """Return the error's type and message on one line.

    >>> error_text(ValueError("no\\ninput"))
    'ValueError: no input'
    """
    return f"{type(error).__name__}: {' '.join(error_lines(error))}"


def ended(text: str) -> str:
    """Return a sentence with its full stop, if it has no other mark at its end.

    >>> ended("no"), ended("Why?")
    ('no.', 'Why?')
    """
    return text if text.endswith(("?", "!")) else f"{text.rstrip('.')}."
