"""`Translator`, which translates texts with the model of a folder, and returns its attention scores."""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from kmha.translation import batches, folder
from kmha.translation.search import DEFAULT, METHODS, Hypothesis, SearchMethod
from kmha.translation.tokenizer import END, START, UNKNOWN, Tokenizer

BATCH_TOKENS = 2048  # maximum number of source tokens in a batch, including padding

OnWarning = Callable[[int, str], Any]  # called with the index of a text and a message


@dataclasses.dataclass(frozen=True)
class Translation:
    """A translation of one text."""

    text: str
    score: float  # value by which the search ranks translations
    log_probability: float  # log probability of the translation, including its end token
    finished: bool  # whether it has an end token, because it did not reach the search's limit
    ids: tuple[int, ...] = dataclasses.field(default=(), repr=False)  # token ids without start and end tokens


@dataclasses.dataclass(frozen=True)
class Attention:
    """The attention scores of every head of every block, for one sentence and its translation.

    `scores` maps `encoder_layer{i}_self_att` to arrays (H, S, S), `decoder_layer{i}_block1_self_att` to (H, T, T) and
    `decoder_layer{i}_block2_decenc_att` to (H, T, S), all float32, with i from 1. The S axis has the tokens of
    `source`. In row t of the T axis, the decoder has read `target_in[: t + 1]` and predicts `target_out[t]`.
    """

    source: list[str]
    target_in: list[str]
    target_out: list[str]
    scores: dict[str, np.ndarray]

    def heads(self, layer: int = -1) -> np.ndarray:
        """Return the scores (H, T, S) of a decoder layer over the source. Layers count from 1, or backwards from -1.

        Raises:
            ValueError: The layer does not exist.
        """
        names = [name for name in self.scores if name.endswith("block2_decenc_att")]
        return self.scores[names[_index(layer, len(names), "layers")]]

    def cross(self, layer: int = -1, head: int | None = None) -> np.ndarray:
        """Return the scores (T, S) of a decoder layer over the source, for one head counted from 1, or averaged.

        Raises:
            ValueError: The layer or the head does not exist.
        """
        scores = self.heads(layer)
        return scores.mean(axis=0) if head is None else scores[_index(head, len(scores), "heads")]


