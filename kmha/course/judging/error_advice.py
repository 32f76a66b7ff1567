"""Say in words what the usual errors of NumPy, Keras and Python mean, with the shapes that met.

>>> error = {"kind": "NameError", "says": "name 'nd' is not defined", "line": 3, "text": "nd.sum(x)"}
>>> advice(error)[1]
'Nothing is called `nd` here. Check the spelling, and that it is imported or assigned before line 3.'
"""

import re
from collections.abc import Mapping
from typing import Any

from kmha.course.judging.marking import error_text

# An answer writes its own errors, and some patterns take a time that grows with the cube of the length.
_LONGEST = {"kind": 100, "says": 1000, "text": 200, "operands": 300}
_LONGEST_GROUP = 100
_Advice = tuple[str, str, str]  # an id, a pattern of "kind: message", and what to say of it

# `{0}` and `{1}` are the groups of the pattern, and `{with}` the values in the expression.
_RULES: tuple[_Advice, ...] = (
    (
        "error-weight-count",
        r"You called `set_weights\(weights\)` on layer '(\w+)' with a weight list of length (\d+), but the layer was "
        r"expecting (\d+) weights",
        "The layer `{0}` has {2} arrays of weights, and {1} belong into it. A dense layer or a normalization has two. "
        "Is one made without a bias, or is there a layer too few or too many? With 0, the layer was never called or "
        "built.",
    ),
    (
        "error-weight-axes",
        r"Layer (\w+) weight shape \((\d+), (\d+), (\d+)\) is not compatible with provided weight shape \(\3, \2, \4\)",
        "In `{0}`, the first two axes of a kernel are exchanged. The built-in layer keeps features first, (I, H, O), "
        "and yours heads first, (H, I, O). Exchange the axes of what it gets.",
    ),
    (
        "error-weight-shape",
        r"Layer (\w+) weight shape (\([\d, ]+\)) is not compatible with provided weight shape (\([\d, ]+\))",
        "In `{0}`, a weight has the shape {1}, expected {2}. Compare the sizes that its layers are made with.",
    ),
    (
        "error-weight-shape",
        r"ValueError: `([\w.]+)` has the shape (\([\d, ]*\)), expected (\([\d, ]*\))",
        "Your weight `{0}` has the shape {1}, expected {2}. Each size of a weight is an argument of `__init__`, or the "
        "last axis of an input: which input does this weight multiply?",
    ),
    (
        "error-weight-of-unknown-size",
        r"Shapes used to initialize variables must be fully-defined",
        "The shape of a weight contains None, a size that is not known yet, as those of batch and sentence. The shape "
        "of a weight takes from an input only its last axis, the features.",
    ),
    (
        "error-only-tensors-by-place",
        r"Only input tensors may be passed as positional arguments",
        "Keras takes only tensors by position. Pass `training`, `None` and all that is no tensor by name.",
    ),
    (
        "error-made-in-call",
        r"tf\.function only supports singleton tf\.Variables|tried to create variables on non-first call",
        "Your `call` makes a layer or a weight, and would make another one each time. Make it in `__init__` or "
        "`build`.",
    ),
    (
        "error-build-names",
        r"For a `build\(\)` method with more than one argument, all arguments should have a `_shape` suffix",
        "Keras calls `build` by name: for the argument `x` of `call`, `build` has the argument `x_shape`. Keep the "
        "names of the starter.",
    ),
    (
        "error-input-width",
        r"of layer '(\w+)' is incompatible with the layer: expected axis -1 of input shape to have value (\d+), but "
        r"received input with shape (\([\w, ]+\))",
        "The layer `{0}` was made for inputs with {1} features, and gets one of the shape {2}. Either that is another "
        "input, or the layer is kept from an earlier call.",
    ),
    (
        "error-matmul",
        r"ValueError: matmul: Input operand 1 has a mismatch in its core dimension.*size (\d+) is different from (\d+)",
        "`@` cannot multiply these{with}: it sums over the last axis of the left array ({1}) and the last but one of "
        "the right ({0}), and these differ. Transpose one of them, or name the axes with `einsum`.",
    ),
    (
        "error-broadcast-to",
        r"ValueError: operands could not be broadcast together with remapped shapes \[original->remapped\]: "
        r"(\([\d, ]*\)) +and requested shape (\([\d, ]*\))",
        "The shape {0} cannot be broadcast to {1}{with}: only axes of size 1 are repeated, and new axes come first. "
        "`np.repeat` repeats what has another size.",
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
        "error-einsum-sizes",
        r"InvalidArgumentError: .*(?:Expected dimension \d+ at axis \d+ of the input shaped|"
        r"Input to reshape is a tensor with .*einsum\()",
        "In an `einsum`, one letter stands for axes of different sizes{with}. Either the equation does not fit, or "
        "what comes in is not what it should be.",
    ),
    (
        "error-reshape",
        r"InvalidArgumentError: .*Input to reshape is a tensor with (\d+) values, but the requested shape (\w[\w "
        r"]*?\d+)",
        "A reshape keeps all elements, and the shape {1}, but there are {0}{with}. The product of the sizes must stay "
        "the same. An axis of size 1 is repeated by `ops.broadcast_to`, not by a reshape.",
    ),
    (
        "error-einsum-letters",
        r"InvalidArgumentError(?!.*Input to reshape).*(?:Expected dimension|einsum|Einsum)",
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
        r"InvalidArgumentError:.*condition (\[[\d,]*\]), then (\[[\d,]*\]), and else (\[[\d,]*\]) must be broadcast",
        "In `where`, the condition has the shape {0}, and what it chooses from {1} and {2}{with}. Shapes are lined up "
        "from the last axis, and sizes go together if they are equal or 1. Is an axis missing, as that of the heads?",
    ),
    (
        "error-broadcast",
        r"ValueError: could not broadcast input array from shape (\([\d, ]*\)) into shape (\([\d, ]*\))",
        "An array of the shape {0} does not fit into the place of the shape {1} that you assign to{with}.",
    ),
    (
        "error-index",
        r"IndexError: boolean index did not match indexed array along (?:axis|dimension) (\d+); "
        r"(?:size of axis|dimension) is (\d+) but (?:size of )?corresponding boolean (?:axis|dimension) is (\d+)",
        "A boolean index needs as many places as the array: axis {0} has {1}, and the index {2}{with}.",
    ),
    (
        "error-concatenation",
        r"ValueError: all input arrays must have the same shape",
        "`stack` puts arrays of equal shapes together, and yours differ{with}. `concatenate` joins them along an "
        "axis that they have.",
    ),
    (
        "error-broadcast",
        r"(?:InvalidArgumentError|ValueError):.*(?:Incompatible shapes|Dimensions must be equal|broadcastable).*?"
        r"(\[[\d,? ]+\]|\([\d, ]+\))(?: vs\.?| and|,) (\[[\d,? ]+\]|\([\d, ]+\))",
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
        "error-reshape",
        r"ValueError: (?:Cannot reshape a tensor with (\d+) elements to shape|The total size of the tensor must be "
        r"unchanged)",
        "A reshape keeps all elements{with}. The product of the sizes must stay the same.",
    ),
    (
        "error-split",
        r"ValueError: array split does not result in an equal division",
        "`split` makes parts of equal size, and the size of this axis is no multiple of their number{with}. Is it the "
        "right axis?",
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
        "There is no index {0}: axis {1} has {2} places{with}, counted from 0.",
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
        "error-boolean-minus",
        r"TypeError: (?:numpy boolean subtract|The numpy boolean negative), the `-` operator",
        "`-` does not work with booleans{with}. `~` turns True into False and False into True.",
    ),
    (
        "error-unpack",
        r"ValueError: (?:too many|not enough) values to unpack \(expected (\d+)(?:, got (\d+))?\)",
        "You unpack into {0} names, and the right side has another number of parts{with}. A shape has one size "
        "for each axis.",
    ),
    (
        "error-precision",
        r"(?:InvalidArgumentError|TypeError):.*(?:expected to be an? |must have the same dtype, got tf\.)(\w+)"
        r"(?: tensor but is an? | != tf\.)(\w+)",
        "Two precisions meet: {0} and {1}{with}. Make every weight with `add_weight`, which takes the layer's dtype, "
        "and convert a constant with `ops.cast(constant, x.dtype)`.",
    ),
    (
        "error-matmul-batch",
        r"InvalidArgumentError:.*must have compatible batch dimensions: (\[[\d,]+\]) vs\. (\[[\d,]+\])",
        "`@` cannot pair {0} and {1}{with}. It multiplies the last two axes as matrices, and pairs the axes before "
        "them one by one. To combine each of the one with each of the other, name the axes with `ops.einsum`.",
    ),
    (
        "error-matmul",
        r"InvalidArgumentError:.*Matrix size-incompatible: In\[0\]: (\[[\d,]+\]), In\[1\]: (\[[\d,]+\])",
        "{0} and {1} cannot be multiplied as matrices{with}: the last axis of the left one is summed over with the "
        "last but one of the right one, and these differ.",
    ),
    (
        "error-mask-shape",
        r"The `mask` must be broadcastable to `inputs`.*inputs\.shape=(\([\d, ]+\)), mask\.shape=(\([\d, ]+\))",
        "A mask of shape {1} meets scores of shape {0}, (batch, heads, query positions, key positions). Either it is "
        "the mask of another attention, or the queries or keys are not the right ones{with}.",
    ),
    (
        "error-built-twice",
        r"You cannot add new elements of state \(variables or sub-layers\) to a layer that is already built",
        "A layer that is built gets new weights or layers. Either its `call` makes some, which belongs into `build` or "
        "`__init__`, or one layer object is used in several places: `[layer] * n` holds the same layer n times.",
    ),
    (
        "error-no-super",
        r"(?:forgot to call `super\(\)\.__init__\(\)`|has no attribute '(?:_parent_path|_lock|_tracker|_auto_config)')",
        "Your `__init__` does not call `super().__init__(**kwargs)`. Without it Keras cannot keep track of the "
        "weights. Call it first.",
    ),
    (
        "error-config",
        r"Error when deserializing class '(\w+)'.*missing \d+ required positional arguments?: ([^\n]*)",
        "A copy of your `{0}` cannot be made from its config, because the config lacks {1}.",
    ),
    (
        "error-config",
        r"Error when deserializing class '(\w+)'.*unexpected keyword argument '(\w+)'",
        "A copy of your `{0}` cannot be made from its config: `__init__` does not take '{1}'.",
    ),
    (
        "error-not-a-weight",
        r"TypeError: `([\w.]+)` is (.*?), not a weight",
        "Your attribute `{0}` is {1}, not a weight. Make it with `self.add_weight`, and keep it in this attribute.",
    ),
    (
        "error-torch-name",
        r"AttributeError: '?(?:numpy\.ndarray|[\w.]*EagerTensor|KerasTensor|SymbolicTensor)'? object has no attribute "
        r"'(view|permute|unsqueeze|masked_fill\w*|size|contiguous|softmax|chunk|expand|matmul|repeat_interleave)'",
        "`.{0}` is PyTorch's. This array has no such method: use the functions of NumPy or `keras.ops` "
        "(`reshape`, `transpose`, `where`, …).",
    ),
    (
        "error-tensor-method",
        r"AttributeError: '?(?:[\w.]*EagerTensor|SymbolicTensor|KerasTensor)'? object has no attribute '(\w+)'",
        "A tensor has no `.{0}`{with}. Use the function of `keras.ops` of that name.",
    ),
    (
        "error-self-attribute",
        r"AttributeError: '(\w+)' object has no attribute '(\w+)' .*self\.\2",
        "`self.{1}` has no value yet. Give it one in `__init__` or `build`, whatever the arguments are.",
    ),
    (
        "error-invalid",
        r"FloatingPointError: invalid value encountered in (\w+)",
        "NaN is made here, in {0}{with}: by ∞ - ∞, 0 · ∞ or 0 / 0, or by a root or logarithm of a negative number. "
        "Replacing NaN afterwards is too late, since a gradient passes through here as well.",
    ),
    (
        "error-zero-division",
        r"(?:FloatingPointError: divide by zero encountered|ZeroDivisionError: )",
        "Something is divided by 0 here, or the logarithm of 0 is taken{with}.",
    ),
    (
        "error-overflow",
        r"(?:FloatingPointError: overflow encountered|OverflowError: )",
        "A number becomes too large here{with}. exp(x) overflows from x = 710, in float16 from x = 11.",
    ),
    (
        "error-none",
        r"(?:TypeError|AttributeError|ValueError): .*(?:'?NoneType'?|a value \(None\))",
        "Something is None here{with}, and is used like a value. Either it was not given, or it was never set, or a "
        "function or method of yours has no `return`. Or it is a size that Keras does not know yet: `x.shape` has None "
        "there, and in a layer's `call`, `ops.shape(x)` has the size.",
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
        "error-no-argument",
        r"TypeError: (?:[\w<>]+\.)*([\w<>]+)\(\) got an unexpected keyword argument '(\w+)'",
        "`{0}` has no argument called `{1}`. Compare the names with those in its `def` or its documentation.",
    ),
    (
        "error-mask-by-position",
        r"TypeError: MultiHeadAttention\.call\(\) got multiple values for argument '((?:query|value|key)_mask)'",
        "You pass a mask by its position, and there Keras' attention takes another one, `{0}`. Pass it by its name: "
        "`attention_mask=…`.",
    ),
    (
        "error-argument-twice",
        r"TypeError: (?:[\w<>]+\.)*([\w<>]+)\(\) got multiple values for argument '(\w+)'",
        "`{0}` gets `{1}` twice: by its position, and by its name.",
    ),
    (
        "error-argument-missing",
        r"TypeError: (?:[\w<>]+\.)*([\w<>]+)\(\) missing \d+ required [\w-]+ arguments?: (.*?)(?: \(|$)",
        "`{0}` also needs {1}, which the call leaves out.",
    ),
    (
        "error-arguments",
        r"TypeError: (?:[\w<>]+\.)*([\w<>]+)\(\) takes (.*?) positional arguments? but (\d+) (?:was|were) given",
        "`{0}` takes {1} arguments by position, and the call passes {2}.",
    ),
    (
        "error-not-callable",
        r"TypeError: '(list|tuple)' object is not callable",
        "A {0} is called like a function{with}. Either round brackets stand where an index needs square ones, or a {0} "
        "of layers or functions stands where one is needed. `keras.Sequential` makes one layer of several.",
    ),
    (
        "error-not-callable",
        r"TypeError: '([\w.]+)' object is not callable",
        "A {0} is called like a function{with}. An index needs square brackets, and a product needs `*`. Or a variable "
        "has the name of the function.",
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
        "`{0}` does not define `{1}`. Check the spelling.",
    ),
    (
        "error-one-tensor-unpacked",
        r"OperatorNotAllowedInGraphError: .*[Ii]terating over a symbolic",
        "One tensor is taken apart as if it were several results, or a loop goes over its places{with}. Keras' "
        "attention returns a pair only with `return_attention_scores=True`.",
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
    # What Keras and TensorFlow put around a message comes last: a pattern begins with the message itself.
    error = {**error, **{name: str(error.get(name) or "")[:longest] for name, longest in _LONGEST.items()}}
    text = " ".join(f"{error_text({**error, 'line': None})} ({error['text']}) {error['says']}".split())
    for id, pattern, says in _RULES:
        if (found := re.search(pattern, text)) is not None:
            groups = {str(number): (group or "")[:_LONGEST_GROUP] for number, group in enumerate(found.groups())}
            operands = f" ({error['operands']})" if error.get("operands") else ""
            line = f"line {error['line']}" if error.get("line") else "it is used"
            return id, _fill(says, {**groups, "with": operands, "line": line})
    return None


def general(id: str) -> str | None:
    """Return the sentence for an id of `advice`, without what an answer wrote itself. `None` for any other id.

    >>> general("error-name")
    'Nothing is called `…` here. Check the spelling, and that it is imported or assigned before it is used.'
    """
    says = next((says for each, _, says in _RULES if each == id), None)
    return None if says is None else _fill(says, {"0": "…", "1": "…", "2": "…", "with": "", "line": "it is used"})


def _fill(says: str, values: Mapping[str, str]) -> str:
    """Replace `{name}` by its value. Not `format`, since the values can contain braces."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), says)
