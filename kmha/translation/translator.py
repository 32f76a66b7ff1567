"""A model folder that answers: text in, translations out, and what the model looked at."""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from kmha.translation import batches, folder
from kmha.translation.decoding import Search, usual_length
from kmha.translation.search import Beam, Greedy, Hypothesis, Sampling
from kmha.translation.settings import SearchSettings
from kmha.translation.tokenizer import END, START, UNKNOWN, Tokenizer

BATCH_TOKENS = 2048  # of the sources of a batch, with their padding
SEARCHES = {"beam": Beam, "greedy": Greedy, "sampling": Sampling}

Note = Callable[[int, str], Any]  # the index of a text, and what is to be said of it


@dataclasses.dataclass(frozen=True)
class Translation:
    """One of a text.

    `score` is what the search ranks by, `log_probability` that of the whole translation, its end included. Where the
    search stopped for want of room, `finished` is false. `ids` are the tokens, without start and end.
    """

    text: str
    score: float
    log_probability: float
    finished: bool
    ids: tuple[int, ...] = dataclasses.field(default=(), repr=False)


@dataclasses.dataclass(frozen=True)
class Attention:
    """What every head of every block looked at for one pair of sentences.

    `scores` maps `encoder_layer{i}_self_att` to an array (H, S, S), `decoder_layer{i}_block1_self_att` to (H, T, T) and
    `decoder_layer{i}_block2_decenc_att` to (H, T, S), all float32, i from 1. S goes with `source`. In row t the decoder
    has read `target_in[: t + 1]` and says `target_out[t]`.
    """

    source: list[str]
    target_in: list[str]
    target_out: list[str]
    scores: dict[str, np.ndarray]

    def heads(self, layer: int = -1) -> np.ndarray:
        """The decoder's scores over the source, (H, T, S), of a layer counted from 1, or backwards from -1.

        Raises:
            ValueError: there is no such layer.
        """
        names = [name for name in self.scores if name.endswith("block2_decenc_att")]
        return self.scores[names[_index(layer, len(names), "layers")]]

    def cross(self, layer: int = -1, head: int | None = None) -> np.ndarray:
        """The same of one head, counted from 1, or of all heads on average: (T, S).

        Raises:
            ValueError: there is no such layer or head.
        """
        scores = self.heads(layer)
        return scores.mean(axis=0) if head is None else scores[_index(head, len(scores), "heads")]


