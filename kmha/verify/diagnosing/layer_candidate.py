"""A layer or module of Keras, torch or a JAX package as a candidate, as a class or as a built layer.

A class is instantiated with the sizes and the dropout of each trial, and the instance's weights are set. The weights of
a layer that is already built are read and kept.
"""

import ast
import contextlib
import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Trial
from kmha.verify.choices.attention import Extra
from kmha.verify.diagnosing import config_objects, frameworks, guessing, naming, reproduction, trials
from kmha.verify.diagnosing.caches.words import forget
from kmha.verify.diagnosing.calling import (
    EMPTY,
    CandidateError,
    Parameters,
    call_parameters,
    call_roles,
    check_given,
    check_known,
    check_roles,
    constructor,
    given_sizes,
    guessed_arguments,
    input_arguments,
    mask_arguments,
    positional_only,
    with_copies,
    without_neutral,
)
from kmha.verify.diagnosing.candidate import Candidate, quietly
from kmha.verify.diagnosing.conventions import BATCH, LISTS, SINGLE, TIME, Convention
from kmha.verify.diagnosing.guessing import LENGTH
from kmha.verify.diagnosing.jax_adapters import Held
from kmha.verify.diagnosing.layer_adapters import adapter_of, oriented
from kmha.verify.diagnosing.packed_inputs import packing_of
from kmha.verify.diagnosing.slips import place_of_nested
from kmha.verify.diagnosing.stated_sizes import number_of_heads, number_with_role, stated_number
from kmha.verify.diagnosing.trials import Accepts, Sizes
from kmha.verify.diagnosing.weights import (
    Slot,
    UnknownWeightsError,
    Variable,
    arrangements,
    arrangements_of_layer,
    canonical_weights,
    extras_of,
    possible,
    possible_sizes,
    stands,
    without_extras,
    write_weights,
)
from kmha.verify.diagnosing.with_parameters import WithParameters

SELF_ATTENTION = re.compile("self_?att")
# Roles of constructor arguments for which every trial has a value.
VALUED = (
    *("heads", "kv_heads", "temperature", "size", "value_size", "length", "width", "output", "inputs", "memory_width"),
    *("use_bias", "batch_first", "dropout", "epsilon", "inner", "depth", "vocabulary", "soft_cap", "rotary_size"),
)
EPSILONS = (1e-5, 1e-6, 1e-3, 0.0, 1e-8)  # usual epsilons of normalizations
EPSILON_NAMES = ("eps", "epsilon", "varianceepsilon")
# Values of required arguments that attention alone does not need.
NUMBERS = {"inner": 20, "depth": 1, "vocabulary": 11, "epsilon": 1e-5}
NO_CAP = 1e6  # c·tanh(logits / c) are the logits then
NO_PROJECTIONS = "it has no projections of query, key and value, and a projection of the output."
MASK_FLAG = re.compile("^_?(mask_?flag|(use|apply|with|enable)_?mask(s|ing)?)$")  # attributes that turn masks off


