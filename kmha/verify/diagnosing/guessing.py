"""Values for required arguments that no role explains, guessed from their names and annotations.

A guess is a text, such as "None" or "nn.Identity()", so that a report can print it. `value_of` makes the value.
"""

import inspect
import itertools
import re
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

import numpy as np

from kmha.verify.choices.attention import BASE
from kmha.verify.diagnosing import naming

IDENTITY = "identity"
PROJECTION = "projection"
FEATURES = "the number of features"
OF_HEAD = "the number of features of a head"
POSITIONS = "the number of positions"
LENGTH = 64  # a number of positions that no trial exceeds
# The sides of a window of two dimensions, as many positions as trials have whose T and S are equal.
WINDOWS = PAIR, SIDE = "(2, 8)", "4"
LIMIT = 12  # maximum number of combinations to try

# What an array of guessed values is, as a function of the angles of rotary positions.
FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "ones": np.ones_like,
    "zeros": np.zeros_like,
    "cosines": np.cos,
    "sines": np.sin,
    "angles": np.array,
    "turns": lambda angles: np.exp(1j * angles),
}
# The number of the features that rotary positions turn.
_TURNED = ("^(rope|rotary|rot)(emb)?(dims?|ndims?|size|features|width)$", (OF_HEAD,))
# Guesses for arguments whose names tell their meaning, the likeliest first. The first pattern that occurs decides.
_BY_NAME: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("^(key|value|kv)size$", (FEATURES,)),
    ("device", ("'cpu'",)),
    ("dtype", ("None",)),
    ("seed", ("0",)),
    ("drop|prob|rate", ("0.0", IDENTITY, "None")),
    ("layeridx|layerindex|blockidx|layerid|layernum|idx|index", ("0",)),
    ("bias", ("True",)),
    ("temperature", ("root",)),
    ("positionemb", ("(cos, sin)", "None")),
    ("(rope|rotary|rot).*(theta|base)|^(theta|freqs?)?base$", (str(BASE),)),
    _TURNED,
    ("freqscis|freqcis|complex", ("complex ones (T, O/2)",)),
    ("cos", ("ones (T, O)", "ones (T, O/2)", "ones (1, T, O)", "ones (1, 1, T, O)", "ones (T, 1, O)")),
    ("sin(?!gle)", ("zeros (T, O)", "zeros (T, O/2)", "zeros (1, T, O)", "zeros (1, 1, T, O)", "zeros (T, 1, O)")),
    ("rotary|rope|freqs", ("None", "complex ones (T, O/2)", "zeros (T, O)", "zeros (T, O/2)")),
    ("mask|cache|past|state|bias|pos.*emb", ("None",)),
    ("position|(?<!max)pos$", ("positions", "positions (1, T)", "0", "None")),
    ("^(tgt|trg|target|src|source|q|k|query|key)?(seq)?len(gth)?$", (POSITIONS,)),
    ("maxlen|maxseq|seqlen|context|blocksize|window|maxpos|length", (str(LENGTH),)),
    ("vocab", ("11",)),
    ("^(image|img)(size|side)$", ("16", "(16, 16)")),
    ("^patch(size|side)?$", ("4", "(4, 4)")),
    ("^(num|n)?classes$", ("5",)),
    ("eps", ("1e-05",)),
    ("std(dev)?$|init(range|scale)$", ("0.02",)),
    ("expansion|expandfactor|(ffn?|mlp|hidden|inner)(mult|multiplier|ratio|factor)", ("2",)),
    ("activation|actlayer|actfn|act$", ("'gelu'", "'relu'", IDENTITY)),
    ("norm", ("None", IDENTITY)),
    ("layers|depth|blocks", ("1",)),
)
_BY_ANNOTATION = (
    ("bool", ("False", "True")),
    ("int", ("0", "1", str(LENGTH))),
    ("float", ("0.0", "1.0")),
    ("Callable|Module", (IDENTITY,)),
)
_WINDOW = "^win(dow)?s?(size|shape)?$"
_PLANE = r"meshgrid|\bindices\("  # what code of two dimensions calls
_UNKNOWN = ("None", "False", "0", "1", IDENTITY)
# Numbers that a constructor needs. If no name tells them, every unknown argument may be one of them.
NUMBERS = {"width": "I", "heads": "H", "length": "T"}
_SHAPES = ("(T, O)", "(T, O/2)", "(1, T, O)", "(1, 1, T, O)", "(T, 1, O)")
# Guesses for the tables of code that does nothing but turn vectors by them, which must be those of the usual angles.
_TURNING = (
    _TURNED,
    ("freqscis|freqcis|complex", ("turns (T, O/2)",)),
    *(
        (name, tuple(f"{kind} {shape}{order}" for order in ("", " in pairs") for shape in _SHAPES))
        for name, kind in (("cos", "cosines"), ("sin(?!gle)", "sines"))
    ),
    (
        "^pos(itions?)?$",
        ("positions", "positions (1, T)", "angles (T, O/2)", "angles (T, O)", "angles (T, O) in pairs"),
    ),
    (
        "freq|angle|theta|rotary|rope|posemb",
        ("angles (T, O/2)", "angles (T, O)", "angles (T, O) in pairs", "turns (T, O/2)"),
    ),
)
TABLES = ("cosines", "sines", "angles", "turns")


