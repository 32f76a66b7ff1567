"""`page`, which writes attention as one HTML file that needs no network."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kmha import atomic_files
from kmha.show import scores as convert
from kmha.show import tokens
from kmha.show.calculation import Calculation

# The scripts of the page, each after those that it imports.
SCRIPTS = "data", "theme", "painter", "legend", "heat_map", "arcs", "controls", "table", "steps", "files", "main"
IMPORT, EXPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE), re.compile(r"^export ", re.MULTILINE)
# Numbers of the steps that are shown.
TOKENS, FEATURES = 12, 6
# What the steps say of the inputs: key and value differ, key and value are the same, or all are.
SAME = (
    "Query, key and value are different inputs.",
    "Q comes from the query input ({T} positions). Key and value are the same input ({S} positions): K and V differ "
    "because their kernels differ.",
    "Query, key and value are the same input, x ({T} positions). Q, K and V differ because their kernels differ.",
)
CROSS = (
    "Q comes from the decoder ({T} positions); K and V come from the encoder's output, enc_output ({S} source tokens). "
    "K and V differ because their kernels differ."
)
HEIGHT = 760  # of a cell of a notebook, in pixels
KINDS = {"cross": re.compile("cross|decenc"), "encoder": re.compile("encoder"), "decoder": re.compile("decoder")}
ORDER = "encoder", "decoder", "cross", ""
# What a row and a column of each kind of view is. The last kind is that of layers with other names.
AXES = {
    "encoder": ("a source token (query)", "a source token (key)"),
    "decoder": ("a target token (query)", "a target token (key)"),
    "cross": ("a target token (query)", "a source token (key)"),
    "": ("a query", "a key"),
}
# The same, where the tokens that a decoder reads and those that it predicts are known.
TRANSLATION_AXES = {
    **AXES,
    "decoder": ("the token that is fed in (query)", "the token that is fed in (key)"),
    "cross": ("the token that is predicted next (query)", "a source token (key)"),
}
TITLES = {"encoder": "encoder", "decoder": "decoder", "cross": "cross-attention", "": "attention"}
NUMBER = re.compile(r"(?:encoder|decoder)_layer(\d+)(?:_block\d+)?_(?:self|decenc)_att")  # as in `Transformer`


class Page:
    """A page with pictures of attention. A notebook shows it in the cell.

    Attributes:
        html: The text of the file.
        path: The file that it was written to, or `None`.
    """

    def __init__(self, html: str, path: Path | None, description: str) -> None:
        self.html, self.path, self._description = html, path, description

    def __repr__(self) -> str:
        return f"Page({self._description}, {len(self.html.encode()):,} bytes, {self.path or 'not written to a file'})"

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" width="100%" height="{HEIGHT}" style="border: 0" '
            'title="Attention"></iframe>'
        )


class _Sentence(NamedTuple):
    """The scores (H, T, S) of one sentence by name of the layer, and the tokens."""

    scores: dict[str, np.ndarray]
    rows: Any
    columns: Any
    read: Any = None  # tokens that a decoder reads, where they differ from `rows`
    steps: Mapping[str, Calculation] = {}  # by name of the layer, of this sentence and perhaps of others


def page(
    scores: Any,
    path: str | Path | None = None,
    rows: Any = None,
    columns: Any = None,
    *,
    steps: Mapping[str, Calculation] | Sequence[Mapping[str, Calculation]] | None = None,
    titles: Sequence[str] | None = None,
    title: str = "Attention",
) -> Page:
    """Write attention as one HTML file, which opens from disk and loads nothing.

    The page shows every head of every layer as a heat map or as arcs between tokens, and the mean, the maximum and the
    entropy of the heads in nats. It saves PNG, SVG and CSV. A score is stored as one of 256 levels from 0 to the
    largest score of its query, so it is exact to 1/510 of that.

    Layers whose names have "encoder", "decoder" and "cross" (or "decenc", as in `kmha.layers.Transformer`) get views of
    their own. In each view, all layers have the same T and S.

    Args:
        scores: Scores by name of the layer, as `capture` records them and `Transformer` returns them: a mapping to
            arrays (B, H, T, S) or (H, T, S). Each of the B items is a sentence. Or what `Translator.attention` returns,
            with its tokens. Or a list of several of these. Or one of these for each training step, by its number, such
            as `AttentionProbe.recorded`: the page then has a slider over the steps.
        path: File to write. An existing file is replaced. `None` writes none.
        rows: Query tokens, at most T: those of the target in a translation. For several sentences, one list for each.
            Positions beyond the tokens are padding and are not shown. `None` shows positions.
        columns: Key tokens, at most S: those of the source in a translation. `None` means `rows` in self-attention.
        steps: Calculations by name of the layer, as in `Captured.steps`; for several sentences, a list of such
            mappings. A capture that has recorded steps shows them anyway. A layer has steps on the page where they give
            the same scores, which those of `fit` and of decoding with a cache do not.
        titles: A title for each sentence. `None` means the tokens.
        title: Title of the page.

    Returns:
        A `Page`, which shows itself in a notebook, with the attributes `html` and `path`.

    Raises:
        ValueError: A shape, a value, or the number of token lists or titles is invalid, or `steps` are those of other
            scores, or the training steps have different sentences or layers.
        FileNotFoundError: The folder does not exist.

    >>> import numpy as np
    >>> scores = {"encoder": np.full((1, 2, 3, 3), 1 / 3), "cross": np.full((1, 2, 4, 3), 1 / 3)}
    >>> page(scores, rows=["a", "dog", "runs", "."], columns=["ein", "Hund", "läuft"])  # doctest: +ELLIPSIS
    Page(1 sentence, ... bytes, not written to a file)
    """
    if path is not None and not Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(f"the folder {str(Path(path).parent)!r} does not exist; create it first.")
    moments = scores if _is_history(scores) else {0: scores}
    found: list[dict[str, Any]] = []
    for step in sorted(moments):
        try:
            sentences = _with_steps(_sentences(moments[step], rows, columns), steps)
        except ValueError as error:
            raise ValueError(f"{error} (training step {step})" if len(moments) > 1 else str(error)) from None
        if titles is not None and (isinstance(titles, str) or len(titles) != len(sentences)):
            raise ValueError(f"page: expected {len(sentences)} titles, one for each sentence. Received: {titles!r}.")
        encoded = [
            _encoded(sentence, titles[number - 1] if titles else None, number)
            for number, sentence in enumerate(sentences, 1)
        ]
        found.append({"step": int(step), "sentences": encoded})
    _check_same_structure(found)
    count = len(found[0]["sentences"])
    title = tokens.visible(title)
    text = _html(title, {"title": title, "colours": convert.COLOURS, "moments": found})
    if path is not None:
        path = Path(path)
        atomic_files.write_text(path, text)
    description = f"{count} sentence{'s' if count > 1 else ''}"
    return Page(text, path, description + (f" at {len(found)} steps" if len(found) > 1 else ""))


def _is_history(scores: Any) -> bool:
    """Tell whether the scores are a mapping by training step."""
    return (
        isinstance(scores, Mapping)
        and len(scores) > 0
        and all(isinstance(key, int | np.integer) and not isinstance(key, bool) for key in scores)
        and not all(hasattr(value, "shape") for value in scores.values())  # layers whose names are numbers
    )


def _check_same_structure(moments: Sequence[Mapping[str, Any]]) -> None:
    """Raise a ValueError if a training step has other sentences, views or layers than the first."""

    def structure(moment: Mapping[str, Any]) -> list[Any]:
        return [
            [
                (view["name"], view["rows"], view["columns"], [(one["name"], one["heads"]) for one in view["layers"]])
                for view in sentence["views"]
            ]
            for sentence in moment["sentences"]
        ]

    first = structure(moments[0])
    for moment in moments[1:]:
        if structure(moment) != first:
            raise ValueError(
                f"page: expected the same sentences and layers at each training step. Step {moment['step']} has others "
                f"than step {moments[0]['step']}. Record the same inputs at each step, as `AttentionProbe` does."
            )


def _with_steps(
    sentences: list[_Sentence], steps: Mapping[str, Calculation] | Sequence[Mapping[str, Calculation]] | None
) -> list[_Sentence]:
    """Return the sentences with the calculations of each, if there are any."""
    if steps is None:
        return sentences
    given = [steps] if isinstance(steps, Mapping) else list(steps)
    if len(given) != len(sentences):
        raise ValueError(f"page: expected steps for each of the {len(sentences)} sentences. Received {len(given)}.")
    for number, (sentence, found) in enumerate(zip(sentences, given, strict=True), 1):
        for name, one in found.items():
            if name not in sentence.scores or _own_item(one, sentence.scores[name]) is None:
                raise ValueError(f"page: the steps of {name!r} are not those of the scores of sentence {number}.")
    return [sentence._replace(steps=found) for sentence, found in zip(sentences, given, strict=True)]


def _sentences(scores: Any, rows: Any, columns: Any) -> list[_Sentence]:
    """Return all sentences, each with its tokens."""
    found: list[_Sentence] = []
    for each in scores if isinstance(scores, list | tuple) else [scores]:
        if _is_history(each):
            raise ValueError("page: expected one mapping by training step, whose values have all sentences.")
        found += _items(each)
    given = [_for_each("rows", rows, len(found)), _for_each("columns", columns, len(found))]
    if not found:
        raise ValueError("page: there are no scores. Expected a capture, a mapping of arrays, or a list of them.")
    return [
        sentence._replace(rows=sentence.rows if one is None else one, columns=sentence.columns if two is None else two)
        for sentence, one, two in zip(found, *given, strict=True)
    ]


def _items(scores: Any) -> Iterator[_Sentence]:
    """Yield the sentences of a mapping, or the one of a translator's attention."""
    if isinstance(getattr(scores, "scores", None), Mapping):
        for sentence in _items(scores.scores):
            yield sentence._replace(rows=scores.target_out, columns=scores.source, read=scores.target_in)
        return
    if not isinstance(scores, Mapping) or not len(scores):
        raise ValueError(
            "page: expected scores by name of the layer, such as a capture or {'layer 1': array (B, H, T, S)}. "
            f"Received: {type(scores).__name__}{' without layers' if isinstance(scores, Mapping) else ''}."
        )
    arrays = {str(name): _checked(str(name), value) for name, value in scores.items()}
    sizes = {name: len(array) for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"page: expected the same B in all layers. Received: {sizes}. Capture one call.")
    for item in range(next(iter(sizes.values()))):
        found = {name: array[item] for name, array in arrays.items()}
        yield _Sentence(found, None, None, steps=getattr(scores, "steps", {}))