class Translator:
    """Translates with a model and its tokenizer.

    Args:
        model: a `kmha.layers.Transformer` that gives logits.
        tokenizer: of both languages.
        settings: of the search, unless a call says otherwise; `None` means those of the search methods.
        config: of the model folder, where there is one.

    Source: issue #4.

    Example:

    >>> from kmha.layers import Transformer
    >>> tokenizer = Tokenizer.train(["two dogs run", "zwei Hunde laufen"] * 2, vocabulary_size=90)
    >>> size = tokenizer.vocabulary_size
    >>> translator = Translator(Transformer(1, 8, 2, 12, size, size, 16, 16, final_activation=None), tokenizer)
    >>> translator.translate([""])
    [[Translation(text='', score=0.0, log_probability=0.0, finished=True)]]
    >>> translator.attention("two dogs", "zwei Hunde").cross().shape
    (3, 3)
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        settings: SearchSettings | None = None,
        config: folder.Config | None = None,
    ) -> None:
        self.model, self.tokenizer, self.settings, self.config = model, tokenizer, settings, config
        sizes = model.get_config()
        self._source_positions = sizes["max_positional_encoding_input"]
        self._target_positions = sizes["max_positional_encoding_target"]
        self._searches: dict[tuple[Any, ...], Search] = {}

    @classmethod
    def load(cls, path: str | Path, step: int | None = None) -> "Translator":
        """The translator that `kmha train --out path` has made.

        Args:
            path: the model folder.
            step: of the training, whose weights it kept; `None` means the finished model.

        Raises:
            kmha.translation.folder.FolderError: the folder has no such model, or not a whole one.
        """
        model, tokenizer, config = folder.load(path, step)
        return cls(model, tokenizer, config.settings.search, config)

    def translate(
        self,
        texts: Sequence[str],
        search: str = "beam",
        *,
        batch_tokens: int = BATCH_TOKENS,
        note: Note | None = None,
        progress: Callable[[int], Any] = lambda done: None,
        **options: Any,
    ) -> list[list[Translation]]:
        """The translations of each text, best first.

        Args:
            texts: one sentence each; one without words has the empty translation.
            search: `"beam"`, `"greedy"` or `"sampling"`.
            batch_tokens: how many tokens the sources of a batch have at most, padding included; texts of about one
                length share a batch.
            note: is told the index of a text and what is to be said of it: characters that the model doesn't know, a
                source that was cut off, a translation without an end; `None` warns.
            progress: is told how many texts are done, after each batch.
            **options: of the search, such as `beam_size`, `n_best`, `length_penalty` for the beam.

        Raises:
            ValueError: there is no such search, or it has no such option.

        Returns:
            A list for each text, in their order.
        """
        said: list[tuple[int, str]] = []
        run = self._search(search, options)
        ids = self._read(texts, said)
        found: list[list[Translation]] = [[Translation("", 0.0, 0.0, True)]] * len(texts)
        rows_with_words = [row for row, one in enumerate(ids) if one]
        done = len(texts) - len(rows_with_words)
        for rows, source in batches.in_order([ids[row] for row in rows_with_words], tokens=batch_tokens):
            for row, hypotheses in zip(rows, run(source), strict=True):
                found[rows_with_words[row]] = [self._written(one) for one in hypotheses]
            done += len(rows)
            progress(done)
        for row, (best, *_) in enumerate(found):
            if not best.finished:
                said.append(
                    (row, f"its translation was cut off after {len(best.ids)} tokens, before it came to an end.")
                )
        _tell(said, note)
        return found

    def attention(self, source: str, target: str | Translation | None = None, *, note: Note | None = None) -> Attention:
        """The scores of every block for one sentence.

        Args:
            source: a sentence with at least one word.
            target: its translation, the model's own or any other; `None` has the model translate greedily.
            note: as in `translate`.

        Raises:
            ValueError: the source has no words.
        """
        said: list[tuple[int, str]] = []
        [ids] = self._read([source], said)
        _tell(said, note)
        if not ids:
            raise ValueError(f"attention needs a sentence with at least one word. Received: {source!r}.")
        if target is None:
            target = self.translate([source], "greedy", note=lambda row, text: None)[0][0]
        if isinstance(target, str):
            target = Translation(target, 0.0, 0.0, True, tuple(self.tokenizer.encode([target])[0]))
        read = [*ids, END]
        written = [*target.ids, *([END] if target.finished else [])][: self._target_positions]
        before = [START, *written[:-1]]
        source_ids = np.array([read], "int32")
        _, encoder = self.model.encode(source_ids, return_attention_scores=True)
        _, decoder = self.model((source_ids, np.array([before], "int32")), return_attention_scores=True)
        scores = {
            name: ops.convert_to_numpy(ops.cast(one[0], "float32")) for name, one in {**encoder, **decoder}.items()
        }
        name = self.tokenizer.tokens
        return Attention(name(read), name(before), name(written), scores)

    def _search(self, name: str, options: Mapping[str, Any]) -> Search:
        """Kept, for a search is compiled once, whatever the lengths."""
        if name not in SEARCHES:
            raise ValueError(f"search must be one of {', '.join(map(repr, SEARCHES))}. Received: {name!r}.")
        key = (name, *sorted(options.items()))
        if key not in self._searches:
            self._searches[key] = SEARCHES[name](self.model, **{**self._defaults(name, options), **options})
        return self._searches[key]

    def _defaults(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        settings = self.settings
        if settings is None:
            return {}
        defaults = {"max_length": lambda length: min(usual_length(length), settings.max_length)}
        if name == "beam":
            size = max(settings.beam_size, options.get("n_best", 1))
            return {**defaults, "beam_size": size, "length_penalty": settings.length_penalty}
        return defaults

    def _read(self, texts: Sequence[str], said: list[tuple[int, str]]) -> list[list[int]]:
        """The ids of each text, without its end, that the model can read; what there is to be said goes to `said`."""
        room = self._source_positions - 1  # besides the end
        encoded = self.tokenizer.encode(texts)
        for row, (text, ids) in enumerate(zip(texts, encoded, strict=True)):
            if UNKNOWN in ids:
                unknown = [one for one in dict.fromkeys(text) if UNKNOWN in self.tokenizer.encode([one])[0]]
                said.append((row, f"the model has never seen {' '.join(map(repr, unknown)) or 'some characters'}."))
            if len(ids) > room:
                said.append((row, f"it has {len(ids)} tokens; the model can read {room}, and the rest is left out."))
        return [ids[:room] for ids in encoded]

    def _written(self, one: Hypothesis) -> Translation:
        return Translation(self.tokenizer.decode(one.ids), one.score, one.log_probability, one.finished, tuple(one.ids))


def _index(number: int, count: int, what: str) -> int:
    """From 1, or from -1 backwards, to an index."""
    if not 1 <= abs(number) <= count:
        raise ValueError(f"there are {count} {what}, counted from 1. Received: {number}.")
    return number - 1 if number > 0 else number


def _tell(said: list[tuple[int, str]], note: Note | None) -> None:
    """To `note`, in the order of the texts, or as warnings of whoever called the translator."""
    for row, text in sorted(said, key=lambda one: one[0]):
        if note is None:
            warnings.warn(f"text {row}: {text}", stacklevel=3)
        else:
            note(row, text)
