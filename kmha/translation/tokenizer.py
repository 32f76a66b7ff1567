"""Byte pair encoding with one vocabulary for both languages, with the `tokenizers` library."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kmha import atomic_files
from kmha.regular_files import read_regular
from kmha.sandbox.control_characters import visible

if TYPE_CHECKING:
    import tokenizers

PAD, START, END, UNKNOWN = range(4)
SPECIAL = ("[PAD]", "[START]", "[END]", "[UNK]")
SPACE = "▁"  # starts a word, as in SentencePiece
UNKNOWN_TEXT = "⁇"  # stands for one or more characters that the vocabulary does not have, as in SentencePiece
OFTEN = 2  # minimum number of occurrences of a character in the training text, to be in the vocabulary
MAXIMUM_FILE = 64 << 20  # bytes
MAXIMUM_PARTS = 4 << 20  # brackets and commas of a file. Each token takes four
_RULES = ("normalizer", "pre_tokenizer", "post_processor", "decoder", "model")  # of a file, beside what was learnt

# With several threads, a process that forks after encoding would warn, and could hang. A single thread encodes 29,000
# sentences in a second.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


class TokenizerError(ValueError):
    """Raised if a tokenizer cannot be trained, loaded or used. The message says how to fix it."""


class Tokenizer:
    """Converts text to token ids and back.

    The tokenizer normalizes text to Unicode's NFC and every run of white space (including U+2581) to one space. It
    splits the text into words and punctuation, and words into subwords of the vocabulary. If the vocabulary has all
    characters of a text, `decode` returns exactly the normalized text. A run of other characters becomes a single
    [UNK], which `decode` writes as `⁇`. There is no fallback to bytes, because a byte that occurs in no training
    sentence would have an untrained embedding. A character that occurs only once in the training text is unknown, so
    that the embedding of [UNK] is trained. If a text contains the name of a special token, the name is ordinary text.

    The special tokens are 0 [PAD], 1 [START], 2 [END] and 3 [UNK].

    >>> tokenizer = Tokenizer.train(["two dogs run", "two cats run"] * 2, vocabulary_size=30)
    >>> tokenizer.tokens(tokenizer.encode(["two dogs"])[0])
    ['▁two', '▁dogs']
    >>> tokenizer.decode(tokenizer.encode(["cats run  two dogs"])[0])
    'cats run two dogs'
    >>> tokenizer.decode(tokenizer.encode(["two 犬犬"])[0])
    'two ⁇'
    """

    def __init__(self, tokenizer: "tokenizers.Tokenizer") -> None:
        """Wrap a tokenizer of the library. Users call `train` or `load` instead."""
        # A file could contain these settings, which would be wrong for a model.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True  # the text [END] is ordinary text
        self._tokenizer = tokenizer
        vocabulary = tokenizer.get_vocab()
        self._tokens = sorted(vocabulary, key=vocabulary.__getitem__)

    @classmethod
    def train(
        cls, texts: Iterable[str], vocabulary_size: int, *, lowercase: bool = False, split_digits: bool = False
    ) -> "Tokenizer":
        """Return a tokenizer with a vocabulary learnt from texts. The same texts always give the same vocabulary.

        Args:
            texts: Texts in all languages that the tokenizer will be used for.
            vocabulary_size: Maximum size of the vocabulary, including special tokens and characters.
            lowercase: Lowercase all text.
            split_digits: Make every digit a token, so that models read and write numbers digit by digit.

        Raises:
            TokenizerError: The vocabulary is too small for the characters, or there is no text.
        """
        library = _library()
        texts = list(texts)
        tokenizer = _untrained(library, lowercase, split_digits)
        characters = _characters(texts, tokenizer.normalizer)
        often = sum(count >= OFTEN for count in characters.values())
        if not often:
            raise TokenizerError("expected text for the vocabulary. Received: no text, or no character twice.")
        if vocabulary_size < often + len(SPECIAL):
            raise TokenizerError(
                f"the text has {often} characters, and there are {len(SPECIAL)} special tokens: vocabulary_size must "
                f"be at least {often + len(SPECIAL)}. Received: {vocabulary_size}."
            )
        trainer = library.trainers.BpeTrainer(
            vocab_size=vocabulary_size, special_tokens=list(SPECIAL), limit_alphabet=often, show_progress=False
        )
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer)

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Return the tokenizer in a file that `save` has written. The file may come from someone who is not trusted.

        Raises:
            TokenizerError: The file is missing, broken, or not a tokenizer of kmha.
        """
        library = _library()
        try:
            tokenizer = _from_json(library, read_regular(path, MAXIMUM_FILE).decode())
        except OSError as error:
            raise TokenizerError(f"{path} cannot be read: {error.strerror or error}.") from None
        except TokenizerError as error:
            raise TokenizerError(f"{path}{error}") from None
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # the library raises `Exception`, and a panic in Rust raises `BaseException`
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise TokenizerError(f"{path} is not a tokenizer: {visible(first[:200])}.") from None
        return cls(tokenizer)

    def save(self, path: Path) -> None:
        """Write the tokenizer as a JSON file, which the `tokenizers` library can read too."""
        atomic_files.write_text(path, self._tokenizer.to_str(pretty=True) + "\n")

    @property
    def vocabulary_size(self) -> int:
        """The number of token ids, including special tokens."""
        return len(self._tokens)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of every text, without start and end tokens.

        Raises:
            TokenizerError: `texts` is a single text instead of a list.
        """
        if isinstance(texts, str):
            raise TokenizerError(f"encode expects a list of texts. Received one text; write encode([{texts[:20]!r}]).")
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def words(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the words and punctuation marks of every text, which the merges then split into subwords."""
        normalized = map(self._tokenizer.normalizer.normalize_str, texts)
        return [[word for word, _ in self._tokenizer.pre_tokenizer.pre_tokenize_str(text)] for text in normalized]

    @property
    def ids(self) -> dict[str, int]:
        """The id of every token."""
        return self._tokenizer.get_vocab()

    @property
    def merges(self) -> dict[tuple[str, str], int]:
        """The pairs of subwords that are merged, with their rank. The pair of the lowest rank is merged first."""
        return {tuple(pair): rank for rank, pair in enumerate(json.loads(self._tokenizer.to_str())["model"]["merges"])}

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of token ids, without padding, start and end tokens, and with `⁇` for unknown characters.

        Raises:
            TokenizerError: An id is not in the vocabulary.
        """
        shown = (index for index in ids if index not in (PAD, START, END))
        texts = [UNKNOWN_TEXT if index == UNKNOWN else self._token(index) for index in shown]
        return "".join(texts).replace(SPACE, " ").strip()

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the token of every id, for labels. `▁` marks the start of a word, and special tokens have names."""
        return [self._token(index) for index in ids]

    def _token(self, index: int) -> str:
        if not 0 <= index < len(self._tokens):
            raise TokenizerError(f"the vocabulary has ids from 0 to {len(self._tokens) - 1}. Received: {index}.")
        return self._tokens[index]


