"""An embedding or a positional encoding as a candidate: a layer, or a function of a length and a width.

An embedding takes token ids. A positional encoding takes vectors and adds positions to them, or returns the positions
alone. The positions are sines and cosines, or a table that is trained.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Trial
from kmha.verify.chains.blocks import weights_of
from kmha.verify.chains.embedding import NAME
from kmha.verify.diagnosing import block_trials, frameworks, naming, reproduction
from kmha.verify.diagnosing.block_trials import BlockAccepts, BlockSizes
from kmha.verify.diagnosing.block_weights import PlainSlot, squeezed
from kmha.verify.diagnosing.calling import (
    EMPTY,
    Parameters,
    check_given,
    guessed_arguments,
    mode_arguments,
    parameters,
    with_copies,
)
from kmha.verify.diagnosing.candidate import Candidate, quietly
from kmha.verify.diagnosing.conventions import BATCH, COUNT, HEADS, IDS, MIDDLE, TIME
from kmha.verify.diagnosing.guessing import LENGTH
from kmha.verify.diagnosing.layer_candidate import LayerCandidate
from kmha.verify.diagnosing.matching import Answer
from kmha.verify.diagnosing.rotary_functions import begins_with_sines, stated_numbers, turned_by
from kmha.verify.diagnosing.trials import Accepts
from kmha.verify.diagnosing.weights import Variable

POSITIONS = re.compile(r"pos(?!t)|(^|[._])w?pe([._]|$)")
SEGMENTS = re.compile(r"type|segment")
OF_SEGMENTS = re.compile("token_?type|segment")  # names of arguments
# In names of classes that encode positions:
WORDS = re.compile(r"rotary|^ro_?pe$|(?<![a-z])posit(?!ion_?wise)|embed|sinus|pos_?enc|^pe$")
# In names of other classes:
OTHERS = re.compile(
    r"patch|relative|alibi|block|(?<!positional_)(?<!position_)(?<!pos_)encoder|decoder|attention|time|label|feed_?forward"
)
OF_ROTARY = re.compile(r"freq|rotary|(^|_)ro_?pe(_|$)")  # names of functions that make tables
PAD_ID = re.compile("^(pad(ding)?|pad_token)_?(id|idx|index)$")  # attributes that state the id of padding
LENGTHS = (
    "position",
    "positions",
    "positionids",
    "posids",
    "pos",
    "npos",
    "npositions",
    "nposition",
    "seqlen",
    "maxlen",
    "maxseqlen",
    "length",
    "t",
    "n",
    "end",
)
PLACES: Mapping[str, Any] = {"device": "cpu", "dtype": None}  # arguments that say where and how an encoding is made
OF_HEADS = {HEADS: 1, MIDDLE: 2}  # layouts of what turns queries and keys, with the axis of the heads
KEYS = -3.0  # what the keys are, as a multiple of the queries that are turned in the same call
CLOSE = 1e-4  # relative rounding of a table in float32
WIDTH = 12  # width of an encoding that has no width of its own


class EmbeddingCandidate(LayerCandidate):
    """An embedding or a positional encoding as a candidate.

    Attributes:
        takes_ids: Whether the input are token ids. Otherwise, it is vectors.
        rotates: Whether its name means rotary positions. Then it is called right if it turns its input by them, or
            returns their cosines and sines. Otherwise it is not judged.
        exact_length: Number of vectors that it takes, if it takes no other number, or else 0.
        sines_first: Whether it was seen to return sines, and then cosines.
    """

    chain = NAME
    exact_length, sines_first = 0, False
    needs = ("length",)

    def __init__(self, thing: Any, name: str, given: Mapping[str, Any], *said: Any) -> None:
        super().__init__(thing, name, given, *said)
        self.built = not isinstance(thing, type)
        self.adapter.encodes = True
        named = f"{self.layer_class.__name__.lower()} {word_of_code(self.layer_class)}"
        self.rotates = bool(naming.ROTARY.search(named)) or getattr(self.layer_class, "turns", False)
        variables = self.adapter.variables(self.thing) if self.built else []
        buffers = list(self.thing.buffers()) if hasattr(self.thing, "buffers") and self.built else []
        shapes = [each.shape for each in (*variables, *buffers) if len(squeezed(each.shape)) == 2]
        # The only table of an encoding of positions contains positions, whatever its name is.
        of_positions = len(shapes) == 1 and POSITIONS.search(self.layer_class.__name__.lower())
        of_tokens = bool(self._tables(variables)) and not of_positions
        counts = naming.roles_of(self.constructor_parameters, self.said).get("vocabulary", "")
        counts_positions = of_positions and naming.plain(counts) == "numembeddings"
        self.takes_ids = (bool(counts) and not counts_positions) or of_tokens
        of_segments = [n for n, each in self.call_parameters.items() if OF_SEGMENTS.search(n) and each.default is EMPTY]
        self.roles = {**self.roles, **({"segments": of_segments[0]} if of_segments and self.takes_ids else {})}
        self.bases = _bases_of(self, self.layer_class, *([self.thing] if self.built else []))

    def _read(self, convention: int = 0) -> Any:
        return None  # a copy of a built layer gets the weights of each trial

    def _tables(self, variables: Sequence[Variable]) -> list[Variable]:
        """Return the tables of tokens, which have two axes and no name that means positions."""
        tables = [variable for variable in variables if len(squeezed(variable.shape)) == 2]
        return [each for each in tables if not (POSITIONS.search(each.path.lower()) or SEGMENTS.search(each.path))]

    def _accepts(self) -> Accepts:
        if not {"query", "self", "ids"} & self.roles.keys():
            needed = [name for name, each in self.call_parameters.items() if each.default is EMPTY]
            needed = [name for name in needed if name not in PLACES]
            if len(needed) == 1 and naming.plain(needed[0]) in LENGTHS:
                self.roles = {role: name for role, name in self.roles.items() if name not in needed}
                self.roles["self"] = needed[0]
        return super()._accepts()

    def input_layouts(self) -> list[dict[str, Any]]:
        entries: tuple[str, ...] = (BATCH, TIME) if self.takes_ids else (BATCH, TIME, IDS)
        if self.rotates:
            of_heads = self._turns_keys or hasattr(self.thing, "__wrapped__")  # a layer or a function
            entries = (*OF_HEADS, BATCH) if of_heads else (*entries, *OF_HEADS)
        if not self.takes_ids and naming.plain(self.roles.get("self", "")) in LENGTHS:
            entries = (COUNT, *entries)
        entries = tuple(each for each in entries if each != TIME or not self.says_batch_first)
        return [{"entry": entry, "guessed": guessed} for guessed in self._call_guesses() for entry in entries]

    def sizes(self, rng: np.random.Generator) -> Any:
        drawn = block_trials.draw_block_sizes(rng, BlockAccepts(NAME))
        if self.built:
            return self._sizes_of(self.thing, drawn)
        width = self.fixed.get("width", drawn.width)
        drawn = dataclasses.replace(drawn, width=width, heads=1, size=width)
        try:
            with quietly():
                return self._sizes_of(self._new(self._drawn(0, drawn)[0], "float32"), drawn)
        except (Exception, SystemExit):  # untrusted code may raise anything, and a later call reports the error
            return drawn

    def _sizes_of(self, layer: Any, drawn: BlockSizes) -> BlockSizes:
        variables = self.adapter.variables(layer)
        tables = [squeezed(each.shape) for each in variables if len(squeezed(each.shape)) == 2]
        if self.built:
            width = tables[0][-1] if tables else self._stated_width(layer)
            drawn = dataclasses.replace(drawn, width=width, heads=1, size=width)
            twice = dataclasses.replace(drawn, width=2 * width, size=2 * width)
            if self.rotates and not self._runs(layer, drawn) and self._runs(layer, twice):
                drawn = twice  # a table of half of the features
        if tokens := self._tables(variables):
            drawn = dataclasses.replace(drawn, vocabulary=squeezed(tokens[0].shape)[0])
        elif tables and not self.takes_ids and not self._runs(layer, drawn):
            # It may take exactly as many vectors as its table has rows, as in a vision transformer.
            exact = dataclasses.replace(drawn, rows=tables[0][0], columns=tables[0][0])
            if self._runs(layer, exact):
                drawn, self.exact_length = exact, exact.rows
        return drawn

    def _runs(self, layer: Any, sizes: BlockSizes) -> bool:
        """Return whether the layer takes vectors of these sizes."""
        try:
            with quietly():
                self.adapter.call(layer, self._arguments(self._drawn(0, sizes)[0]), False)
        except (Exception, SystemExit):  # untrusted code may raise anything, and a later call reports the error
            return False
        return True

    def _stated_width(self, layer: Any) -> int:
        """Return the width that an attribute states, or the last axis of an array that the layer keeps."""
        for part in (layer, *self.adapter.parts(layer)):
            for name, value in vars(part).items():
                if naming.argument(name.strip("_")) == "width" and isinstance(value, int):
                    return value
            named = {**vars(part), **(vars(part).get("_buffers") or {})}
            if frequencies := [each for name, each in named.items() if "freq" in name and np.ndim(each) == 1]:
                return 2 * len(frequencies[0])
            arrays = [*named.values()]
            axes = [tuple(each.shape) for each in arrays if hasattr(each, "shape") and len(each.shape) > 1]
            if axes:
                return int(axes[0][-1])
        return WIDTH

    def draw(self, seed: int, sizes: Any) -> list[Trial]:
        return self._drawn(seed, sizes)

    def _drawn(self, seed: int, sizes: BlockSizes) -> list[Trial]:
        """Draw the trials. Vectors take the places of ids if the candidate takes vectors."""
        drawn = block_trials.draw_block(seed, BlockAccepts(NAME, pad_id=self._pad_id(sizes.vocabulary)), sizes)
        if sizes.rows == sizes.columns:  # it takes this number of positions alone
            drawn = [trial for trial in drawn if trial.query.shape[1] == sizes.rows]
        rng = np.random.default_rng(seed)
        table = rng.normal(size=(max(LENGTH, sizes.rows), sizes.width))
        more = {"says_positions": self._mentions("pos"), "counts_padding": self._mentions("cumsum|offset|pad")}
        more |= self.bases
        weights = {"positions/embeddings": table, "segments/embeddings": rng.normal(size=(2, sizes.width))}
        weights |= {"extra1/gamma": rng.uniform(0.5, 2.0, sizes.width), "extra1/beta": rng.normal(size=sizes.width)}
        drawn = [
            dataclasses.replace(trial, weights={**trial.weights, **weights}, more={**trial.more, **more})
            for trial in drawn
        ]
        return drawn if self.takes_ids else [_with_vectors(trial, rng) for trial in drawn]

    def _pad_id(self, vocabulary: int) -> int:
        """Return the id of padding that an attribute of a built layer or of a part of it states, or 0."""
        parts = (self.thing, *self.adapter.parts(self.thing)) if self.built else ()
        stated = (item for part in parts for item in getattr(part, "__dict__", {}).items() if PAD_ID.search(item[0]))
        return next((each for _, each in stated if isinstance(each, int) and 0 <= each < vocabulary), 0)

    def _mentions(self, pattern: str) -> bool:
        """Return whether the code says this. For instance, code about positions must add some."""
        return bool(re.search(pattern, frameworks.source_of(self.layer_class).lower()))

    def likely_choices(self, trial: Trial) -> list[tuple[str, ...]]:
        return _likely(self, super().likely_choices(trial))

    def smaller_sizes(self, sizes: BlockSizes) -> Iterator[Any]:
        for batch, rows, width in ((1, 1, 2), (1, 2, 2), (2, 2, 2), (2, 3, 4)):
            width = sizes.width if self.built else width
            yield dataclasses.replace(sizes, batch=batch, rows=rows, columns=rows + 1, width=width, heads=1, size=width)

    def _constructor(self, trial: Trial) -> dict[str, Any]:
        vocabulary, width = trial.weights["embedding/embeddings"].shape
        widths = dict.fromkeys(("width", "inputs", "size"), width)
        values = {**widths, "vocabulary": vocabulary, "length": LENGTH, "dropout": trial.rate}
        return self.constructor_arguments(values, {"T": LENGTH, "H": 1, "I": width, "O": width})

    def _arguments(self, trial: Trial) -> dict[str, Any]:
        ids = self.takes_ids or self.convention.entry == IDS
        array = trial.more["ids"] if ids else trial.query
        guessed = {**guessed_arguments(self, trial, trial.query.shape[2]), **mode_arguments(self.roles, trial)}
        name = next(self.roles[role] for role in ("ids", "self", "query") if role in self.roles)
        if self.convention.entry == COUNT:
            return {**guessed, **self.call_given, name: array.shape[1]}
        if self.convention.entry == IDS:  # it has no table of tokens, so these are positions
            array = np.broadcast_to(np.arange(array.shape[1]), array.shape).copy()
        array = np.swapaxes(array, 0, 1) if self.convention.entry == TIME else array
        if self.convention.entry in OF_HEADS:
            array = np.expand_dims(array, OF_HEADS[self.convention.entry])
        dtype = "int64" if ids else self.dtype_of(trial)
        sizes = {self.roles[role]: trial.query.shape[-1] for role in ("size", "width") if role in self.roles}
        guessed |= {each: size for each, size in sizes.items() if self.call_parameters[each].default is EMPTY}
        # All ids are of the first segment.
        of_segments = {self.roles["segments"]: np.zeros_like(array)} if "segments" in self.roles else {}
        arrays = {name: array, **of_segments, **({self.roles["key"]: KEYS * array} if self._turns_keys else {})}
        tensors = {each: frameworks.to_tensor(one, self.framework, dtype) for each, one in arrays.items()}
        return {**guessed, **self.call_given, **tensors}

    @property
    def _turns_keys(self) -> bool:
        """True if it turns queries and keys in one call."""
        return self.rotates and "key" in self.roles

    def call(self, trial: Trial) -> tuple[Any, list[tuple[Any, Any]]]:
        result, copies = super().call(trial)
        if self._turns_keys and isinstance(result, tuple) and len(result) == 2:
            result = 0.25 * result[0] + 0.75 / KEYS * result[1]  # multiples of the same vectors, which both count
        elif self.rotates and self.convention.entry in (BATCH, COUNT):
            result = _with_tables(self, result, trial)
        return result, copies

    def _new(self, trial: Trial, dtype: str) -> Any:
        layer = self.thing if self.built else self.adapter.new(self.layer_class, self._constructor(trial), dtype)
        self.adapter.build(layer, self._arguments(trial), dtype)
        return layer

    def _made(self, trial: Trial) -> tuple[Any, Any]:
        # A layer may make its table for the number of positions in its first call.
        key = trial.weights["embedding/embeddings"].shape, trial.query.shape[:2], trial.rate, self.convention
        if key not in self.cache:
            layer = self._new(trial, self.convention.dtype)
            self.cache[key] = layer, self._slots(self.adapter.variables(layer))
        return self.cache[key]

    def _slots(self, variables: Sequence[Variable]) -> dict[str, list[PlainSlot]]:
        """Return the slots of the tables of tokens, positions and segments, and of a normalization."""
        tables = [variable for variable in variables if len(squeezed(variable.shape)) == 2]
        tokens = self._tables(variables)[:1] if self.takes_ids else []
        segments = [variable for variable in tables if SEGMENTS.search(variable.path)]
        if not tables and not self.takes_ids:  # a table made for one position
            tables = [variable for variable in variables if len(variable.shape) > 1 and variable.shape[-2] == 1]
        rest = [each for each in tables if each not in (*tokens, *segments) and not _is_fixed(each)]
        found = {"embedding": tokens, "positions": rest[:1], "segments": segments[:1]}
        slots: dict[str, list[PlainSlot]] = {
            prefix: [TableSlot(variable, ("embeddings",)) for variable in mine]
            for prefix, mine in found.items()
            if mine
        }
        vectors = [each for each in variables if len(squeezed(each.shape)) == 1 and each not in rest[:1]]
        if vectors and len(vectors) <= 2:
            slots["extra1"] = [PlainSlot(each, (name,)) for each, name in zip(vectors, ("gamma", "beta"), strict=False)]
        return slots

    def make(self, trial: Trial) -> tuple[Any, list[Any]]:
        layer, found = self._made(trial)
        for prefix, slots in found.items():
            for slot in slots:
                slot.write(weights_of(trial.weights, prefix))
        return layer, [slot for slots in found.values() for slot in slots]

    def weights_present(self, trial: Trial) -> frozenset[str] | None:
        try:
            found = self._made(trial)[1]
        except (Exception, SystemExit):  # untrusted code may raise anything, and a later call reports the error
            found = {}
        names = {f"{prefix}/{name}" for prefix, slots in found.items() for slot in slots for name in slot.names}
        return frozenset({*names, "embedding/embeddings"})

    def answer(self, trial: Trial) -> Answer:
        answer = super().answer(trial)
        axis = OF_HEADS.get(self.convention.entry, 0)
        if answer.output is not None and answer.output.ndim == 4 and answer.output.shape[axis] == 1:
            answer = dataclasses.replace(answer, output=answer.output.squeeze(axis))
        return for_each_item(answer, trial)


def _bases_of(candidate: Any, *things: Any) -> dict[str, Any]:
    """Return what a trial knows of numbers that code states, which may be the base of rotary positions."""
    given = {float(each) for each in candidate.given.values() if type(each) in (int, float)}
    return {"bases": given.union(*map(stated_numbers, things))} if candidate.rotates else {}


def _likely(candidate: Any, choices: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the choices in which code turns vectors, if the candidate's name means rotary positions, or else all."""
    turning = [ids for ids in choices if any(id.startswith("rotates-") for id in ids)]
    return turning if candidate.rotates and turning else choices