def _checked(name: str, scores: Any) -> np.ndarray:
    """Return scores as an array (B, H, T, S)."""
    array = convert.with_items(scores, f"page, {name!r}")
    least, greatest = float(np.min(array)), float(np.max(array))
    if not (least >= 0 and greatest <= 1 + convert.ROUNDING):
        raise ValueError(
            f"page, {name!r}: expected scores between 0 and 1, as a softmax gives them. Received values from "
            f"{least:.4g} to {greatest:.4g}. Apply the softmax to logits. NaN comes from a softmax over masked "
            "positions only: mask with a large negative number instead of minus infinity."
        )
    return array


def _for_each(name: str, given: Any, count: int) -> Sequence[Any]:
    """Return a list of tokens, or `None`, for each of `count` sentences."""
    if given is None:
        return [None] * count
    given = given.numpy() if hasattr(given, "numpy") else given
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ValueError(f"page: expected a list of tokens in {name}, such as text.split(). Received: {given!r}.")
    given = list(given)
    if not (given and all(isinstance(one, list | tuple | np.ndarray | None) for one in given)):
        given = [given]
    if len(given) != count:
        raise ValueError(
            f"page: expected a list of tokens for each of the {count} sentences in {name}. Received {len(given)}."
        )
    return given


def _encoded(sentence: _Sentence, title: str | None, number: int) -> dict[str, Any]:
    """Return what the page gets of a sentence: a view for each kind of layer and each T and S."""
    groups: dict[tuple[str, tuple[int, ...]], dict[str, np.ndarray]] = {}
    for name, array in sentence.scores.items():
        kind = next((kind for kind, pattern in KINDS.items() if pattern.search(name)), "")
        kind = "cross" if kind and array.shape[1] != array.shape[2] else kind  # not self-attention
        groups.setdefault((kind, array.shape[1:]), {})[name] = array
    views = []
    for (kind, shape), layers in sorted(groups.items(), key=lambda group: ORDER.index(group[0][0])):
        several = sum(other == kind for other, _ in groups) > 1
        name = TITLES[kind] + (f" {shape[0]} × {shape[1]}" if several else "")
        axes = (AXES if sentence.read is None else TRANSLATION_AXES)[kind]
        view = _view(kind, layers, *_tokens(kind, shape, sentence), sentence.steps)
        views.append({"name": name, **dict(zip(("rowsAre", "columnsAre"), axes, strict=True)), **view})
    words = [text for text in (sentence.columns, sentence.rows) if text is not None]
    join = _joined if sentence.read is not None else lambda text: " ".join(tokens.readable(text))
    title = tokens.visible(title or " → ".join(map(join, words)))
    return {"title": title or f"sentence {number}", "views": views}