def _library() -> Any:
    try:
        import tokenizers
    except ModuleNotFoundError:
        raise TokenizerError("tokenizers is not installed. Run: pip install 'kmha[translate]'") from None
    return tokenizers


def _model(library: Any, **learnt: Any) -> Any:
    return library.models.BPE(unk_token=SPECIAL[UNKNOWN], fuse_unk=True, **learnt)


def _untrained(library: Any, lowercase: bool, split_digits: bool) -> Any:
    normalizers, pre_tokenizers = library.normalizers, library.pre_tokenizers
    tokenizer = library.Tokenizer(_model(library))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFC(),
            *([normalizers.Lowercase()] if lowercase else []),
            normalizers.Replace(library.Regex(rf"[\s{SPACE}]+"), " "),
            normalizers.Strip(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always"),
            # This way, a word has the same tokens before a full stop as elsewhere.
            pre_tokenizers.Punctuation(behavior="isolated"),
            *([pre_tokenizers.Digits(individual_digits=True)] if split_digits else []),
        ]
    )
    tokenizer.decoder = library.decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    return tokenizer


def _from_json(library: Any, text: str) -> Any:
    """Return the tokenizer in a file's text, built anew from the vocabulary and the merges, all that kmha learns.

    The library would obey everything in an untrusted file. A text can grow without end by a file's rules, or a regular
    expression take years, while Ctrl-C waits.
    """
    if sum(map(text.count, "[{,")) > MAXIMUM_PARTS:
        raise TokenizerError(f" is too large: it has more than {MAXIMUM_PARTS:,} brackets and commas.")
    found = json.loads(text)
    model = found["model"]
    vocabulary, merges = model.pop("vocab"), model.pop("merges")
    if not all(type(index) is int for index in vocabulary.values()):
        raise TokenizerError(": the ids of the vocabulary must be whole numbers.")
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise TokenizerError(": the ids of the vocabulary must run from 0 without gaps.")
    if sorted(vocabulary, key=vocabulary.__getitem__)[: len(SPECIAL)] != list(SPECIAL):
        raise TokenizerError(f": the first tokens of the vocabulary must be {' '.join(SPECIAL)}.")
    for lowercase, split_digits in product((False, True), repeat=2):
        tokenizer = _untrained(library, lowercase, split_digits)
        ours = json.loads(tokenizer.to_str())
        if all(_agree(found.get(part), ours[part]) for part in _RULES):
            pairs = [tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in merges]
            tokenizer.model = _model(library, vocab=vocabulary, merges=pairs)
            tokenizer.add_special_tokens(list(SPECIAL))
            return tokenizer
    rules = ", ".join(_RULES)
    raise TokenizerError(
        f" was not written by kmha: it has other rules than kmha's ({rules}). Copy the file again, or train again."
    )


def _agree(found: Any, ours: Any) -> bool:
    """Return whether a part of a file is as in ours. Versions of the library write more fields or fewer."""
    if isinstance(ours, dict) and isinstance(found, dict):
        return found.get("type") == ours.get("type") and all(
            _agree(found[key], ours[key]) for key in found if key in ours
        )
    if isinstance(ours, list) and isinstance(found, list):
        return len(found) == len(ours) and all(map(_agree, found, ours))
    return type(found) is type(ours) and found == ours


def _characters(texts: Iterable[str], normalizer: Any) -> Counter[str]:
    """Count the characters of normalized text.

    The library counts characters too, but drops rare characters in the order of its hash table. Keeping all characters
    with a minimum count makes training reproducible.
    """
    characters: Counter[str] = Counter()
    for text in texts:
        words = normalizer.normalize_str(text)
        characters.update(words.replace(" ", SPACE))
        characters[SPACE] += bool(words)  # the library adds it before the first word
    return characters
