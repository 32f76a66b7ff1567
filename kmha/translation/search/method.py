"""`SearchMethod`, the base class of the search methods, with their options, limits and checks."""

import dataclasses
import math
import numbers
import operator
import typing
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NoReturn

from kmha.translation.lazy import np, tf
from kmha.translation.search.steps import Steps, steps_of
from kmha.translation.tokenizer import END, PAD

Length = int | Callable[[int], int]

METHODS: dict[str, type["SearchMethod"]] = {}  # search methods, keyed by name


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One output of a search for one sentence.

    A search never emits padding or start tokens. The probabilities of all other tokens sum to one.
    """

    ids: tuple[int, ...]  # target ids without start and end tokens
    log_probability: float  # sum of the tokens' log probabilities, including the end token
    score: float  # value by which the hypotheses of one sentence are ordered; higher is better
    finished: bool  # whether it ends with the end token, and was not truncated at the sentence's limit
    # Its index, at each step, among the sentence's sequences that are decoded together.
    beams: tuple[int, ...] = dataclasses.field(default=(), compare=False, repr=False)


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of a search method. `Annotated[kind, Option(...)]` declares it at a constructor argument."""

    help: str  # text for `--help`
    hint: str  # advice for error messages, such as the usual value
    lowest: float
    highest: float = math.inf
    exclusive: bool = False  # whether values must be above `lowest`, not equal to it
    flag: str = ""  # flag on the command line, which methods can share; by default `--` and the argument's name
    metavar: str = "N"
    setting: bool = False  # whether the settings have a default for it, in their [search] section
    # `SearchMethod.options` reads these from the signature.
    name: str = ""
    kind: type = int  # or `float`
    default: Any = None  # `None` means that the option can be left unset

    @property
    def expected(self) -> str:
        """The allowed values, described in words."""
        if self.kind is int:
            text = "a positive integer" if self.lowest == 1 else "an integer that is not negative"
        elif self.exclusive:
            text = f"a number above {self.lowest:g}"
        else:
            text = f"a number of at least {self.lowest:g}"
        text += f" and at most {self.highest:g}" if self.highest < math.inf else ""
        return f"None or {text}" if self.default is None else text

    def allows(self, value: Any) -> bool:
        """Return True if `value` has the option's type and is in the option's range."""
        kind: Any = numbers.Integral if self.kind is int else numbers.Real
        if value is None or isinstance(value, bool) or not isinstance(value, kind):
            return value is None and self.default is None
        above = value > self.lowest if self.exclusive else value >= self.lowest
        return math.isfinite(value) and above and value <= self.highest


def usual_length(length: int) -> int:
    """Return the default limit for a sentence of `length` source ids, which is 1.5 · `length` + 10.

    >>> usual_length(7)
    20
    """
    return int(1.5 * length) + 10


