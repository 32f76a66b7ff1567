"""What the usual errors of NumPy, Keras and Python mean, in words and with the shapes that met.

>>> error = {"kind": "NameError", "says": "name 'nd' is not defined", "line": 3, "text": "nd.sum(x)"}
>>> advice(error)[1]
'Nothing is called `nd` here. Check the spelling, and that it is imported or assigned before line 3.'
"""

import re
from collections.abc import Mapping
from typing import Any

_Advice = tuple[str, str, str]  # an id, a pattern of "kind: message", and what to say of it

# `{0}` and `{1}` are the groups of the pattern, and `{with}` the values in the expression.
_RULES: tuple[_Advice, ...] = (
    (
        "error-matmul",
        r"ValueError: matmul: Input operand 1 has a mismatch in its core dimension.*size (\d+) is different from (\d+)",
        "`@` cannot multiply these{with}: it sums over the last axis of the left array ({1}) and the last but one of "
        "the right ({0}), and these differ. Transpose one of them, or name the axes with `einsum`.",
    ),
    (
        "error-matmul-batch",
        r"ValueError: operands could not be broadcast together with remapped shapes .* and requested shape",
        "`@` cannot pair these{with}. It multiplies the last two axes as matrices, and pairs the axes before them one "
        "by one, so these must be equal or 1. To combine each of the one with each of the other, add an axis of size "
        "1, or name the axes with `einsum`.",
    ),
    (
        "error-einsum-sizes",
        r"ValueError: operands could not be broadcast together with remapped shapes",
        "In your `einsum`, one letter stands for axes of different sizes{with}. Write the letters of each operand "
        "beside its shape.",
    ),
    (
        "error-einsum-letters",
        r"ValueError: (?:(?:more|fewer) operands provided to )?(?:einstein sum|operand has (?:more|fewer) dimensions|"
        r"dimensions in (?:single )?operand)",
        "The letters of your `einsum` do not fit{with}. Each operand needs one letter for each of its axes, and each "
        "letter of the result must occur in an operand.",
    ),
    (
        "error-einsum-letters",
        r"InvalidArgumentError.*(?:Expected dimension|einsum|Einsum)",
        "The letters of your `einsum` do not fit{with}. Each operand needs one letter for each of its axes, and one "
        "letter must stand for one size.",
    ),
    (
        "error-broadcast",
        r"ValueError: operands could not be broadcast together with shapes (\([\d, ]*\)) (\([\d, ]*\))",
        "The shapes {0} and {1} do not go together{with}. NumPy lines shapes up from the last axis, and two sizes go "
        "together if they are equal or one of them is 1. Which axis is missing, or at another place?",
    ),
    (
        "error-broadcast",
        r"(?:InvalidArgumentError|ValueError):.*(?:Incompatible shapes|Dimensions must be equal|broadcastable).*?"
        r"(\[[\d,? ]+\]|\([\d, ]+\)) (?:vs\.?|and) (\[[\d,? ]+\]|\([\d, ]+\))",
        "The shapes {0} and {1} do not go together{with}. Shapes are lined up from the last axis, and two sizes go "
        "together if they are equal or one of them is 1.",
    ),
    (
        "error-reshape",
        r"ValueError: cannot reshape array of size (\d+) into shape (\([\d, ]+\))",
        "A reshape keeps all elements: {0} elements do not fit into {1}{with}. The product of the sizes must stay the "
        "same.",
    ),
    (
        "error-transpose",
        r"ValueError: axes don't match array",
        "`transpose` needs every axis of the array exactly once{with}. Count the axes of the array.",
    ),
    (
        "error-axis",
        r"AxisError: axis\d? ?:? ?(-?\d+) is out of bounds for array of dimension (\d+)",
        "There is no axis {0}: the array has {1} axes{with}, which are counted from 0.",
    ),
    (
        "error-index",
        r"IndexError: index (-?\d+) is out of bounds for axis (\d+) with size (\d+)",
        "Index {0} is too large: axis {1} has {2} places{with}, counted from 0.",
    ),
    (
        "error-many-indices",
        r"IndexError: too many indices for array: array is (\d+)-dimensional, but (\d+) were indexed",
        "You index {1} axes, but the array has {0}{with}.",
    ),
    (
        "error-truth",
        r"ValueError: The truth value of an array with more than one element is ambiguous",
        "`if`, `and`, `or` and `not` take one truth value, and an array has many{with}. Use `&`, `|`, `~` or "
        "`np.where` element by element, or `.all()` and `.any()` for one answer.",
    ),
    (
        "error-unpack",
        r"ValueError: (?:too many|not enough) values to unpack \(expected (\d+)(?:, got (\d+))?\)",
        "You unpack into {0} names, and the right side has another number of parts{with}. A shape has one size "
        "for each axis.",
    ),
    (
        "error-precision",
        r"InvalidArgumentError:.*expected to be an? (\w+) tensor but is an? (\w+) tensor",
        "Two precisions meet: {0} and {1}{with}. Make every weight with `add_weight`, which takes the layer's dtype, "
        "and convert a constant with `ops.cast(constant, x.dtype)`.",
    ),
    (
        "error-torch-name",
        r"AttributeError: '?(?:numpy\.ndarray|[\w.]*EagerTensor|KerasTensor|SymbolicTensor)'? object has no attribute "
        r"'(view|permute|unsqueeze|masked_fill\w*|size|contiguous|softmax|chunk|expand|matmul|repeat_interleave)'",
        "`.{0}` is PyTorch's. This array has no such method: use the functions of NumPy or `keras.ops` "
        "(`reshape`, `transpose`, `where`, …).",
    ),
    (
        "error-none",
        r"(?:TypeError|AttributeError): .*'?NoneType'?",
        "Something is None here{with}, and you compute with it. Either it was not given, or a function or method of "
        "yours has no `return`.",
    ),
    (
        "error-name",
        r"NameError: name '(\w+)' is not defined",
        "Nothing is called `{0}` here. Check the spelling, and that it is imported or assigned before {line}.",
    ),
    (
        "error-local",
        r"UnboundLocalError: .*'(\w+)'",
        "`{0}` is used before it gets a value. If it gets one only inside an `if`, give it one in the other case too.",
    ),
    (
        "error-no-attribute",
        r"AttributeError: cannot set `(\w[\w.]*)`: (\w+) has no attribute",
        "Your `{1}` has no attribute `{0}` after `build`. The docstring lists the attributes by name.",
    ),
    (
        "error-wrong-arguments",
        r"TypeError: (?:[\w<>]+\.)*([\w<>]+)\(\) (?:missing|takes|got)",
        "`{0}` is called with other arguments than its `def` names. Compare the names and their order with the "
        "starter.",
    ),
    (
        "error-float-index",
        r"TypeError: '?(?:'(?:float|numpy\.float64)' object cannot be interpreted as an integer|"
        r"slice indices must be integers|only integer scalar arrays|expected a sequence of integers)",
        "A size or an index must be a whole number{with}. `/` gives a float; `//` gives a whole number.",
    ),
    (
        "error-module",
        r"AttributeError: module '([\w.]+)' has no attribute '(\w+)'",
        "`{0}` has no function `{1}`. Check the spelling, or look for the function's name in its documentation.",
    ),
    (
        "error-traced",
        r"(?:OperatorNotAllowedInGraphError|NotImplementedError: .*(?:Cannot convert a symbolic|numpy\(\))|"
        r"AttributeError: 'SymbolicTensor' object has no attribute|TypeError: .*symbolic)",
        "While a model is traced, its tensors have no numbers yet. Compute with `keras.ops`, not with NumPy, `int` or "
        "`if`.",
    ),
)


def advice(error: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return an id, and a sentence on what an error means, or `None` for an unusual error."""
    text = " ".join(f"{error.get('kind')}: {error.get('says')}".split())
    for id, pattern, says in _RULES:
        if (found := re.search(pattern, text)) is not None:
            groups = {str(number): group or "" for number, group in enumerate(found.groups())}
            operands = f" ({error['operands']})" if error.get("operands") else ""
            line = f"line {error['line']}" if error.get("line") else "it is used"
            return id, _fill(says, {**groups, "with": operands, "line": line})
    return None


def _fill(says: str, values: Mapping[str, str]) -> str:
    """Replace `{name}` by its value. Not `format`, since the values can contain braces."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), says)
