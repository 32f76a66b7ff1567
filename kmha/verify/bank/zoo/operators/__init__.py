"""Operators: edits of source code that make known mistakes.

Each operator looks for its sites by what the code says, such as a softmax with `dim=-1`, and never at the name of a
package. It yields one `Edit` for each site.
"""

from kmha.verify.bank.zoo.operators import (  # noqa: F401 - each fills OPERATORS
    decoders,
    dropouts,
    embeddings,
    feed_forwards,
    heads,
    kernels,
    mask_axes,
    masks,
    norms,
    products,
    residuals,
    scales,
    softmaxes,
)
from kmha.verify.bank.zoo.operators.operator import OPERATORS, Operator
from kmha.verify.bank.zoo.operators.source import Edit, Source

__all__ = ["OPERATORS", "Edit", "Operator", "Source"]