def _joined(texts: Sequence[str]) -> str:
    """Return the text of SentencePiece's tokens, without special tokens.

    >>> _joined(["▁3", "▁ma", "i", "[END]"])
    '3 mai'
    """
    text = "".join(text for text in texts if not tokens.SPECIAL.fullmatch(text))
    return tokens.readable([text.replace(tokens.SPACE, " ").strip()])[0]


def _tokens(kind: str, shape: tuple[int, ...], sentence: _Sentence) -> tuple[Any, Any]:
    """Return the tokens of the rows and the columns of a view."""
    rows, columns = sentence.rows, sentence.columns
    if kind == "encoder":
        rows = columns = rows if columns is None else columns
    elif kind == "decoder":
        rows = columns = sentence.read or (columns if rows is None else rows)
    elif not kind and shape[0] == shape[1]:
        rows, columns = columns if rows is None else rows, rows if columns is None else columns
    return rows, columns


def _view(kind: str, layers: dict[str, np.ndarray], rows: Any, columns: Any, steps: Any) -> dict[str, Any]:
    encoded = []
    for layer, array in layers.items():
        try:
            shown, row_labels, column_labels = tokens.cut(array, rows, columns)
        except ValueError as error:
            raise ValueError(f"page, {layer!r}: {error}") from None
        found = NUMBER.fullmatch(layer)
        zeros = (shown == 0).all(axis=0)
        calculation = _own_item(steps[layer], array) if layer in steps else None
        encoded.append(
            {
                "name": f"layer {found[1]}" if found else tokens.visible(layer),
                "heads": len(shown),
                **_stored(shown),
                "zeros": _base64(np.packbits(zeros)) if zeros.any() else "",
                "masked": _masked(shown),
                "sums": bool(np.allclose(shown.sum(axis=-1), 1, atol=convert.ROUNDING)),
                "entropy": _base64(_bytes(_entropy(shown))),
                "steps": None if calculation is None else _steps(kind, calculation, *shown.shape[1:]),
            }
        )
    return {"rows": row_labels.texts, "columns": column_labels.texts, "layers": encoded}