class LayerCandidate(Candidate):
    """A layer or module as a candidate.

    Attributes:
        output_is_of_head: Whether the constructor's output width is that of each head in a list of heads.
        states_no_heads: Whether a class takes and states neither a number of heads nor a head size.
        needs: Roles of numbers, besides the width, that an unknown argument of the constructor may have.
        size_is_of_all: Whether the constructor's size of a head is that of all heads together, as in some tutorials.
        rotates: Whether its name means rotary positions.
    """

    output_is_of_head = states_no_heads = size_is_of_all = rotates = False
    needs: tuple[str, ...] = ("heads",)

    def __init__(
        self,
        thing: Any,
        name: str,
        given: Mapping[str, Any],
        meaning: str | None = None,
        said: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        is_class = isinstance(thing, type)
        self.layer_class = thing if is_class else type(thing)
        self.adapter = adapter_of(self.layer_class)
        self.original, self.thing = thing, thing if is_class else self.adapter.working_copy(thing)
        self.name, self.given, self.said_meaning, self.said = name, dict(given), meaning, dict(said)
        self.framework = self.adapter.framework
        self.call_parameters = self._open(call_parameters(thing, self.adapter.method))
        self.written_parameters = self._open(constructor(self.layer_class))
        self.made_guesses: dict[str, str] = {}
        self.found_extras: dict[int, tuple[Extra, ...]] = {}  # of each layer, keyed by its id
        self.constructor_parameters = self._constructor_parameters() if is_class else self.written_parameters
        self.given = {self._full_name(n): value for n, value in self.given.items()}
        self.call_given = {
            n: v for n, v in self.given.items() if n in self.call_parameters and n not in self.constructor_parameters
        }
        self.roles = call_roles(self._named_inputs(), said)
        self.by_place = self.roles_beside_names(self.call_given)
        self.roles |= self.by_place
        self.roles |= _ids_of(self.call_parameters, self.roles)
        made, self.neutral_temperature = without_neutral(
            self.constructor_parameters, naming.roles_of_constructor(self.constructor_parameters, said), said
        )
        self.constructor_roles = {role: n for role, n in made.items() if n not in self.given}
        self.fixed = {**config_objects.sizes_in(self.given), **given_sizes(name, self.given)}
        check_roles(name, said, self.constructor_parameters, self.call_parameters)
        self.told_causal = self.said_causal
        if is_class:
            self.given = self._without_told()
            check_given(f"{name}(…)", self.given, self.constructor_parameters, self.call_parameters)
            self.made_guesses = self._guess_constructor()
        self.mask_flag = "" if is_class else _mask_flag(self.thing, self.adapter.parts(self.thing))
        self.accepts = self._accepts()
        self.cache: dict[Any, Any] = {}
        self.count = 1  # number of possible arrangements of the weights
        self.weights_error: UnknownWeightsError | None = None
        self.convention = Convention(
            0, mask_meaning=self.meanings("mask")[0], padding_meaning=self.meanings("padding")[0]
        )
        if not is_class and not self.adapter.is_weightless(self.thing):
            self.weights = self._weights_of_layer()

    def _weights_of_layer(self) -> dict[str, np.ndarray]:
        try:
            return self._read()
        except CandidateError as error:
            error.candidate = self
            raise

    def _without_told(self) -> Mapping[str, Any]:
        """Return what was given without what no argument takes: the user tells the number of heads, or `causal`."""
        own = {**self.constructor_parameters, **self.call_parameters}
        told = {"heads", "causal"} - self.constructor_roles.keys() - self.roles.keys()
        return {n: value for n, value in self.given.items() if n in own or naming.argument(n) not in told}

    def _open(self, found: Parameters) -> Parameters:
        """Leave out the parameters for which the adapter has values, such as keys of random numbers."""
        supplied = self.adapter.supplied(found)
        return {name: parameter for name, parameter in found.items() if name not in supplied or name in self.given}

    def _named_inputs(self) -> Parameters:
        """Return the open parameters of the call, without the masks of a memory that is always `None`.

        A self-attention may take a memory that its code never reads, to be called as other layers of its package are.

        A flag that the constructor got, such as `deterministic`, must not be given again if it is `None` by default.
        """
        ignored = self._ignored_memories()
        alone = bool(ignored) or any(v is None and naming.argument(n) == "memory" for n, v in self.call_given.items())
        unused = [n for n in self.call_parameters if alone and "mask" in n and naming.OF_MEMORY.search(n)]
        unused += [n for n in self.given if n in self.call_parameters and self.call_parameters[n].default is None]
        unused += [*ignored, *self.call_given]
        return {n: each for n, each in self.call_parameters.items() if n not in unused}

    def _ignored_memories(self) -> list[str]:
        """Return the arguments for a memory that the code of a self-attention never reads."""
        if not SELF_ATTENTION.search(self.layer_class.__name__.lower()):
            return []
        code = frameworks.syntax_of(getattr(self.layer_class, self.adapter.method, None))
        read = {node.id for node in ast.walk(code) if isinstance(node, ast.Name)}
        return [n for n in self.call_parameters if read and n not in read and naming.argument(n) == "memory"]

    def _full_name(self, name: str) -> str:
        """Return the name of a constructor's argument, with the configuration object that a bare field belongs to."""
        if name in self.constructor_parameters or name in self.call_parameters:
            return name
        return next((full for full in self.constructor_parameters if full.partition(".")[2] == name), name)

    def _constructor_parameters(self) -> dict[str, Any]:
        """Return the constructor's parameters, with the fields that it reads from a configuration object."""
        others = {n: each for n, each in self.written_parameters.items() if n not in self.given}
        rest = {
            n: each for n, each in others.items() if each.default is EMPTY and not config_objects.is_config(n, each)
        }
        plain = {n: config_objects.sample(n) for n in rest}

        def construct(**config: Any) -> Any:
            with quietly():
                made = self.adapter.new(self.layer_class, {**plain, **config}, "float32")
                return made.module if isinstance(made, Held) else made

        kept = {n: each for n, each in self.written_parameters.items() if n in self.given}
        code, stated = frameworks.source_of(self.layer_class), config_objects.stated_fields(self.layer_class)
        return {**kept, **config_objects.expanded(others, construct, code, stated)}

    def _guess_constructor(self) -> dict[str, str]:
        """Return values for required arguments of the constructor that no role explains, with which it can be called.

        Raises:
            CandidateError: No value that kmha tries works.
        """
        known = {name for role, name in self.constructor_roles.items() if role in VALUED} | {*self.given}
        unknown = {
            n: each for n, each in self.constructor_parameters.items() if each.default is EMPTY and n not in known
        }
        if not unknown:
            return {}
        sizes = {"H": 2, "O": 4, "E": 8, "I query": 8, "I key": 8, "I value": 8}
        missing = {"width", *self.needs} - {"width" if r in ("inputs", "output") else r for r in self.constructor_roles}
        constructed: list[dict[str, str]] = []
        for guessed in guessing.combinations(unknown, missing, frameworks.source_of(self.layer_class)):
            self.made_guesses = guessed
            try:
                with quietly():
                    layer = self.adapter.new(self.layer_class, self._made_with(sizes, 0.0), "float32")
                variables = self.adapter.variables(layer)
                if any(0 in variable.shape for variable in variables):  # such weights make any numbers right
                    continue
                constructed.append(guessed)
                arrangements(variables, sizes)
            except (Exception, SystemExit):  # untrusted code may raise anything
                continue
            return guessed
        if constructed:
            return constructed[0]
        check_known(f"{self.name}(…)", self.constructor_parameters, self.constructor_roles.values(), self.given)
        return {}

    def _call_guesses(self) -> list[tuple[tuple[str, str], ...]]:
        """Return the combinations of values to try for required arguments of the call that no role explains."""
        known = {*self.call_given, *(n for role, n in self.roles.items() if role != "length")}
        unknown = {n: each for n, each in self.call_parameters.items() if each.default is EMPTY and n not in known}
        return [tuple(each.items()) for each in guessing.combinations(unknown, turns=self.rotates)]

    def _accepts(self) -> Accepts:
        roles, made = self.roles, self.constructor_roles
        is_class = isinstance(self.thing, type)
        masks = not self.mask_flag
        if not {"query", "self", "ids"} & roles.keys():
            method = self.adapter.method
            if place := place_of_nested(method, frameworks.source_of(self.layer_class)):
                raise CandidateError(
                    f"{self.name} has no {method}(): `def {method}` stands inside of {place}(), so it is not a method. "
                    f"Indent it as `def {place}` is."
                )
            raise CandidateError(
                f"{self.name}: its {method}() has no argument for the input. Expected names such as "
                f"`query`, `value`, `key` or `x`. Received: {', '.join(self.call_parameters) or 'no arguments'}."
                + naming.role_hint("query", self.call_parameters)
            )
        return Accepts(
            cross=("query" in roles and "key" in roles) or ("query" in roles and "value" in roles) or "memory" in roles,
            value="value" in roles and "key" in roles,
            mask=masks and "mask" in roles,
            causal="causal" in roles,
            padding=masks and ("padding" in roles or "lengths" in roles),
            query_padding=masks and "query_padding" in roles,
            # Trials in training have one head with few features, so that the dropout mask can be found.
            training=is_class
            and "dropout" in made
            and not {"heads", "size"} & self.fixed.keys()
            and not self.is_in_given_mode,
            wide="size" not in {**made, **self.fixed},
            half=is_class and self.adapter.half,
        )

    @property
    def is_in_given_mode(self) -> bool:
        """True if an argument that was given says whether the layer trains, or if only the constructor can say so."""
        modes = {"training", "deterministic"}
        names = self.given if modes & self.roles.keys() else {**self.given, **self.constructor_parameters}
        return any(naming.argument(name) in modes for name in names)

    def input_layouts(self) -> list[dict[str, Any]]:
        is_instance = not isinstance(self.thing, type)
        time_first = is_instance and getattr(self.thing, "batch_first", None) is False
        found: list[dict[str, Any]] = [{"entry": TIME if time_first else BATCH}]
        if not self.accepts.cross:  # a call with one argument may want a list of inputs
            found += [{"entry": entry} for entry in LISTS]
        single: list[dict[str, Any]] = [{"entry": SINGLE}]
        found += [] if self.says_batch_first else [{"entry": TIME}]
        layouts = [*single, *found] if self.adapter.single else [*found, *single]
        return [{**each, "guessed": guessed} for each in layouts for guessed in self._call_guesses()]

    def use_layout(self, **changes: Any) -> None:
        self.accepts = self._accepts()
        super().use_layout(**changes)
        self.cache, self.count = {}, self.count if self.weights is not None else 1

    def use_convention(self, convention: Convention) -> None:
        if self.weights is not None and convention.weights != self.convention.weights:
            self.weights = self._read(convention.weights)
        super().use_convention(convention)

    def adapted(self, trial: Trial) -> Trial:
        if self.weights is not None:  # how weights are read depends on the convention
            trial = dataclasses.replace(trial, weights=self.weights)
        else:
            trial = dataclasses.replace(trial, weights=self._in_groups(trial))
        extras = self.extras(trial)
        if extras:
            more = {"extras": extras, "norm_epsilon": self.convention.norm_epsilon, "crosses": self.accepts.cross}
            more = {**trial.more, **more}
            trial = dataclasses.replace(trial, more=more)
        return super().adapted(trial)

    def _in_groups(self, trial: Trial) -> dict[str, np.ndarray]:
        """Return a trial's weights, with the same key and value heads wherever the layer has fewer of them."""
        weights = dict(trial.weights)
        try:
            with quietly():
                for prefix, slot in self.projections(trial):
                    mine = {name: weights[prefix + name] for name in slot.names if prefix + name in weights}
                    mine = slot.in_groups(mine)
                    weights |= {prefix + name: array for name, array in mine.items()}
        except (Exception, SystemExit):  # untrusted code may raise anything, and the call reports the error
            pass
        return weights

    def projections(self, trial: Trial) -> list[tuple[str, Slot]]:
        return [("", slot) for slot in self._made(trial)[1]]

    def extras(self, trial: Trial) -> tuple[Extra, ...]:
        """Return the weights that are none of attention's kernels and biases."""
        try:
            with quietly():
                layer, _ = self._made(trial)
        except (Exception, SystemExit):  # untrusted code may raise anything, and the call reports the error
            return ()
        return self.found_extras.get(id(layer), ())

    def sample_variables(self) -> list[Variable]:
        """Return the variables of a small layer before its first call, or none if kmha cannot make one."""
        try:
            with quietly():
                return list(self.adapter.variables(self.sample()))
        except (Exception, SystemExit):  # untrusted code may raise anything
            return []

    def sample(self) -> Any:
        """Return the layer, or an instance of the class with two heads of four features."""
        if not isinstance(self.thing, type):
            return self.thing
        return self.adapter.new(self.layer_class, self.constructor_of(2, 4), "float32")

    def matrix_paths(self) -> list[str]:
        """Return the paths of the matrices among the weights."""
        layers = [each[0] for each in self.cache.values() if isinstance(each, tuple)]
        variables = self.adapter.variables(layers[0] if layers else self.thing)
        return [each.path for each in variables if len(each.shape) > 1]

    def epsilons(self) -> tuple[float, ...]:
        """Return the epsilons that a normalization may add: those that a sublayer states, or else the usual ones."""
        layers = [each[0] for each in self.cache.values() if isinstance(each, tuple)]
        stated = {
            float(value)
            for layer in layers[:1]
            for part in _parts(layer)
            for name, value in vars(part).items()
            if naming.plain(name) in EPSILON_NAMES and isinstance(value, int | float)
        }
        return tuple(dict.fromkeys((*sorted(stated), *EPSILONS)))

    def sizes(self, rng: np.random.Generator) -> Sizes:
        if self.weights is not None:
            held = held_sizes(self.weights)
            if self.convention.sizes == trials.SQUARE:
                return dataclasses.replace(held, rows=self.square_length, columns=self.square_length)
            return held
        drawn = trials.draw_sizes(rng, self.accepts, kind=self.convention.sizes, length=self.square_length)
        heads = self.fixed.get("heads") or (
            drawn.heads if "heads" in self.constructor_roles else self._own_heads(drawn)
        )
        if heads != 1 and "heads" not in self.constructor_roles:
            self.accepts = dataclasses.replace(self.accepts, training=False)
        has_output = "output" in self.constructor_roles
        return self._adjusted(fixed_sizes(drawn, heads, self.fixed, self.accepts.wide, has_output, self.name))

    def _adjusted(self, sizes: Sizes) -> Sizes:
        """Return the sizes, or the sizes of the weights that the constructor makes if these do not depend on them."""
        self.output_is_of_head = False
        inner = {f"I {role}": sizes.features for role in ("query", "key", "value")}
        letter = {"H": sizes.heads, "O": sizes.size, "E": sizes.width, **inner}
        variables: list[Variable] = []
        try:
            with quietly():
                layer = self.adapter.new(self.layer_class, self._made_with(letter, 0.0), "float32")
                variables = without_extras(self.adapter.variables(layer))[0]
                if not variables:
                    self._build(layer, next(self.iter_trials(0, sizes)), "float32")
                    variables = without_extras(self.adapter.variables(layer))[0]
        except (Exception, SystemExit) as error:  # untrusted code may raise anything, and a later call reports it
            if self._give_flag_of(str(error)):
                return self._adjusted(sizes)
        for grouped in (False, True):
            with contextlib.suppress(UnknownWeightsError):
                if not variables or any(stands(slots) for slots in arrangements(variables, letter, grouped)):
                    return sizes
        found = possible_sizes(variables, number_of_heads(layer, self.given) or sizes.heads)
        if found is None:
            return sizes
        self.output_is_of_head = found["O"] == sizes.width != found["E"]
        features: dict[str, Any] = {"features": found["I query"], "key_features": found["I key"]}
        return dataclasses.replace(sizes, heads=found["H"], size=found["O"], width=found["E"], **features)

    def _own_heads(self, drawn: Sizes) -> int:
        """Return the layer's number of heads if the constructor does not take a number of heads, else 1."""
        one = fixed_sizes(drawn, 1, self.fixed, self.accepts.wide, "output" in self.constructor_roles, self.name)
        inputs = {f"I {role}": one.features for role in ("query", "key", "value")}
        letters_of_one = {"H": 1, "O": one.size, "E": one.width, **inputs}
        try:
            with quietly():
                layer = self.adapter.new(self.layer_class, self._made_with(letters_of_one, 0.0), "float32")
        except (Exception, SystemExit):  # untrusted code may raise anything, and a later call reports the error
            return 1
        stated = number_of_heads(layer, {})
        self.states_no_heads = stated is None and not {"size", "value_size"} & self.constructor_roles.keys()
        return stated or 1

    def mask_shapes(self) -> list[str]:
        """Return the shapes to try for a mask: (B, T, S) as in Keras, then shapes with an axis of heads."""
        shapes = super().mask_shapes()
        return shapes if self.convention.entry == SINGLE else ["B,T,S", *(each for each in shapes if each != "B,T,S")]

    def weight_conventions(self) -> list[Any]:
        """Return the indices of the possible arrangements of the weights."""
        return list(range(self.count))

    def weights_present(self, trial: Trial) -> frozenset[str] | None:
        try:
            slots = self._made(trial)[1]
        except (Exception, SystemExit):  # untrusted code may raise anything, and a later call reports the error
            return None
        return frozenset(name for slot in slots for name in slot.names)

    def make(self, trial: Trial) -> tuple[Any, list[Slot]]:
        """Return the layer with the trial's weights. A new layer is built for other sizes, dropout or dtype."""
        layer, slots = self._made(trial)
        if self.weights is None:
            write_weights(slots, trial.weights)
        return layer, slots

    def _made(self, trial: Trial) -> tuple[Any, list[Slot]]:
        sizes = letters(trial.weights)
        dtype = self.dtype_of(trial)
        key = *sizes.items(), trial.rate, dtype
        layer, found = self.made_once(key, trial, lambda: self._make(trial, sizes, dtype))
        return layer, found[min(self.convention.weights, len(found) - 1)]

    def made_once(self, key: Any, trial: Trial, make: Callable[[], tuple[Any, list[Any]]]) -> tuple[Any, list[Any]]:
        """Return the layer with its possible slots that `make` made before for the key, or raise its error again.

        That the weights do not fit holds for all calls. Another error may only hold for one form of one trial's masks.
        """
        for known in (key, (key, self.convention, trial.name)):
            if isinstance(self.cache.get(known), BaseException):
                raise self.cache[known]
        if key not in self.cache:
            try:
                self.cache[key] = make()
            except UnknownWeightsError as error:
                self.weights_error = self.cache[key] = error
                raise
            except (Exception, SystemExit) as error:  # untrusted code may raise anything
                self.cache[key, self.convention, trial.name] = error
                raise
            self.count = max(self.count, len(self.cache[key][1]))
        found: tuple[Any, list[Any]] = self.cache[key]
        return found

    def _make(self, trial: Trial, sizes: Mapping[str, int], dtype: str) -> tuple[Any, list[list[Slot]]]:
        """Return a new layer and the possible slots of its weights. A size that does not fit may be of all heads."""
        try:
            return self._make_once(trial, sizes, dtype)
        except UnknownWeightsError:
            if (
                self.weights is not None
                or self.size_is_of_all
                or not {"heads", "size"} <= self.constructor_roles.keys()
            ):
                raise
            self.size_is_of_all = True
            try:
                return self._make_once(trial, sizes, dtype)
            except (Exception, SystemExit):  # untrusted code may raise anything
                self.size_is_of_all = False
            raise

    def _give_flag_of(self, error: str) -> bool:
        """Give the constructor the flag that Flax's `merge_param` found nowhere: parts get it from there alone."""
        name = next(iter(re.findall(r'"(\w+)" must be passed to the constructor', error)), "")
        if name in self.given or self.constructor_parameters.get(name) is None:
            return False
        self.given = {**self.given, name: name == "deterministic"}
        self.roles = {role: each for role, each in self.roles.items() if each != name}
        self.accepts = dataclasses.replace(self.accepts, training=False)
        return True

    def _make_once(self, trial: Trial, sizes: Mapping[str, int], dtype: str) -> tuple[Any, list[list[Slot]]]:
        if self.weights is None:
            layer = self.adapter.new(self.layer_class, self._constructor(trial), dtype)
        else:
            layer = self.adapter.working_copy(self.original)
        self._build(layer, trial, dtype)
        variables = self._oriented(layer, trial, dtype)
        found = self._arranged(variables, sizes)
        if self._lacks_projections(found[0]):
            raise UnknownWeightsError(NO_PROJECTIONS, variables)
        used = {slot.variable.whole for slot in found[0]}
        rest = [each for each in variables if each.path not in used]
        self.found_extras[id(layer)] = extras_of(rest, free=self.weights is None)
        return layer, found

    def _build(self, layer: Any, trial: Trial, dtype: str) -> None:
        """Build the layer by a call without masks, or with masks if a call without masks fails."""
        plain = dataclasses.replace(trial, mask=None, key_mask=None, query_mask=None, causal=False)
        try:
            self.adapter.build(layer, self._arguments(plain), dtype)
        except (Exception, SystemExit):  # untrusted code may raise anything
            if not trial.masked:
                raise
            self.adapter.build(layer, self._arguments(trial), dtype)

    def _arranged(self, variables: list[Variable], sizes: Mapping[str, int]) -> list[list[Slot]]:
        """Return the possible slots of the variables, as in the first layer, whose sizes tell its axes apart."""
        try:
            return self._arranged_like_the_first(variables, sizes, arrangements)
        except UnknownWeightsError:
            if rest := without_extras(variables)[0]:
                with contextlib.suppress(UnknownWeightsError):
                    return self._arranged_like_the_first(rest, sizes, possible)
            raise

    def _arranged_like_the_first(
        self, variables: list[Variable], sizes: Mapping[str, int], arrange: Callable[..., list[list[Slot]]]
    ) -> list[list[Slot]]:
        by_path = {variable.path: variable for variable in variables}
        first = self.cache.setdefault("first", None) or arrange(variables, sizes)
        if any({slot.variable.path for slot in each} != by_path.keys() for each in first):
            return arrange(variables, sizes)
        self.cache["first"] = first
        return [[dataclasses.replace(slot, variable=by_path[slot.variable.path]) for slot in each] for each in first]

    def _oriented(self, layer: Any, trial: Trial, dtype: str) -> list[Variable]:
        variables, name = self.adapter.variables(layer), self.constructor_roles.get("inputs")
        if self.weights is not None or name is None or "." in name:
            return variables
        return oriented(variables, self.adapter, self.layer_class, self._constructor(trial), name, dtype)

    def _constructor(self, trial: Trial) -> dict[str, Any]:
        """Return the constructor's arguments for a trial, keyed by name."""
        return self._made_with(letters(trial.weights), trial.rate)

    def _made_with(self, sizes: Mapping[str, int], rate: float) -> dict[str, Any]:
        size = sizes["O"] * (sizes["H"] if self.size_is_of_all else 1)
        values = {
            "heads": sizes["H"],
            "kv_heads": sizes["H"],
            "rotary_size": sizes["O"],
            "temperature": sizes["O"] ** 0.5,
            "size": size,
            "value_size": size,
            "length": self.longest,
            "width": sizes["E"] if self.accepts.wide else sizes["I query"],
            "output": sizes["O" if self.output_is_of_head else "E"],
            "inputs": sizes["I query"],
            "memory_width": sizes["I key"],
            "use_bias": True,
            "batch_first": True,
            **{role: number for role, number in NUMBERS.items() if self._is_required(role)},
            **({"depth": 1} if issubclass(self.layer_class, WithParameters) else {}),  # weights of several layers
            "dropout": rate,
        }
        letter = {"T": 1, "O": sizes["O"], "I": sizes["I query"], "H": sizes["H"]}
        return self.constructor_arguments(values, letter)

    @functools.cached_property
    def square_length(self) -> int:
        """T and S of trials with equal lengths: the number of positions that the candidate states, if it is not large.

        Some code takes no fewer positions, because it does not crop a table or a mask.
        """
        thing = self.thing
        if not isinstance(thing, type):
            masks = [each.shape for each in thing.buffers()] if hasattr(thing, "buffers") else []
            tables = [shape[-1] for shape in masks if len(shape) > 1 and shape[-1] == shape[-2]]
            found = stated_number(thing, self.given, "length") or next(iter(tables), None)
        elif "length" in self.constructor_roles:
            return trials.SQUARE_LENGTH
        else:
            found = number_with_role([*self.given.items(), *frameworks.numbers_read([thing]).items()], "length")
        return found if found and 1 < found <= LENGTH else trials.SQUARE_LENGTH

    @property
    def longest(self) -> int:
        """The number of positions that the constructor gets: one that no trial exceeds, or that of square trials."""
        return self.square_length if self.convention.sizes == trials.SQUARE else LENGTH

    def _is_required(self, role: str) -> bool:
        name = self.constructor_roles.get(role)
        return name is not None and self.constructor_parameters[name].default is EMPTY

    def constructor_of(self, heads: int, size: int) -> dict[str, Any]:
        """Return the constructor's arguments for H heads of O features, and as many input features."""
        inputs = {f"I {role}": heads * size for role in ("query", "key", "value")}
        return self._made_with({"H": heads, "O": size, "E": heads * size, **inputs}, 0.0)

    def constructor_arguments(self, values: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
        """Return all arguments of the constructor, keyed by name.

        Args:
            values: Values by role.
            sizes: Sizes by letter, for arguments that no role explains: H, O, I and T.
        """
        arguments = {n: each.default for n, each in self.constructor_parameters.items() if "." in n}
        guessed = {n: str(self.longest) if text == str(LENGTH) else text for n, text in self.made_guesses.items()}
        arguments |= {n: guessing.value_of(text, self.framework, sizes) for n, text in guessed.items()}
        caps = self.constructor_parameters.get(self.constructor_roles.get("soft_cap", ""))
        values = {**values, **({"soft_cap": NO_CAP} if caps is not None and caps.default is not None else {})}
        arguments |= {self.constructor_roles[role]: v for role, v in values.items() if role in self.constructor_roles}
        arguments |= {n: value for n, value in self.given.items() if n in self.constructor_parameters}
        return config_objects.folded(arguments, self.written_parameters)

    def _arguments(self, trial: Trial) -> dict[str, Any]:
        """Return all arguments of the call, keyed by name."""
        return self.packed(
            {
                **guessed_arguments(self, trial),
                **self.call_given,
                **input_arguments(self, self.roles, trial),
                **mask_arguments(self, self.roles, trial),
            }
        )

    def packed(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of the call, with those in one argument that the call unpacks."""
        packing = packing_of(getattr(self.layer_class, self.adapter.method))
        return packing.packed(arguments) if packing else arguments

    def call(self, trial: Trial) -> tuple[Any, list[tuple[Any, Any]]]:
        layer, _ = self.make(trial)
        arguments = self._arguments(trial)
        copies = with_copies(arguments)
        forget(layer)
        return self.adapter.call(layer, arguments, trial.training), copies

    @property
    def heads_are_guessed(self) -> bool:
        """True for a layer of which nothing states the number of heads."""
        built = self.weights is not None and number_of_heads(self.thing, self.given) is None
        return built or (self.states_no_heads and bool(self.sample_variables()))

    @functools.cached_property
    def _arrangements(self) -> list[tuple[dict[str, int], list[Slot]]]:
        """The possible arrangements of a built layer's weights."""
        variables = self.adapter.variables(self.thing)
        one_input = not {"memory", "key", "value"} & self.roles.keys()
        return arrangements_of_layer(self.name, self.thing, variables, self.given, one_input, self._takes)

    def _read(self, convention: int = 0) -> dict[str, np.ndarray]:
        """Return the canonical weights of a built layer, whose own weights are arranged as `convention` says."""
        self.count = len(self._arrangements)
        sizes, slots = self._arrangements[min(convention, self.count - 1)]
        if self._lacks_projections(slots):
            raise CandidateError(f"{self.name}: {NO_PROJECTIONS}")
        return canonical_weights(sizes, slots)

    def _lacks_projections(self, slots: Sequence[Slot]) -> bool:
        """Return whether a layer projects its outputs alone, and takes no queries and keys that are projected."""
        return {slot.role for slot in slots} == {"attention_output"} and not {"query", "key"} <= self.roles.keys()

    def _takes(self, widths: Mapping[str, int]) -> bool:
        """Return whether a built layer takes inputs with these features, with or without an axis of items."""
        widths = {"query": widths["I query"], "key": widths["I key"], "value": widths["I value"]}
        widths |= {"self": widths["query"], "memory": widths["key"]}
        given = {self.roles[role]: width for role, width in widths.items() if role in self.roles}
        for axes in ((2, 3), (3,)):
            ones = {name: np.ones((*axes, width)) for name, width in given.items()}
            inputs = {name: frameworks.to_tensor(array, self.framework, "float64") for name, array in ones.items()}
            with contextlib.suppress(Exception, SystemExit), quietly():  # untrusted code may raise anything
                self.adapter.call(self.adapter.working_copy(self.thing), inputs, False)
                return True
        return False

    def code(self, trial: Trial) -> list[str]:
        layer, slots = self.make(trial)
        wholes = {each.path: each for each in self.adapter.variables(layer)}
        held = [dataclasses.replace(each, variable=wholes.get(each.variable.part_of, each.variable)) for each in slots]
        used = [*{slot.variable.path: slot for slot in held if slot.variable.used}.values()]  # each array once
        weights = [reproduction.literal(slot.variable.read()) for slot in used]
        return self._code(trial, lambda *call: self.adapter.script(*call, used, weights, self.dtype_of(trial)))

    def seeded_code(self, trial: Trial) -> list[str]:
        return self._code(trial, lambda *call: self.adapter.seeded(*call, self.dtype_of(trial)))

    def _code(self, trial: Trial, make_layer: Callable[[str, str], list[str]]) -> list[str]:
        """Return the lines of a call. `make_layer` turns the constructor's call and the layer's call into lines."""
        arguments = self._arguments(trial)
        if self.weights is not None:  # the script calls the original, whose weights keep their dtype
            arguments = reproduction.as_dtype(arguments, self.adapter.weights_dtype(self.original))
        lines, given = reproduction.assignments(arguments, self.framework, positional_only(self.call_parameters))
        method = f".{self.adapter.method}" if self.adapter.calls_by_name else ""
        call = f"layer{method}({', '.join(given)})"
        if self.weights is not None:
            head = reproduction.imports(self.thing, self.framework, self.source, "layer")
            return [*head, *lines, f"result = {call}"]
        if not isinstance(self.thing, type):
            made_before = [line for line in make_layer("layer", call) if line != "layer = layer"]
            return [*self._imported(), *lines, *made_before, f"result = {call}"]
        head = reproduction.imports(self.thing, self.framework, self.source, self.name)
        if hasattr(self.layer_class, "turns"):  # a function that turns queries and keys
            return [*head, *lines, f"result = {self.name}({', '.join(given)})"]
        made = ", ".join(f"{name}={value!r}" for name, value in self._constructor(trial).items())
        name = self.name
        if getattr(self.layer_class, "makes_layers", False):
            name = f"as_layer({name})"
            head = [*head, "from kmha.verify.diagnosing.making_layers import as_layer"]
        return [*head, *lines, *make_layer(f"{name}({made})", call), f"result = {call}"]

    def _imported(self) -> list[str]:
        """Return lines that import a built layer, or a function around one, as `layer`."""
        if not hasattr(self.layer_class, "__wrapped__"):
            return reproduction.imports(self.thing, self.framework, self.source, "layer")
        head = reproduction.imports(self.thing, self.framework, self.source, self.name)
        return [*head, "from kmha.verify.diagnosing.closures import stand_in", f"layer = stand_in({self.name})"]


def _mask_flag(layer: Any, parts: Sequence[Any]) -> str:
    """Return the name of an attribute of a layer, or of a part of it, with which it was made to ignore masks, or ""."""
    stated = (item for owner in (layer, *parts) for item in getattr(owner, "__dict__", {}).items())
    return next((name for name, value in stated if value is False and MASK_FLAG.search(name)), "")


def _parts(layer: Any) -> list[Any]:
    """Return the sublayers of a torch module or Keras layer."""
    if hasattr(layer, "modules"):
        return list(layer.modules())
    return list(layer._flatten_layers()) if hasattr(layer, "_flatten_layers") else []


def letters(weights: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Return the sizes of canonical weights, keyed by letter."""
    heads, _, size = weights["query/kernel"].shape
    inner = {f"I {role}": weights[f"{role}/kernel"].shape[1] for role in ("query", "key", "value")}
    value_size, width = weights["attention_output/kernel"].shape[1:]
    other = {} if value_size == size else {"O value": value_size}
    return {"H": heads, "O": size, **other, "E": width, **inner}


def held_sizes(weights: Mapping[str, np.ndarray]) -> Sizes:
    """Return the sizes of canonical weights, with B, T and S that differ from these sizes."""
    sizes = letters(weights)
    batch, rows, columns = [n for n in (2, 3, 5, 7, 9, 11) if n not in (sizes["H"], sizes["O"])][:3]
    features, key_features = sizes["I query"], sizes["I key"]
    use_bias = "query/bias" in weights
    return Sizes(batch, rows, columns, sizes["H"], features, key_features, sizes["O"], sizes["E"], use_bias)


def fixed_sizes(drawn: Sizes, heads: int, fixed: Mapping[str, Any], wide: bool, has_output: bool, name: str) -> Sizes:
    """Return the drawn sizes, with given sizes in their places.

    Raises:
        CandidateError: The width is not a multiple of the number of heads.
    """
    if not wide:
        features = fixed.get("width") or fixed.get("inputs")
        if not features:  # sizes that are alike stay alike
            features = fixed.get("output", drawn.width) if drawn.features == drawn.width else drawn.features
        width = fixed.get("output") or (drawn.width if has_output else features)
        size = fixed.get("size") or drawn.size
        return dataclasses.replace(drawn, heads=heads, size=size, width=width, features=features, key_features=features)
    width = fixed.get("width") or fixed.get("output") or heads * (drawn.width if heads == 1 else drawn.size)
    if width % heads:
        raise CandidateError(f"{name}: a width of {width} is not a multiple of {heads} heads. Change one of the two.")
    return dataclasses.replace(drawn, heads=heads, size=width // heads, width=width, features=width, key_features=width)


def _ids_of(found: Mapping[str, Any], roles: Mapping[str, str]) -> dict[str, str]:
    """Return the role of `idx`, which is also the name of positions: token ids if it comes first and alone."""
    alone = [*found][:1] == ["idx"] and not {"query", "self", "ids"} & roles.keys()
    return {"ids": "idx"} if alone else {}