def _with_tables(candidate: Any, result: Any, trial: Trial) -> Any:
    """Return what the tables of rotary positions that a call returned make of the trial's vectors, or the result."""
    turned = turned_by(result, trial.query, candidate.rotates)
    candidate.sines_first = turned is not None and begins_with_sines(result)
    return result if turned is None else turned


@dataclasses.dataclass(frozen=True)
class TableSlot(PlainSlot):
    """A table of vectors. It may have more or fewer rows than the canonical table."""

    def write(self, weights: Mapping[str, np.ndarray]) -> None:
        """Set the first rows of the variable from canonical weights."""
        array = np.array(self.variable.read(), "float64")
        rows = array.reshape(-1, array.shape[-1])
        table = weights[self.parts[0]][: len(rows)]
        rows[: len(table)] = table
        self.variable.assign(rows.reshape(self.variable.shape))


def _is_fixed(table: Variable) -> bool:
    """Return whether a table is frozen and contains sines, right or wrong ones, instead of trained positions.

    In a table of sines and cosines of the same angles, all rows have one norm. Otherwise, its first column tells.
    """
    if not table.frozen:
        return False
    rows = np.asarray(table.read(), "float64").reshape(squeezed(table.shape))
    norms, positions = (rows**2).sum(axis=-1), np.arange(len(rows))
    turns = np.ptp(norms) <= CLOSE * norms.max() and np.ptp(rows, axis=0).any()
    return bool(turns or any(np.allclose(rows[:, 0], np.sin(positions + first), atol=CLOSE) for first in (0, 1)))