def _masked(scores: np.ndarray) -> str:
    """Say what scores (H, T, S) tell of a mask.

    >>> _masked(np.array([[[1.0, 0.0]], [[1.0, 0.0]]])), _masked(np.array([[[1.0, 0.0]], [[0.5, 0.5]]]))
    ('0 in every head: masked', 'no score is 0 in every head')
    """
    zeros = scores == 0
    if zeros.all(axis=0).any():
        return "0 in every head: masked"
    return "no score is 0 in every head" if zeros.any() else "nothing is masked"


def _entropy(scores: np.ndarray) -> np.ndarray:
    """Return the entropy (T, H) of each row of scores (H, T, S), as a part of the largest possible one, in any unit.

    >>> _entropy(np.array([[[1.0, 0.0], [0.5, 0.5]]])).tolist()
    [[0.0], [1.0]]
    """
    logarithms = np.log2(scores, out=np.zeros_like(scores), where=scores > 0)
    return -(scores * logarithms).sum(axis=-1).T / np.log2(max(scores.shape[-1], 2)) + 0.0


def _own_item(calculation: Calculation, scores: np.ndarray) -> Calculation | None:
    """Return the calculation of the item that has these scores (H, T, S), or `None` if there is none."""
    if calculation.scores.shape[1:] != scores.shape:
        return None
    near = np.isclose(calculation.scores, scores, rtol=0, atol=convert.ROUNDING).all(axis=(1, 2, 3))
    return calculation.item(int(np.argmax(near))) if near.any() else None


