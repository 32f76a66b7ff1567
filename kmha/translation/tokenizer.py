"""Byte pair encoding with one vocabulary for both languages, over the `tokenizers` library."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kmha import files

if TYPE_CHECKING:
    import tokenizers

PAD, START, END, UNKNOWN = range(4)
SPECIAL = ("[PAD]", "[START]", "[END]", "[UNK]")
SPACE = "▁"  # what a word begins with, as SentencePiece writes it
UNKNOWN_TEXT = "⁇"  # likewise: one character, or several in a row, that the vocabulary does not have
OFTEN = 2  # a character of the training text belongs to the vocabulary if it occurs so many times
MAXIMUM_FILE = 64 << 20  # bytes

# A process that forks after threads have encoded would warn and, told to go on with threads, could hang. One thread
# encodes 29,000 sentences in a second.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


class TokenizerError(ValueError):
    """A tokenizer cannot be trained, loaded or used: what was received, and how to mend it."""


class Tokenizer:
    """Text to token ids and back.

    Text is brought to Unicode's NFC and every run of white space (U+2581 counts as one) to one space; it is split into
    words and at punctuation, and words into the pieces of the vocabulary. `decode` gives that text back exactly, as
    long as the vocabulary has all its characters. Characters that it does not have become one [UNK] for a run of them,
    written `⁇`. [UNK] is a token that training meets, and not a fallback to bytes, because a byte that no training
    sentence holds has an embedding that nothing has trained; this is also why a character which occurs only once in
    the training text is unknown. What looks like a special token in a text is text.

    Ids: 0 [PAD], 1 [START], 2 [END], 3 [UNK].

    >>> tokenizer = Tokenizer.train(["two dogs run", "two cats run"] * 2, vocabulary_size=30)
    >>> tokenizer.tokens(tokenizer.encode(["two dogs"])[0])
    ['▁two', '▁dogs']
    >>> tokenizer.decode(tokenizer.encode(["cats run  two dogs"])[0])
    'cats run two dogs'
    >>> tokenizer.decode(tokenizer.encode(["two 犬犬"])[0])
    'two ⁇'
    """

    def __init__(self, tokenizer: "tokenizers.Tokenizer") -> None:
        """Takes what `train` or `load` have made; see there."""
        # None of these is right in a model's vocabulary, and a file could bring them.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True  # what reads [END] is not one
        self._tokenizer = tokenizer
        vocabulary = tokenizer.get_vocab()
        self._pieces = sorted(vocabulary, key=vocabulary.__getitem__)

    @classmethod
    def train(
        cls, texts: Iterable[str], vocabulary_size: int, *, lowercase: bool = False, split_digits: bool = False
    ) -> "Tokenizer":
        """Learns the vocabulary from texts, of both languages if it is to serve both; the same texts give the same.

        Args:
            texts: any number of them.
            vocabulary_size: of the whole, special tokens and characters included; less is made of little text.
            lowercase: all text is written small.
            split_digits: every digit is a token, so that numbers are read and written digit by digit.

        Raises:
            TokenizerError: the vocabulary cannot hold the characters, or there is no text.
        """
        library = _library()
        texts = list(texts)
        tokenizer = _untrained(library, lowercase, split_digits)
        characters = _characters(texts, tokenizer.normalizer)
        often = sum(count >= OFTEN for count in characters.values())
        if not often:
            raise TokenizerError("The vocabulary is learned from text. Received: none, or no character twice.")
        if vocabulary_size < often + len(SPECIAL):
            raise TokenizerError(
                f"The text has {often} characters, and there are {len(SPECIAL)} special tokens: vocabulary_size must "
                f"be at least {often + len(SPECIAL)}. Received: {vocabulary_size}."
            )
        trainer = library.trainers.BpeTrainer(
            vocab_size=vocabulary_size, special_tokens=list(SPECIAL), limit_alphabet=often, show_progress=False
        )
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer)

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Reads what `save` has written.

        Raises:
            TokenizerError: the file is missing, broken, or not a tokenizer of ours.
        """
        library = _library()
        try:
            if path.stat().st_size > MAXIMUM_FILE:
                raise TokenizerError(f"{path}: a tokenizer has at most {MAXIMUM_FILE >> 20} MiB.")
            tokenizer = library.Tokenizer.from_buffer(path.read_bytes())
        except OSError as error:
            raise TokenizerError(f"{path} cannot be read: {error.strerror or error}.") from None
        except TokenizerError:
            raise
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # the library raises plain `Exception`, and what panics in Rust is not even one
            raise TokenizerError(f"{path} is not a tokenizer: {str(error).splitlines()[0]}.") from None
        vocabulary = tokenizer.get_vocab()
        if sorted(vocabulary.values()) != list(range(len(vocabulary))):
            raise TokenizerError(f"{path}: the ids of the vocabulary do not run from 0 without gaps.")
        if [tokenizer.id_to_token(index) for index in range(len(SPECIAL))] != list(SPECIAL):
            raise TokenizerError(f"{path}: the first tokens of the vocabulary must be {' '.join(SPECIAL)}.")
        return cls(tokenizer)

    def save(self, path: Path) -> None:
        """Writes all that `load` needs as one JSON file, which the `tokenizers` library reads too."""
        files.write_text(path, self._tokenizer.to_str(pretty=True) + "\n")

    @property
    def vocabulary_size(self) -> int:
        """How many token ids there are, special ones included."""
        return len(self._pieces)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of every text, without start and end.

        Raises:
            TokenizerError: one text where a list of them is expected.
        """
        if isinstance(texts, str):
            raise TokenizerError(f"encode takes a list of texts. Received one text; write encode([{texts[:20]!r}]).")
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids; padding, start and end are left out, and what is unknown is written `⁇`.

        Raises:
            TokenizerError: an id that the vocabulary does not have.
        """
        pieces = [
            UNKNOWN_TEXT if index == UNKNOWN else self._piece(index) for index in ids if index not in (PAD, START, END)
        ]
        return "".join(pieces).replace(SPACE, " ").strip()

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The piece of every id, as pictures label it: `▁` begins a word, and special tokens have their names.

        Raises:
            TokenizerError: an id that the vocabulary does not have.
        """
        return [self._piece(index) for index in ids]

    def _piece(self, index: int) -> str:
        if not 0 <= index < len(self._pieces):
            raise TokenizerError(f"The vocabulary has ids from 0 to {len(self._pieces) - 1}. Received: {index}.")
        return self._pieces[index]


def _library() -> Any:
    try:
        import tokenizers
    except ModuleNotFoundError:
        raise TokenizerError("tokenizers is not installed. Run: pip install 'kmha[translate]'") from None
    return tokenizers


def _untrained(library: Any, lowercase: bool, split_digits: bool) -> Any:
    normalizers, pre_tokenizers = library.normalizers, library.pre_tokenizers
    tokenizer = library.Tokenizer(library.models.BPE(unk_token=SPECIAL[UNKNOWN], fuse_unk=True))
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
            # A word is the same tokens before a full stop as elsewhere.
            pre_tokenizers.Punctuation(behavior="isolated"),
            *([pre_tokenizers.Digits(individual_digits=True)] if split_digits else []),
        ]
    )
    tokenizer.decoder = library.decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    return tokenizer


def _characters(texts: Iterable[str], normalizer: Any) -> Counter[str]:
    """How often each occurs in what the words are made of.

    The library counts too, but drops among the rarest as its hash table has them: a limit between two counts is what
    makes training the same every time.
    """
    characters: Counter[str] = Counter()
    for text in texts:
        words = normalizer.normalize_str(text)
        characters.update(words.replace(" ", SPACE))
        characters[SPACE] += bool(words)  # before the first word
    return characters
