"""Scores of translations: three kinds of BLEU, chrF and exact match, each with a signature of its computation.

Hypotheses and references are plain text. All functions raise a ValueError if the numbers of hypotheses and references
differ or are zero, and `NotInstalled` if a score needs sacreBLEU or sacremoses and it is missing.
"""

import dataclasses
import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

CASED, LOWERCASED, AS_IN_PAPERS = "BLEU", "BLEU, lowercased", "BLEU, lowercased and tokenized"
CHRF, EXACT = "chrF2", "exact matches"


@dataclasses.dataclass(frozen=True)
class Score:
    """The score of a corpus, with its name, its value from 0 to 100, and the signature of its computation."""

    name: str
    value: float
    signature: str


class NotInstalled(ImportError):
    """Raised if a package of the extra `translate` is missing. The message says how to install it."""


def bleu(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> Score:
    """Return corpus BLEU of plain text, as sacreBLEU computes it with the word splitting of `mteval-v13a`.

    Source: Papineni et al., 2002; Post, "A Call for Clarity in Reporting BLEU Scores", 2018.

    >>> score = bleu(["the cat sat on a mat ."], ["The cat sat on the mat."], lowercase=True)
    >>> round(score.value, 2), score.signature.split("|version")[0]
    (48.89, 'nrefs:1|case:lc|eff:no|tok:13a|smooth:exp')
    """
    metric = _package("sacrebleu").metrics.BLEU(lowercase=lowercase, force=True)
    return _score(LOWERCASED if lowercase else CASED, metric, hypotheses, references)


def bleu_as_in_papers(hypotheses: Sequence[str], references: Sequence[str], language: str) -> Score:
    """Return BLEU as papers on Multi30k report it, with `multi-bleu.perl` on lowercased, normalized, tokenized text.

    Hypotheses and references go through the steps of the data set's own `task1-tokenize.sh`: lowercasing, Moses'
    `normalize-punctuation.perl -l LANGUAGE`, and Moses' `tokenizer.perl -l LANGUAGE`, which also escapes `"` as
    `&quot;` and so on. This function uses sacremoses' ports of both scripts. For the German and English test sets of
    2016 and 2017, the tokenized text has exactly as many characters as the tokenized files of the data set. Then BLEU
    is computed over the words between spaces (tokenizer "none"), without smoothing, as in `multi-bleu.perl`. The
    signature is that of sacreBLEU, with these steps added.

    Args:
        hypotheses: One translation for each reference.
        references: Correct translations.
        language: Language of hypotheses and references, such as `"de"`. Without Moses rules for it, those for English
            apply.

    >>> score = bleu_as_in_papers(["Ein Hund läuft."], ["ein „Hund“ läuft ."], "de")
    >>> tokenized("Ein „Hund“ läuft.", "de")
    'ein &quot; hund &quot; läuft .'
    >>> score.signature.split("|version")[0]
    'nrefs:1|case:lc|eff:no|tok:none|smooth:none|norm:moses-de|split:moses-de'
    """
    metric = _package("sacrebleu").metrics.BLEU(tokenize="none", smooth_method="none", force=True)
    both = [[tokenized(text, language) for text in texts] for texts in (hypotheses, references)]
    version = f"{_package('sacrebleu').__version__}+sacremoses.{_package('sacremoses').__version__}"
    steps = {"case": "lc", "norm": f"moses-{language}", "split": f"moses-{language}", "version": version}
    return _score(AS_IN_PAPERS, metric, *both, **steps)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Return chrF2 as sacreBLEU computes it: the F-score of character n-grams up to 6, with double weight for recall.

    Source: Popović, "chrF: character n-gram F-score for automatic MT evaluation", 2015.

    >>> round(chrf(["abc"], ["abd"]).value, 2)
    38.89
    """
    return _score(CHRF, _package("sacrebleu").metrics.CHRF(), hypotheses, references)


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Return the percentage of hypotheses that equal their reference, ignoring spaces at the start and the end.

    >>> exact_match(["2024-02-29", "2024-03-01"], ["2024-02-29", "2024-01-03"]).value
    50.0
    """
    _check(hypotheses, references)
    right = sum(one.strip() == other.strip() for one, other in zip(hypotheses, references, strict=True))
    return Score(EXACT, 100 * right / len(references), "case:mixed|spaces:stripped")


def every_score(
    hypotheses: Sequence[str], references: Sequence[str], language: str, exact: bool = False
) -> list[Score]:
    """Return all useful scores: three kinds of BLEU and chrF2, or with `exact` exact match, BLEU and chrF2.

    Args:
        hypotheses: One translation for each reference.
        references: Correct translations.
        language: Target language, for `bleu_as_in_papers`.
        exact: Each source has only one correct translation, as a date has. Then BLEU of tokenized text is left out,
            because it counts sequences of four words and a date is one word.
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
    """Return `text` lowercased, with normalized punctuation, and split by Moses' rules into words between spaces."""
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
            "a score needs one hypothesis for each reference, and at least one of each. "
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