def _steps(kind: str, calculation: Calculation, rows: int, columns: int) -> dict[str, Any]:
    """Return the first numbers of every step of one item, without padding: `rows` is T and `columns` is S."""
    inputs = {name: x[0, : rows if name == "query" else columns] for name, x in calculation.inputs.items()}
    same = [np.array_equal(inputs["key"], inputs[name]) for name in ("value", "query")]
    projected = {name: calculation.projected(name)[0, : len(x)] for name, x in inputs.items()}  # (T, H, O)
    logits, scores, mixed, parts = (
        getattr(calculation, name)[0] for name in ("logits", "scores", "mixed", "parts")
    )  # (H, T, S), (H, T, S), (T, H, O), (H, T, E)
    mask = None if calculation.mask is None else calculation.mask[0]
    masked = logits if mask is None else np.where(mask, logits, -np.inf)
    heads = []
    for head, part in enumerate(parts):
        numbers = {}
        for name in inputs:
            numbers[name] = _numbers(projected[name][:, head])
            numbers[f"{name}Kernel"] = _numbers(calculation.kernels[name][head], FEATURES)
            if calculation.use_bias:
                numbers[f"{name}Bias"] = _numbers(calculation.biases[name][head, None])
        pairs = {"logits": logits, "masked": masked, "scores": scores}
        pairs |= {} if mask is None else {"mask": mask}
        numbers |= {name: _numbers(x[head, :rows, :columns], TOKENS, TOKENS) for name, x in pairs.items()}
        numbers |= {"mixed": _numbers(mixed[:rows, head]), "part": _numbers(part[:rows])}
        numbers["outputKernel"] = _numbers(calculation.kernels["output"][head], FEATURES)
        heads.append(numbers)
    width, size = calculation.kernels["query"].shape[1:]
    sizes = {"T": rows, "S": columns, "H": len(heads), "I": width, "O": size, "E": parts.shape[-1]}
    text = CROSS if kind == "cross" and same == [True, False] else SAME[sum(same) if same[0] else 0]
    return {
        "sizes": sizes,
        "same": text.format(**sizes),
        "inputNames": {name: "x" if all(same) else f"{name} input" for name in inputs},
        "inputs": {name: _numbers(x) for name, x in inputs.items()},
        "output": _numbers(calculation.output[0, :rows]),
        "heads": heads,
    }


def _numbers(array: np.ndarray, rows: int = TOKENS, columns: int = FEATURES) -> dict[str, Any]:
    """Return the shape of a matrix, and the numbers of its first rows and columns with three decimals.

    JSON has no infinite numbers and no NaN, so these become text.

    >>> _numbers(np.array([[1 / 3, -np.inf, np.inf, np.nan]]))
    {'shape': (1, 4), 'values': [[0.333, '-inf', 'inf', 'nan']]}
    """
    values = [
        [round(value, 3) + 0.0 if np.isfinite(value) else str(value) for value in row]
        for row in array[:rows, :columns].astype(float).tolist()
    ]
    return {"shape": array.shape, "values": values}


def _stored(scores: np.ndarray) -> dict[str, str]:
    """Return scores (H, T, S) in base64: the largest of each row as float32, and the scores as parts of it, as bytes.

    >>> _stored(np.array([[[0.002, 0.001]]]))
    {'highest': 'bxIDOw==', 'scores': '/4A='}
    """
    highest = scores.max(axis=-1, keepdims=True)
    parts = np.divide(scores, highest, out=np.zeros_like(scores), where=highest > 0)
    return {"highest": _base64(highest.astype("<f4")), "scores": _base64(_bytes(parts))}


def _bytes(values: np.ndarray) -> np.ndarray:
    return np.rint(np.clip(values, 0, 1) * 255).astype(np.uint8)


def _base64(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def _html(title: str, data: Any) -> str:
    """Fill the template. The page may run and apply nothing but its own script and style."""
    files = resources.files(__package__) / "web"
    script = "".join(
        EXPORT.sub("", IMPORT.sub("", (files / f"{name}.js").read_text(encoding="utf-8"))) for name in SCRIPTS
    )
    script, style = f'"use strict";\n{script}', (files / "page.css").read_text(encoding="utf-8")
    parts = {
        "title": html.escape(title),
        # JSON has no characters outside of ASCII here, and a script element ends at "</".
        "data": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        "style": style,
        "style_hash": _hash(style),
        "script": script,
        "script_hash": _hash(script),
    }
    template = (files / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def _hash(text: str) -> str:
    """Return what a Content-Security-Policy calls an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