def compared_texts(name: str, code: str) -> tuple[str, ...]:
    """Return the texts that code compares a name with, as guesses, for code that accepts nothing else.

    >>> compared_texts("kind", 'if config.kind == "gqa": … elif config.kind in ("mla", "mqa"): …')
    ("'gqa'", "'mla'")
    """
    short = re.escape(name.rpartition(".")[2])
    found = re.findall(rf"\b{short}\s*(?:[!=]=|(?:not )?in)\s*[(\[{{]?\s*(?:'(\w+)'|\"(\w+)\")", code)
    return tuple(dict.fromkeys(f"'{one or other}'" for one, other in found))


def guesses(
    name: str,
    parameter: inspect.Parameter | None = None,
    missing: Container[str] = (),
    code: str = "",
    turns: bool = False,
) -> tuple[tuple[str, ...], bool]:
    """Return the guesses for an argument, and whether its name tells what it is.

    Args:
        name: Name of the argument.
        parameter: Its annotation and default.
        missing: Keys of `NUMBERS` that no other argument provides.
        code: Code that reads the argument.
        turns: Whether the code does nothing but turn vectors by rotary positions.

    >>> guesses("device"), guesses("colour")
    ((("'cpu'",), True), (('None', 'False', '0', '1', 'identity'), False))
    >>> guesses("window_size"), guesses("window_size", code="height = window_size[0]")
    ((('64', '(2, 8)', '4'), True), (('(2, 8)', '4', '64'), True))
    """
    annotation = "" if parameter is None or parameter.annotation is parameter.empty else str(parameter.annotation)
    role = naming.weight(name)[0]
    if role and ("Module" in annotation or re.search("proj|linear|dense", naming.plain(name))):
        return (PROJECTION,), True
    if re.search(_WINDOW, naming.plain(name)):
        is_plane = re.search(rf"\b{re.escape(name)}\[[01]\]|{_PLANE}", code)
        return (*WINDOWS, str(LENGTH)) if is_plane else (str(LENGTH), *WINDOWS), True
    for pattern, found in (*_TURNING, *_BY_NAME) if turns else _BY_NAME:
        if re.search(pattern, naming.plain(name)):
            return found, True
    optional = ("None",) if re.search("None|Optional", annotation) else ()
    numbers = tuple(each for each in NUMBERS if each in missing)
    if numbers and not re.search("bool|str|Callable|Module|float", annotation):
        return (*numbers, *optional, "0", "1"), False
    if re.search("(dim|width)$", naming.plain(name)):  # zero features would fit nothing
        return (FEATURES, *optional), False
    for pattern, found in _BY_ANNOTATION:
        if re.search(rf"\b{pattern}\b", annotation):
            return (*optional, *found), False
    return (*_UNKNOWN, *compared_texts(name, code)), False