class Translator:
    """Translates with a model and its tokenizer.

    Args:
        model: A `kmha.layers.Transformer` that returns logits.
        tokenizer: Tokenizer of both languages.
        settings: Defaults of the search options. `None` means the defaults of the search methods.
        config: Config of the model folder, if the model comes from a folder.

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
        self, model: Any, tokenizer: Tokenizer, settings: Any = None, config: folder.Config | None = None
    ) -> None:
        self.model, self.tokenizer, self.settings, self.config = model, tokenizer, settings, config
        sizes = model.get_config()
        self._source_positions = sizes["max_positional_encoding_input"]
        self._target_positions = sizes["max_positional_encoding_target"]
        self._searches: dict[tuple[Any, ...], SearchMethod] = {}

    @classmethod
    def load(cls, path: str | Path, step: int | None = None) -> "Translator":
        """Return a translator with the model that `kmha train --out path` has trained.

        Args:
            path: Model folder.
            step: Training step whose weights to use, if they were kept. `None` means the finished model.

        Raises:
            kmha.translation.folder.FolderError: The folder does not have such a model, or is incomplete.
        """
        model, tokenizer, config = folder.load(path, step)
        return cls(model, tokenizer, config.settings.search, config)

    def translate(
        self,
        texts: Sequence[str],
        search: str = DEFAULT,
        *,
        batch_tokens: int = BATCH_TOKENS,
        note: OnWarning | None = None,
        progress: Callable[[int], Any] = lambda done: None,
        **options: Any,
    ) -> list[list[Translation]]:
        """Return the translations of each text, best first.

        Args:
            texts: Texts of one sentence each. The translation of a text without words is empty.
            search: Search method: `"beam"`, `"greedy"` or `"sampling"`.
            batch_tokens: Maximum number of source tokens in a batch, including padding. Texts of similar length share a
                batch.
            note: Function to call with (index, message) for each warning about a text: unknown characters, a truncated
                source, or an unfinished translation. `None` issues Python warnings.
            progress: Function to call with the number of translated texts after each batch.
            **options: Search options, such as `beam_size`, `n_best` and `length_penalty` for beam search.

        Raises:
            ValueError: There is no such search method, or an option is invalid.

        Returns:
            Lists of translations, one list for each text, in the order of the texts.
        """
        notes: list[tuple[int, str]] = []
        searcher = self._search(search, options)
        ids = self._read(texts, notes)
        found: list[list[Translation]] = [[Translation("", 0.0, 0.0, True)]] * len(texts)
        rows_with_words = [row for row, one in enumerate(ids) if one]
        done = len(texts) - len(rows_with_words)
        for rows, source in batches.inference_batches([ids[row] for row in rows_with_words], tokens=batch_tokens):
            for row, hypotheses in zip(rows, searcher(source), strict=True):
                found[rows_with_words[row]] = [self._translation(one) for one in hypotheses]
            done += len(rows)
            progress(done)
        for row, (best, *_) in enumerate(found):
            if not best.finished:
                notes.append((row, f"the translation was truncated after {len(best.ids)} tokens."))
        _report(notes, note)
        return found

    def attention(
        self, source: str, target: str | Translation | None = None, *, note: OnWarning | None = None
    ) -> Attention:
        """Return the attention scores of every block for one sentence.

        Args:
            source: Sentence with at least one word.
            target: Translation of the sentence, by the model or not. `None` lets the model translate greedily.
            note: As in `translate`.

        Raises:
            ValueError: The source has no words.
        """
        notes: list[tuple[int, str]] = []
        [ids] = self._read([source], notes)
        _report(notes, note)
        if not ids:
            raise ValueError(f"attention needs a sentence with at least one word. Received: {source!r}.")
        if target is None:
            target = self.translate([source], "greedy", note=lambda row, text: None)[0][0]
        if isinstance(target, str):
            target = Translation(target, 0.0, 0.0, True, tuple(self.tokenizer.encode([target])[0]))
        source_ids = [*ids, END]
        target_out = [*target.ids, *([END] if target.finished else [])][: self._target_positions]
        target_in = [START, *target_out[:-1]]
        inputs = np.array([source_ids], "int32")
        _, encoder = self.model.encode(inputs, return_attention_scores=True)
        _, decoder = self.model((inputs, np.array([target_in], "int32")), return_attention_scores=True)
        both = {**encoder, **decoder}
        scores = {name: ops.convert_to_numpy(ops.cast(one[0], "float32")) for name, one in both.items()}
        tokens = self.tokenizer.tokens
        return Attention(tokens(source_ids), tokens(target_in), tokens(target_out), scores)

    def _search(self, name: str, options: Mapping[str, Any]) -> SearchMethod:
        """Return a search method with these options. It is kept, so that later calls do not compile it again."""
        if name not in METHODS:
            raise ValueError(f"search must be one of {', '.join(map(repr, METHODS))}. Received: {name!r}.")
        key = (name, *sorted(options.items()))
        if key not in self._searches:
            self._searches[key] = METHODS[name](self.model, **METHODS[name].arguments(self.settings, options))
        return self._searches[key]

    def _read(self, texts: Sequence[str], notes: list[tuple[int, str]]) -> list[list[int]]:
        """Return the ids of each text without end token, cut to what the model can read. Add warnings to `notes`."""
        room = self._source_positions - 1  # one position is for the end token
        encoded = self.tokenizer.encode(texts)
        for row, (text, ids) in enumerate(zip(texts, encoded, strict=True)):
            if UNKNOWN in ids:
                unknown = [one for one in dict.fromkeys(text) if UNKNOWN in self.tokenizer.encode([one])[0]]
                notes.append((row, f"the model does not know {' '.join(map(repr, unknown)) or 'some characters'}."))
            if len(ids) > room:
                notes.append((row, f"the text has {len(ids)} tokens; the model reads only the first {room}."))
        return [ids[:room] for ids in encoded]

    def _translation(self, one: Hypothesis) -> Translation:
        return Translation(self.tokenizer.decode(one.ids), one.score, one.log_probability, one.finished, tuple(one.ids))


def _index(number: int, count: int, what: str) -> int:
    """Return the index for a number counted from 1, or backwards from -1."""
    if not 1 <= abs(number) <= count:
        raise ValueError(f"there are {count} {what}, counted from 1. Received: {number}.")
    return number - 1 if number > 0 else number


def _report(notes: list[tuple[int, str]], note: OnWarning | None) -> None:
    """Pass the notes to `note` in the order of the texts, or issue them as warnings at the translator's caller."""
    for row, text in sorted(notes, key=lambda one: one[0]):
        if note is None:
            warnings.warn(f"text {row}: {text}", stacklevel=3)
        else:
            note(row, text)
