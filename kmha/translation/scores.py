"""How good translations are: BLEU in three ways, chrF and exact matches, each with a signature that says how."""

import dataclasses
import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

CASED, LOWERCASED, AS_IN_PAPERS = "BLEU", "BLEU, lowercased", "BLEU, lowercased and tokenized"
CHRF, EXACT = "chrF2", "exact matches"


@dataclasses.dataclass(frozen=True)
class Score:
    """Of a corpus: what it is called, how much of 100 it is, and what it was computed with."""

    name: str
    value: float
    signature: str


class NotInstalled(ImportError):
    """A package of the extra `translate` is missing; the message says how to get it."""


def bleu(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> Score:
    """Corpus BLEU of plain text as sacreBLEU computes it, split into words as by `mteval-v13a`.

    Args:
        hypotheses: one translation for each reference, as people read it: not tokenized.
        references: what should have come out.
        lowercase: whether both are lowercased first.

    Raises:
        ValueError: there are none, or not as many of one as of the other.
        NotInstalled: without sacreBLEU.

    Source: Papineni et al., 2002; Post, "A Call for Clarity in Reporting BLEU Scores", 2018.

    Example:

    >>> score = bleu(["the cat sat on a mat ."], ["The cat sat on the mat."], lowercase=True)
    >>> round(score.value, 2), score.signature.split("|version")[0]
    (48.89, 'nrefs:1|case:lc|eff:no|tok:13a|smooth:exp')
    """
    metric = _package("sacrebleu").metrics.BLEU(lowercase=lowercase, force=True)
    return _score(LOWERCASED if lowercase else CASED, metric, hypotheses, references)


def bleu_as_in_papers(hypotheses: Sequence[str], references: Sequence[str], language: str) -> Score:
    """BLEU as papers on Multi30k report it: what `multi-bleu.perl` gives for lowercased, normalized, tokenized text.

    Both sides go through what the data set's own `task1-tokenize.sh` pipes them through, in its order: lowercasing,
    Moses' `normalize-punctuation.perl -l LANGUAGE`, and Moses' `tokenizer.perl -l LANGUAGE`, which also escapes `"` to
    `&quot;` and the like; both scripts in sacremoses' port. For the German and English test sets of 2016 and 2017 that
    gives files as long, to the character, as the tokenized ones that come with the data set. Then BLEU of the words
    between the spaces (tokenizer "none"), without smoothing, which is what `multi-bleu.perl` computes. The signature is
    sacreBLEU's with the steps before it put in.

    Args:
        hypotheses: one translation for each reference, as people read it: not tokenized.
        references: what should have come out, in the same form.
        language: of both, as in `"de"`; a language that Moses has no rules for is split as English is.

    Raises:
        ValueError: there are none, or not as many of one as of the other.
        NotInstalled: without sacreBLEU or sacremoses.

    Example:

    >>> score = bleu_as_in_papers(["Ein Hund läuft."], ["ein „Hund“ läuft ."], "de")
    >>> tokenized("Ein „Hund“ läuft.", "de")
    'ein &quot; hund &quot; läuft .'
    >>> score.signature.split("|version")[0]
    'nrefs:1|case:lc|eff:no|tok:none|smooth:none|norm:moses-de|split:moses-de'
    """
    metric = _package("sacrebleu").metrics.BLEU(tokenize="none", smooth_method="none", force=True)
    both = [[tokenized(text, language) for text in texts] for texts in (hypotheses, references)]
    details = {
        "case": "lc",
        "norm": f"moses-{language}",
        "split": f"moses-{language}",
        "version": f"{_package('sacrebleu').__version__}+sacremoses.{_package('sacremoses').__version__}",
    }
    return _score(AS_IN_PAPERS, metric, *both, **details)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """chrF2: the F-score of character n-grams up to 6, recall counting twice, as sacreBLEU computes it.

    Raises:
        ValueError: there are none, or not as many of one as of the other.
        NotInstalled: without sacreBLEU.

    Source: Popović, "chrF: character n-gram F-score for automatic MT evaluation", 2015.

    Example:

    >>> round(chrf(["abc"], ["abd"]).value, 2)
    38.89
    """
    return _score(CHRF, _package("sacrebleu").metrics.CHRF(), hypotheses, references)


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """How many percent are their reference, character for character, but for spaces at either end.

    Raises:
        ValueError: there are none, or not as many of one as of the other.

    Example:

    >>> exact_match(["2024-02-29", "2024-03-01"], ["2024-02-29", "2024-01-03"]).value
    50.0
    """
    _check(hypotheses, references)
    right = sum(one.strip() == other.strip() for one, other in zip(hypotheses, references, strict=True))
    return Score(EXACT, 100 * right / len(references), "case:mixed|spaces:stripped")


def every_score(
    hypotheses: Sequence[str], references: Sequence[str], language: str, exact: bool = False
) -> list[Score]:
    """All that are worth reading: for sentences the three BLEUs and chrF2, for dates and the like exact matches first.

    Args:
        hypotheses: one translation for each reference.
        references: what should have come out.
        language: the target's, for `bleu_as_in_papers`.
        exact: whether there is one right answer; then BLEU of tokenized text is left out, for it counts runs of four
            words, and such an answer has one.

    Raises:
        ValueError: there are none, or not as many of one as of the other.
        NotInstalled: without sacreBLEU or sacremoses.
    """
    if exact:
        return [score(hypotheses, references) for score in (exact_match, bleu, chrf)]
    return [
        bleu(hypotheses, references),
        bleu(hypotheses, references, lowercase=True),
        bleu_as_in_papers(hypotheses, references, language),
        chrf(hypotheses, references),
    ]


def tokenized(text: str, language: str) -> str:
    """`text` lowercased, with normalized punctuation, and split by Moses' rules; words with a space between."""
    return _moses(language)(text)


@functools.lru_cache(maxsize=8)
def _moses(language: str) -> Callable[[str], str]:
    sacremoses = _package("sacremoses")
    normalizer = sacremoses.MosesPunctNormalizer(language, perl_parity=True)
    tokenizer = sacremoses.MosesTokenizer(language)
    return lambda text: tokenizer.tokenize(normalizer.normalize(text.lower()), return_str=True)


def _score(name: str, metric: Any, hypotheses: Sequence[str], references: Sequence[str], **details: str) -> Score:
    _check(hypotheses, references)
    value = metric.corpus_score(list(hypotheses), [list(references)]).score
    signature = metric.get_signature()
    for key, detail in details.items():
        signature.update(key, detail)
    return Score(name, float(value), signature.format())


def _check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if not references or len(hypotheses) != len(references):
        raise ValueError(
            "a score compares one hypothesis with each reference, and needs one of each at least. "
            f"Received: {len(hypotheses)} hypotheses, {len(references)} references."
        )


def _package(name: str) -> Any:
    try:
        package = importlib.import_module(name)
        if name == "sacrebleu":
            importlib.import_module("sacrebleu.metrics")
    except ImportError:
        raise NotInstalled(f"{name} is not installed. Run: pip install 'kmha[translate]'") from None
    return package