def combinations(
    names: Mapping[str, inspect.Parameter], missing: Container[str] = (), code: str = "", turns: bool = False
) -> Iterator[dict[str, str]]:
    """Yield combinations of guesses for several arguments, at most `LIMIT`.

    Cosines and sines take the same shape, and no two arguments are the same number of `missing`.
    """
    options = {name: guesses(name, parameter, missing, code, turns)[0] for name, parameter in names.items()}
    count = 0
    for combined in itertools.product(*options.values()):
        shapes = {text.partition(" ")[2] for text in combined if text.startswith(("ones", "zeros", "cosines", "sines"))}
        numbers = [text for text in combined if text in NUMBERS]
        if len(shapes) > 1 or len(numbers) > len({*numbers}):
            continue
        yield dict(zip(options, combined, strict=True))
        count += 1
        if count == LIMIT:
            return


def value_of(text: str, framework: str, sizes: Mapping[str, int], dtype: str = "float32") -> Any:
    """Return the value that a guess stands for.

    Args:
        text: Guess, as `guesses` returns it.
        framework: Framework of arrays and layers.
        sizes: Sizes by letter: T and O for arrays, and I for a projection.
        dtype: Dtype of arrays.
    """
    if text == IDENTITY:
        return _identity(framework)
    if text in NUMBERS:
        return sizes[NUMBERS[text]]
    if text == FEATURES:
        return sizes["I"]
    if text == OF_HEAD:
        return sizes["O"]
    if text == PROJECTION:
        return _dense(framework, sizes["I"], sizes["I"])
    if text == POSITIONS:
        return sizes["T"]
    if text == PAIR:
        return tuple(int(side) for side in re.findall(r"\d+", text))
    if text == "root":
        return float(sizes["O"]) ** 0.5
    if text.startswith("positions"):
        array = np.arange(sizes["T"])
        return _array(array[None] if "(1, T)" in text else array, framework, dtype)
    if text == "(cos, sin)":
        whole = (1, sizes["T"], sizes["O"])
        return _array(np.ones(whole), framework, dtype), _array(np.zeros(whole), framework, dtype)
    if match := re.match(r"(complex )?(ones|zeros|cosines|sines|angles|turns) \((.*?)\)(.*)", text):
        size = {"T": sizes["T"], "O": sizes["O"], "O/2": sizes["O"] // 2, "1": 1}
        shape = tuple(size[axis.strip()] for axis in match[3].split(","))
        angles = _angles(sizes, shape[-1], in_pairs=bool(match[4])).reshape(shape)
        array = FUNCTIONS[match[2]](angles)
        if match[1] or match[2] == "turns":
            dtype = "complex128" if dtype == "float64" else "complex64"
        return _array(array, framework, dtype)
    if text.startswith("'"):
        return text.strip("'")
    return {"None": None, "False": False, "True": True}.get(text, _number(text))


def _angles(sizes: Mapping[str, int], features: int, in_pairs: bool) -> np.ndarray:
    """Return the angles (T, O/2) of rotary positions, or (T, O) with each one twice, one after the other in pairs."""
    index = np.arange(features)
    if features > sizes["O"] // 2:
        index = index // 2 if in_pairs else index % -(-sizes["O"] // 2)
    return np.arange(sizes["T"])[:, None] * BASE ** (-2 * index / sizes["O"])


def _number(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None


def _array(array: np.ndarray, framework: str, dtype: str) -> Any:
    from kmha.verify.diagnosing import frameworks

    if dtype.startswith("complex"):
        array, dtype = array.astype(dtype), dtype
    return frameworks.to_tensor(array, framework, dtype)


def _identity(framework: str) -> Any:
    if framework == "torch":
        import torch

        return torch.nn.Identity()
    return lambda x, *rest, **more: x


def _dense(framework: str, inputs: int, outputs: int) -> Any:
    if framework == "torch":
        import torch

        return torch.nn.Linear(inputs, outputs)
    import keras

    return keras.layers.Dense(outputs)
