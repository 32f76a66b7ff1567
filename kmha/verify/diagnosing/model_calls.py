"""Call a model of token ids, to see without a reference which items and tokens reach which outputs.

In right code, an item's output depends neither on the other items of the batch nor on its place among them, and the
tokens of an item with padding still see each other. A model breaks these rules even if each of its parts is right, for
instance if it passes (B, P, I) to a part that takes (P, B, I).
"""

import functools
import re
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from kmha.verify.diagnosing import frameworks
from kmha.verify.diagnosing.calling import EMPTY
from kmha.verify.diagnosing.candidate import quietly
from kmha.verify.diagnosing.embedding_candidate import PAD_ID
from kmha.verify.diagnosing.evidence.causal_by_name import ASKED_FOR
from kmha.verify.diagnosing.layer_candidate import MASK_FLAG, LayerCandidate
from kmha.verify.diagnosing.matching import Match, shown

TABLES = ("Embedding", "Embed")  # the frameworks' tables of token ids
ROWS = ("num_embeddings", "input_dim", "vocab_size")  # attributes of these tables
ITEMS, LENGTH = 13, 7  # of a batch of ids; no usual number of classes or features
WORDS = 5  # number of tokens to change one after another
FEWEST = 5  # number of ids beside that of padding, with which a model can be called
HALF = 0.5  # share of the outputs that change: with peaked scores, some do not, and in right code none does
CHANGED = 1e-4  # relative to the largest number: what changes by less is rounding in float32
# Words about a model whose outputs must not depend on later tokens, and about models for which this does not hold.
NEXT = re.compile(
    r"next[- _](token|word|char|byte)|autoregressive|\bgpt|causal (lm|language)"
    r"|(char(acter)?|word|token|byte)[- ](level )?(lm\b|language model)"
)
NOT_NEXT = re.compile(r"masked|mlm|bert|prefix|permut|diffusion|bidirectional|seq2seq|encoder[- ]decoder|classif")
FLAGS = {"training": False, "deterministic": True}


def examine(model: LayerCandidate, parts: list[Any]) -> Match | None:
    """Return the mistake that calls of a model show, or `None` if they show none or the model cannot be called.

    Args:
        model: Model that takes token ids.
        parts: Layers inside of it.
    """
    try:
        with quietly():
            layer = _made(model)
            for length in dict.fromkeys((LENGTH, *_stated_lengths(layer), model.longest)):
                calls = ModelCalls(model, layer, parts, length)
                if calls.run:
                    return calls.over_items() or calls.inverted() or calls.sees_later()
    except (Exception, SystemExit):  # untrusted code may raise anything
        pass
    return None


def takes_ids(model: LayerCandidate, parts: list[Any]) -> bool:
    """Return whether a layer runs with token ids and raises an error with vectors, and looks up ids inside."""
    if not any(type(each).__name__ in TABLES for each in parts):
        return False
    try:
        with quietly():
            layer = _made(model)
            calls = ModelCalls(model, layer, parts, LENGTH)
            if not calls.run:
                return False
            for features in {each.shape[-1] for each in model.adapter.variables(layer) if len(each.shape) == 2}:
                vectors = np.random.default_rng(0).normal(size=(2, LENGTH, features))
                if calls.answers(vectors, "float32"):
                    return False
    except (Exception, SystemExit):  # untrusted code may raise anything
        return False
    return True


def _made(model: LayerCandidate) -> Any:
    """Return an instance of a class with the weights of its first call, or a built layer as it is."""
    layer, name = model.sample(), _input_of(model)
    if isinstance(model.thing, type) and name:
        ids = frameworks.to_tensor(np.ones((2, LENGTH), int), model.framework, "int64")
        try:
            model.adapter.build(layer, {name: ids, **_flags(model)}, "float32")
        except (Exception, SystemExit):  # untrusted code may raise anything, such as an error about the length
            ids = frameworks.to_tensor(np.ones((2, model.longest), int), model.framework, "int64")
            model.adapter.build(layer, {name: ids, **_flags(model)}, "float32")
    return layer