def _with_vectors(trial: Trial, rng: np.random.Generator) -> Trial:
    """Return the trial with vectors as its input. Where the table is zero, the vectors are zero too."""
    vectors = rng.normal(size=trial.query.shape)
    if not trial.weights["embedding/embeddings"].any():
        vectors = np.zeros_like(vectors)
    more = {**trial.more, "ids": np.ones_like(trial.more["ids"]), "vectors": vectors}
    name = trial.name.replace("ids", "vectors").replace("one id only", "another length").replace("table", "vectors")
    return dataclasses.replace(trial, name=name, query=vectors, key=vectors, value=vectors, more=more)


def for_each_item(answer: Answer, trial: Trial) -> Answer:
    """Return the answer with the same encoding for each item, if it has no axis of items, or one item."""
    if answer.output is None:
        return answer
    output = np.asarray(answer.output)
    _, rows, width = trial.query.shape
    if squeezed(output.shape) in ((rows, width), squeezed((rows, width))) and output.shape != trial.query.shape:
        output = np.broadcast_to(output.reshape(1, rows, width), trial.query.shape)
    return dataclasses.replace(answer, output=output)


class EncodingFunction(Candidate):
    """A function of a number of positions and of a width, which returns the positional encoding.

    It may be a function of one position instead, which returns this position's encoding.

    Attributes:
        one_position: Whether it was seen to encode one position.
        rotates: Whether its name means tables of rotary positions, which may be of a form that kmha does not know.
    """

    chain = NAME
    one_position = rotates = sines_first = False

    def __init__(
        self,
        function: Any,
        name: str,
        given: Mapping[str, Any],
        said: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.function, self.name, self.given = function, name, dict(given)
        self.framework = frameworks.likely_frameworks(function)[0]
        self.call_parameters = parameters(function)
        check_given(f"{name}()", given, self.call_parameters)
        self.roles = encoding_roles(self.call_parameters, said) or {}
        required = {name for name, each in self.call_parameters.items() if each.default is EMPTY}
        self.places = {name: PLACES[plain] for name in required if (plain := naming.plain(name)) in PLACES}
        self.rotates = bool(OF_ROTARY.search(name.lower()))
        self.bases = _bases_of(self, self.function)

    def sizes(self, rng: np.random.Generator) -> Any:
        return block_trials.draw_block_sizes(rng, BlockAccepts(NAME))

    def draw(self, seed: int, sizes: Any) -> list[Trial]:
        rng = np.random.default_rng(seed)
        drawn = [_with_vectors(trial, rng) for trial in block_trials.draw_block(seed, BlockAccepts(NAME), sizes)]
        more = {"says_positions": True, "alone": True, **self.bases}
        return [dataclasses.replace(trial, more={**trial.more, **more}) for trial in drawn]

    def likely_choices(self, trial: Trial) -> list[tuple[str, ...]]:
        return _likely(self, super().likely_choices(trial))

    def smaller_sizes(self, sizes: BlockSizes) -> Iterator[Any]:
        for rows, width in ((1, 2), (2, 2), (3, 4)):
            yield dataclasses.replace(sizes, batch=1, rows=rows, columns=rows + 1, width=width, heads=1, size=width)

    def arguments(self, trial: Trial) -> dict[str, Any]:
        """Return all arguments of the call, keyed by name."""
        _, rows, width = trial.query.shape
        return {self.roles["length"]: rows, self.roles["width"]: width, **self.places, **self.given}

    def call(self, trial: Trial) -> tuple[Any, list[tuple[Any, Any]]]:
        arguments = self.arguments(trial)
        result = self.function(**arguments)
        self.one_position = len(getattr(result, "shape", ())) == 1
        if self.one_position:
            each = ({**arguments, self.roles["length"]: position} for position in range(trial.query.shape[1]))
            result = np.stack([np.asarray(self.function(**one)) for one in each])
        return _with_tables(self, result, trial), with_copies(arguments)

    def answer(self, trial: Trial) -> Answer:
        return for_each_item(super().answer(trial), trial)

    def code(self, trial: Trial) -> list[str]:
        head = reproduction.imports(self.function, self.framework, self.source, self.name)
        arguments = {name: repr(value) for name, value in self.arguments(trial).items()}
        if not self.one_position:
            return [*head, f"result = {_call(self.name, arguments)}"]
        length = self.roles["length"]
        called = _call(self.name, {**arguments, length: "position"})
        return [*head, f"result = np.stack([{called} for position in range({arguments[length]})])"]


def _call(name: str, arguments: Mapping[str, str]) -> str:
    return f"{name}({', '.join(f'{each}={value}' for each, value in arguments.items())})"


def encoding_roles(found: Parameters, said: Mapping[str, str] = MappingProxyType({})) -> dict[str, str] | None:
    """Return the arguments of a function of a length and a width, or `None` if it has other arguments.

    `said` are names that the user gave, keyed by role.

    >>> encoding_roles(parameters(lambda position, d_model: 0))
    {'length': 'position', 'width': 'd_model'}
    """
    roles: dict[str, str] = {}
    for name, each in found.items():
        role = "length" if naming.plain(name) in LENGTHS else naming.argument(name)
        role = "width" if role == "size" or naming.plain(name) == "depth" else role
        role = next((each for each, mine in said.items() if mine == name), role)
        if role in ("length", "width") and role not in roles:
            roles[role] = name
        elif each.default is EMPTY and naming.plain(name) not in PLACES:
            return None
    return roles if len(roles) == 2 else None


def word_of_code(layer_class: type) -> str:
    """Return "rotary" or "positional" if a class computes sines for that and no attention, by its code, or ""."""
    code = frameworks.source_with_helpers(layer_class).lower()
    if not re.search(r"\bsin\b", code) or re.search("softmax|attention|attn", code):
        return ""
    return (
        "rotary" if naming.ROTARY.search(code) else "positional" if re.search(r"position|pos_?enc|\bpe\b", code) else ""
    )


def is_embedding(name: str, made: Mapping[str, str], called: Mapping[str, str], variables: Sequence[Variable]) -> bool:
    """Return whether a layer is an embedding or a positional encoding, judged by its names and weights.

    Args:
        name: Name of its class.
        made: Names of the constructor's arguments, keyed by role.
        called: Names of the call's arguments, keyed by role.
        variables: Variables of a built layer.
    """
    spelled = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    pair = called.keys() >= {"query", "key"} and "value" not in called and naming.ROTARY.search(spelled)
    if {"heads", "inner"} & made.keys() or ({"memory", "key"} & called.keys() and not pair):
        return False
    if any(len(squeezed(variable.shape)) > 2 for variable in variables):
        return False
    return "vocabulary" in made or bool(WORDS.search(spelled) and not OTHERS.search(spelled))