class SearchMethod:
    """Base class of the search methods, which look for targets that a model considers probable.

    A subclass in this folder is a search method. It sets `name`, `title`, and the `flag` and `help` that the command
    line shows. It declares its options at the arguments of its constructor. It overrides `_search`, which runs in
    TensorFlow, and `_hypotheses`, which reads the results. If `_search` needs more than ids and limits, it also
    overrides `_inputs` and `_signature`. If it decodes several sequences for each sentence, it also overrides `width`.
    `kmha.show.capture` follows the `beams` of its hypotheses; without them, it records all sequences at each step.

    The loop over the target positions is a `tf.function` with a single trace, because batch size, source length and
    limits are tensors. If the model computes with JAX or torch, TensorFlow runs the loop eagerly.

    Args:
        model: A `kmha.layers.Transformer`.
        max_length: Maximum number of tokens in a hypothesis, including the end token, as an integer or a function of
            the number of source ids without padding. The model's number of target positions is another limit. Each
            sentence has its own limit, so that a batch gives the same hypotheses as its sentences one by one.

    Raises:
        ValueError: An argument is invalid.
    """

    name: ClassVar[str] = ""  # name in `Translator.translate`
    title: ClassVar[str] = ""  # name in messages
    flag: ClassVar[str] = ""  # selects the method on the command line; empty for the default method
    help: ClassVar[str] = ""  # help text of the flag

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.name:
            METHODS[cls.name] = cls

    def __init__(self, model: Any, *, max_length: Length = usual_length) -> None:
        self._check_model(model)
        if not callable(max_length):
            hint = "It is the largest number of tokens in a hypothesis; 100 is usual."
            max_length = self._checked_limit(max_length, hint)
        self.model = model
        self.max_length = max_length
        self._target_positions = model.get_config()["max_positional_encoding_target"]
        self._compile()

    @property
    def width(self) -> int:
        """Number of sequences that are decoded together for each sentence."""
        return 1

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Return the options that the constructor declares, keyed by name."""
        found = {}
        for name, hint in typing.get_type_hints(cls.__init__, include_extras=True).items():
            for option in getattr(hint, "__metadata__", ()):
                kinds = hint.__origin__, *typing.get_args(hint.__origin__)
                kind = float if float in kinds else int
                default = (cls.__init__.__kwdefaults__ or {})[name]
                flag = option.flag or f"--{name.replace('_', '-')}"
                found[name] = dataclasses.replace(option, name=name, kind=kind, default=default, flag=flag)
        return found

    @classmethod
    def arguments(cls, settings: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the constructor's arguments, which are `given`, completed from the settings.

        Args:
            settings: The [search] section of the model's settings, or `None`.
            given: Arguments from the caller.
        """
        if settings is None:
            return dict(given)
        trained = {name: getattr(settings, name, one.default) for name, one in cls.options().items() if one.setting}
        return {"max_length": lambda length: min(usual_length(length), settings.max_length), **trained, **given}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        """Raise a ValueError if options contradict each other, though each is valid."""

    def __call__(self, source_ids: Any) -> list[list[Hypothesis]]:
        """Return a list of hypotheses for every sentence, best first.

        Args:
            source_ids: Source ids (B, S), integers. Each sentence has its end token, and is then padded with 0.

        Raises:
            ValueError: `source_ids` or a limit is invalid.
        """
        from kmha.layers import cache

        source = self._checked_source(source_ids)
        limits = self._limits(source)
        if not len(source):
            return []
        if self._observers != cache.observers(self.model) or self._weights_are_replaced():
            self._compile()
        results = [result.numpy() for result in self.compiled(*self._inputs(source, limits))]
        self._weights = self.model.weights
        hypotheses = self._hypotheses(limits, *results)
        if self._observers:
            self._report(hypotheses, len(results[0]), source.shape[1])
        return hypotheses

    def _compile(self) -> None:
        """Prepare the search for the observers that the model has now."""
        from kmha.layers import cache

        self._observers = cache.observers(self.model)
        self._weights = self.model.weights
        self._steps = steps_of(self.model)
        self.compiled: Callable[..., Any] = self._search
        if type(self._steps) is Steps:
            self.compiled = tf.function(self._search, input_signature=self._signature(), autograph=False)

    def _weights_are_replaced(self) -> bool:
        """Tell whether the model has other variables than before, as after `kmha.layers.prune_heads`."""
        weights = self.model.weights
        same = len(weights) == len(self._weights) and all(map(operator.is_, weights, self._weights))
        return bool(self._weights) and not same  # the first search may build the model

    def _report(self, hypotheses: list[list[Hypothesis]], steps: int, length: int) -> None:
        """Tell the model's observers what the search has chosen after `steps` steps, for `length` source ids (S)."""
        from kmha.layers import cache

        chosen = [(sentence, one) for sentence, found in enumerate(hypotheses) for one in found]
        if not all(one.beams for _, one in chosen):
            return
        rows = np.full((len(chosen), steps), -1)
        for row, (sentence, one) in zip(rows, chosen, strict=True):
            row[: len(one.beams)] = np.array(one.beams) + sentence * self.width
        cache.report(self.model, np.array([sentence for sentence, _ in chosen]), rows, length)

    def _signature(self) -> tuple[Any, ...]:
        """Return the signature of `_search`: source ids (B, S) and limits (B,)."""
        return tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)

    def _inputs(self, source: Any, limits: Any) -> tuple[Any, ...]:
        return source, limits

    def _search(self, source: Any, limits: Any) -> tuple[Any, ...]:
        """Return tensors, of which the first has an element for each step."""
        raise NotImplementedError(f"{type(self).__name__} must override `_search`")

    def _hypotheses(self, limits: Any, *results: Any) -> list[list[Hypothesis]]:
        raise NotImplementedError(f"{type(self).__name__} must override `_hypotheses`")

    def _limits(self, source: Any) -> Any:
        """Return the maximum number of tokens for each sentence, int32 (B,)."""
        if not callable(self.max_length):
            limits = [self.max_length] * len(source)
        else:
            hint = "Let the function return a positive integer for any number of source ids, such as int(1.5 * n) + 10."
            lengths = np.count_nonzero(source != PAD, axis=1)
            limits = [self._checked_limit(self.max_length(int(length)), hint) for length in lengths]
        return np.minimum(limits, self._target_positions).astype("int32")

    def _checked_limit(self, value: Any, hint: str) -> int:
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
            self._refuse("max_length", "a positive integer", f"max_length={value!r}", hint)
        return int(value)

    def _checked(self, name: str, value: Any) -> Any:
        """Return `value` if the option `name` allows it."""
        option = self.options()[name]
        if not option.allows(value):
            self._refuse(name, option.expected, f"{name}={value!r}", option.hint)
        return value if value is None else option.kind(value)

    def _checked_source(self, source_ids: Any) -> Any:
        """Return `source_ids` as an array (B, S), int32, after checking them."""
        hint = "Pad the sentences with 0 to one length: integers (B, S)."
        try:
            source = np.asarray(source_ids)
        except ValueError as error:  # NumPy raises this error for lists of different lengths
            received = f"{type(self).__name__} received `source_ids` that are not an array"
            raise ValueError(f"{received}: {error}. {hint}") from None
        if source.ndim != 2 or not (np.issubdtype(source.dtype, np.integer) or not source.size):
            self._refuse("source_ids", "integers (B, S)", f"{source.dtype} {source.shape}", hint)
        empty = np.flatnonzero(~np.any(source != PAD, axis=1))
        if len(empty):
            hint = "Remove these sentences; even an empty sentence has its end token, 2."
            self._refuse("source_ids", "sentences with ids", f"only padding in rows {empty[:5].tolist()}", hint)
        settings = self.model.get_config()
        vocabulary, positions = settings["input_vocab_size"], settings["max_positional_encoding_input"]
        if source.size and not (source.min() >= 0 and source.max() < vocabulary):
            expected = f"ids from 0 to {vocabulary - 1}"
            hint = "Encode the text with the tokenizer that the model was trained with."
            self._refuse("source_ids", expected, f"ids from {source.min()} to {source.max()}", hint)
        if source.shape[1] > positions:
            expected = f"at most {positions} positions (S)"
            hint = "Split the sentence, or make the model with a larger `max_positional_encoding_input`."
            self._refuse("source_ids", expected, f"{source.shape[1]} positions", hint)
        return source.astype("int32")

    def _check_model(self, model: Any) -> None:
        if not all(hasattr(model, name) for name in ("start_cache", "step")):
            hint = "Pass the model itself, as kmha.layers.Transformer(...) returns it."
            self._refuse("model", "a kmha.layers.Transformer", type(model).__name__, hint)
        settings = model.get_config()
        if settings["pad_id"] != PAD:
            hint = "Make the model with pad_id=0."
            self._refuse("model", "a model whose padding is 0", f"a model with pad_id={settings['pad_id']}", hint)
        if settings["target_vocab_size"] <= END + 1:
            hint = "0 is padding, 1 is start and 2 is end, so `target_vocab_size` must be at least 4."
            received = f"a model with target_vocab_size={settings['target_vocab_size']}"
            self._refuse("model", "a model with a token besides padding, start and end", received, hint)

    def _refuse(self, argument: str, expected: str, received: str, hint: str) -> NoReturn:
        raise ValueError(
            f"{type(self).__name__} received an invalid value for argument `{argument}`, expected {expected}. "
            f"Received: {received}. {hint}"
        )