def _input_of(model: LayerCandidate) -> str:
    """Return the name of the only argument that a call needs, or "" if it needs several."""
    name = next((model.roles[role] for role in ("ids", "self", "query") if role in model.roles), "")
    known = {name, *model.call_given, *_flags(model)}
    more = [n for n, each in model.call_parameters.items() if each.default is EMPTY and n not in known]
    return "" if more else name


def _flags(model: LayerCandidate) -> dict[str, bool]:
    return {model.roles[role]: flag for role, flag in FLAGS.items() if role in model.roles}


def _stated_lengths(layer: Any) -> list[int]:
    """Return the number of positions of a Keras model that takes no other."""
    shape = getattr(layer, "input_shape", None)
    return [shape[1]] if isinstance(shape, tuple) and len(shape) == 2 and isinstance(shape[1], int) else []


class ModelCalls:
    """Calls of a model with token ids of a given length.

    Attributes:
        ids: Token ids (B, P), none of which is that of padding.
        rows: Numbers of rows of the tables inside.
        run: Whether the model runs, and returns the same numbers the second time.
    """

    def __init__(self, model: LayerCandidate, layer: Any, parts: list[Any], length: int) -> None:
        self.model, self.layer, self.parts, self.length = model, layer, parts, length
        self.name = _input_of(model)
        tables = [_of(each) for each in parts if type(each).__name__ in TABLES]
        self.rows = [table[name] for table in tables for name in ROWS if name in table]
        stated = [value for part in (layer, *parts) for name, value in _of(part).items() if PAD_ID.search(name)]
        self.pad = next((each for each in stated if type(each) is int), 0)
        # The first ids are often those of special tokens, and small tables those of segments or buckets.
        usual = [
            each for each in range(2, min([11, *(each for each in self.rows if each > FEWEST)])) if each != self.pad
        ]
        self.ids = np.random.default_rng(0).choice(usual or [0], size=(ITEMS, length))
        self.usual = usual
        self.run = bool(self.name) and len(usual) >= FEWEST and self._is_steady()

    def _is_steady(self) -> bool:
        first = self.answers(self.ids)
        return first and bool(np.array_equal(self.output, self(self.ids), equal_nan=True))

    @functools.cached_property
    def output(self) -> np.ndarray:
        """The output for the ids."""
        return self(self.ids)

    def answers(self, array: np.ndarray, dtype: str = "int64") -> bool:
        """Return whether a call with this input runs."""
        try:
            self(array, dtype)
        except (Exception, SystemExit):  # untrusted code may raise anything
            return False
        return True

    def __call__(self, array: np.ndarray, dtype: str = "int64") -> np.ndarray:
        """Return the output for an array."""
        tensor = frameworks.to_tensor(array, self.model.framework, dtype)
        arguments = {**self.model.call_given, self.name: tensor, **_flags(self.model)}
        result = self.model.adapter.call(self.layer, arguments, False)
        if isinstance(result, Mapping):
            result = result.get("logits", next(iter(result.values())))
        result = getattr(result, "logits", result)
        result = result[0] if isinstance(result, tuple | list) else result
        return np.asarray(frameworks.to_numpy(result), "float64")

    def over_items(self) -> Match | None:
        """Return the mistake that an item's output depends on other items or on its place, if the output shows it."""
        output, ids = self.output, self.ids
        if output.shape[0] != ITEMS or ITEMS in output.shape[1:] or self._has_items_second():
            return None
        alike = self(np.repeat(ids[:1], ITEMS, axis=0))
        if _differs(alike, alike[:1]).any():
            others = self._changed_by(np.s_[0])
            if not others[1:].any():
                return shown("positions-over-batch", "It gives items with the same tokens different outputs.")
            return None
        changed = [self._changed_by(np.s_[0, place]) for place in range(min(WORDS, self.length))]
        if not all(each[1:].reshape(ITEMS - 1, -1).any(axis=1).mean() > HALF for each in changed):
            return None
        across = any(getattr(part, "batch_first", None) is False for part in self.parts)
        if across or (self._has_positions() and all(_only_at(each, place) for place, each in enumerate(changed))):
            return shown("batch-for-positions", "A token of one item changes the outputs of the other items.")
        return None

    def _has_items_second(self) -> bool:
        """Return whether the second axis may be that of items: no column of the ids reaches another one."""
        if not self._has_positions():
            return False
        return not self._changed_by(np.s_[:, 0])[:, 1:].any()

    def _has_positions(self) -> bool:
        return self.output.ndim > 1 and self.output.shape[1] == self.length

    def inverted(self) -> Match | None:
        """Return the mistake that tokens see padding alone, if they see each other only without padding."""
        if self.output.shape[0] != ITEMS or not self._has_positions():
            return None
        padded = self.ids.copy()
        padded[:, -2:] = self.pad
        seen = self._others_reached(self.ids) or (np.isnan(self.output).all() and not np.isnan(self(padded)).any())
        if not seen or self._others_reached(padded):
            return None
        return shown(
            "padding-inverted",
            f"As soon as an item has padding (the id {self.pad}), its other tokens do not see each other any more.",
        )

    def sees_later(self) -> Match | None:
        """Return the mistake that a model that predicts the next token sees the later ones, if its text says so."""
        asked = {**self.model.constructor_parameters, **self.model.call_parameters}
        off = [name for name, value in _of(self.layer).items() if value is None or value is False]
        if any(map(ASKED_FOR.search, asked)) or any(MASK_FLAG.search(name) or "causal" in name for name in off):
            return None
        text = _text_on(self.model.layer_class)
        if not NEXT.search(text) or NOT_NEXT.search(text):
            return None
        if self.output.shape[0] != ITEMS or self.output.shape[1:-1] != (self.length,) or self._has_items_second():
            return None
        if self.output.shape[-1] not in self.rows:
            return None
        places = range(1, min(WORDS, self.length))
        reached = [self._changed_by(np.s_[:, place])[:, :place].any(axis=2) for place in places]
        if not all(each.mean() > HALF for each in reached):
            return None
        return shown("causal-missing", "It predicts the next token, as its text says, but sees the later ones.")

    def _others_reached(self, ids: np.ndarray) -> bool:
        """Return whether one of the first tokens changes the output of another one."""
        places = range(min(WORDS, self.length - 2))
        first = self(ids)
        for place in places:
            differs = _differs(self(self._with_other(ids, np.s_[:, place])), first)
            if any(differs[:, other].any() for other in places if other != place):
                return True
        return False

    def _changed_by(self, index: Any) -> np.ndarray:
        """Return where the output changes if the ids at `index` change."""
        return _differs(self(self._with_other(self.ids, index)), self.output)

    def _with_other(self, ids: np.ndarray, index: Any) -> np.ndarray:
        following = dict(zip(self.usual, [*self.usual[1:], self.usual[0]], strict=True))
        other = ids.copy()
        other[index] = np.vectorize(following.get)(ids[index])
        return other


def _of(part: Any) -> Mapping[str, Any]:
    return getattr(part, "__dict__", {})


def _text_on(kind: type) -> str:
    """Return what the code of a class and of those it extends, and the docstring of its module say, in lower case."""
    own = [each for each in kind.__mro__ if each.__module__ == kind.__module__]
    module = getattr(sys.modules.get(kind.__module__), "__doc__", None) or ""
    return "\n".join([module, *(f"{each.__name__}\n{frameworks.source_of(each)}" for each in own)]).lower()


def _only_at(changed: np.ndarray, place: int) -> bool:
    """Return whether the outputs (B, P, …) of other items changed at one position alone."""
    elsewhere = np.delete(changed[1:], place, axis=1)
    return not elsewhere.any()


def _differs(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    scale = float(np.abs(np.nan_to_num(right, posinf=0.0, neginf=0.0)).max(initial=0.0))
    same = np.isclose(left, right, rtol=0.0, atol=CHANGED * max(scale, 1e-30), equal_nan=True)
    return np.asarray(~same)
