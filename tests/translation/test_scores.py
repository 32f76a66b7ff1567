import math
import subprocess
import sys
from collections import Counter

import pytest

from kmha.translation import scores

HYPOTHESES = [
    "Ein Mann fährt mit dem Rad durch die Stadt.",
    "zwei Kinder spielen am Strand , und ein Hund schläft",
    'Auf dem Schild steht "Zum Hafen", aber niemand liest es.',
]
REFERENCES = [
    "Ein Mann fährt mit dem Fahrrad durch die Stadt.",
    "Zwei Kinder spielen am Strand, und ein Hund schläft.",
    "Auf dem Schild steht „Zum Hafen“, aber keiner liest es heute.",  # quotation marks as German has them
]


def _multi_bleu(hypotheses, references):
    """As the arithmetic of `multi-bleu.perl`: clipped n-gram counts of the whole corpus, brevity penalty."""
    correct, total, lengths = [0] * 4, [0] * 4, [0, 0]
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        lengths = [lengths[0] + len(hypothesis), lengths[1] + len(reference)]
        for n in range(1, 5):
            mine, theirs = (
                Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1)) for words in (hypothesis, reference)
            )
            correct[n - 1] += sum((mine & theirs).values())
            total[n - 1] += sum(mine.values())
    if 0 in correct:
        return 0.0
    brevity = min(1.0, math.exp(1 - lengths[1] / lengths[0]))
    return 100 * brevity * math.exp(sum(math.log(c / t) for c, t in zip(correct, total, strict=True)) / 4)


def test_cased_bleu_is_what_is_counted_by_hand():
    # 5 words against 6: "a b c d ." in "a b c d e ." has 5/5, 3/4, 2/3, 1/2 and a brevity penalty of exp(1 - 6/5).
    score = scores.bleu(["a b c d ."], ["a b c d e."])
    assert score.value == pytest.approx(100 * math.exp(-0.2) * (1 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25, rel=1e-9)
    assert score.name == "BLEU"
    assert score.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


def test_case_counts_unless_lowercased():
    pairs = ["Two dogs run On the sand ."], ["two dogs run on the sand."]
    cased, lowercased = scores.bleu(*pairs), scores.bleu(*pairs, lowercase=True)
    assert lowercased.value == pytest.approx(100)
    assert cased.value < 50
    assert "|case:lc|" in lowercased.signature


def test_as_in_papers_is_multi_bleu_of_what_the_scripts_make():
    hypotheses = [
        "ein mann fährt mit dem rad durch die stadt .",
        "zwei kinder spielen am strand , und ein hund schläft",
        "auf dem schild steht &quot; zum hafen &quot; , aber niemand liest es .",
    ]
    references = [
        "ein mann fährt mit dem fahrrad durch die stadt .",
        "zwei kinder spielen am strand , und ein hund schläft .",
        "auf dem schild steht &quot; zum hafen &quot; , aber keiner liest es heute .",
    ]
    assert [scores.tokenized(text, "de") for text in HYPOTHESES] == hypotheses
    assert [scores.tokenized(text, "de") for text in REFERENCES] == references
    score = scores.bleu_as_in_papers(HYPOTHESES, REFERENCES, "de")
    split = [[line.split() for line in lines] for lines in (hypotheses, references)]
    assert score.value == pytest.approx(_multi_bleu(*split), rel=1e-9)
    assert 40 < score.value < 90
    assert score.value > scores.bleu(HYPOTHESES, REFERENCES, lowercase=True).value + 5  # the quotation marks


def test_as_in_papers_has_no_smoothing():
    assert scores.bleu_as_in_papers(["a b c x"], ["a b c d"], "en").value == 0
    assert scores.bleu(["a b c x"], ["a b c d"]).value > 10


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "A boy's 2 dogs, SITTING.", "a boy &apos;s 2 dogs , sitting ."),
        ("de", "Kids' Eis kostet 3,50 – oder mehr…", "kids &apos; eis kostet 3,50 - oder mehr ..."),
        ("fr", "L'homme s'assied.", "l&apos; homme s&apos; assied ."),
        ("de", "Das Rad-Rennen [heute] & morgen", "das rad-rennen &#91; heute &#93; &amp; morgen"),
    ],
)
def test_tokenized_as_the_scripts_do(language, text, expected):
    assert scores.tokenized(text, language) == expected


def test_the_signature_of_papers_names_every_step():
    import sacrebleu
    import sacremoses

    signature = scores.bleu_as_in_papers(HYPOTHESES, REFERENCES, "de").signature
    assert signature == (
        "nrefs:1|case:lc|eff:no|tok:none|smooth:none|norm:moses-de|split:moses-de"
        f"|version:{sacrebleu.__version__}+sacremoses.{sacremoses.__version__}"
    )


def test_equal_to_sacrebleu_by_itself():
    import sacrebleu

    mine = scores.every_score(HYPOTHESES, REFERENCES, "de")
    assert [score.name for score in mine] == [
        "BLEU",
        "BLEU, lowercased",
        "BLEU, lowercased and tokenized",
        "chrF2",
    ]
    theirs = [
        sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score,
        sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], lowercase=True).score,
        sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score,
    ]
    assert [mine[0].value, mine[1].value, mine[3].value] == pytest.approx(theirs, rel=1e-12)
    assert len({score.value for score in mine}) == 4
    assert mine[3].signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")


def test_exact_matches():
    score = scores.exact_match(["2024-02-29 ", "2024-03-01", "1999-12-31"], ["2024-02-29", "2024-01-03", "1999-12-31"])
    assert score.value == pytest.approx(200 / 3)
    assert score.signature == "case:mixed|spaces:stripped"
    assert scores.exact_match(["Am 1. Mai"], ["am 1. Mai"]).value == 0


def test_one_right_answer_comes_first():
    found = scores.every_score(["2024-02-29", "2024-03-01"], ["2024-02-29", "2024-03-11"], "", exact=True)
    assert [score.name for score in found] == ["exact matches", "BLEU", "chrF2"]
    assert found[0].value == 50
    assert 50 < found[2].value < 100


@pytest.mark.parametrize(
    ("hypotheses", "references", "received"),
    [
        (["a"], ["a", "b"], "1 hypotheses, 2 references"),
        ([], [], "0 hypotheses, 0 references"),
    ],
)
@pytest.mark.parametrize(
    "function",
    [
        scores.bleu,
        scores.chrf,
        scores.exact_match,
        lambda *pairs: scores.bleu_as_in_papers(*pairs, "en"),
    ],
)
def test_each_hypothesis_needs_its_reference(function, hypotheses, references, received):
    with pytest.raises(ValueError, match=received):
        function(hypotheses, references)


@pytest.mark.parametrize("package", ["sacrebleu", "sacremoses"])
def test_a_missing_package_is_a_line(package, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    scores._moses.cache_clear()
    with pytest.raises(scores.NotInstalled) as caught:
        scores.bleu_as_in_papers(["a"], ["a"], "en")
    assert str(caught.value) == f"{package} is not installed. Run: pip install 'kmha[translate]'"


def test_needs_no_tensorflow():
    code = (
        "import sys\nfrom kmha.translation import scores\nscores.bleu(['a'], ['a'])\n"
        "print(sorted({'keras', 'tensorflow'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
