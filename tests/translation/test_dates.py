import builtins
import datetime
import re

import pytest

pytest.importorskip("babel")

from kmha.translation import dates
from kmha.translation.corpora import CorpusError
from kmha.translation.dates import DateFormat, corpus, formats, held_out_formats, render

DAY = datetime.date(2015, 5, 3)


@pytest.fixture(scope="module")
def whole():
    return corpus(seed=0)


def test_sizes(whole):
    assert len(whole.train) == 30_000
    assert len(whole.validation) == 500
    assert {name: len(pairs) for name, pairs in whole.tests.items()} == {"seen_formats": 1000, "held_out_formats": 500}


def test_seeded():
    once, again, other = corpus(3, 40), corpus(3, 40), corpus(5, 40)
    assert once == again
    assert once.train.source != other.train.source
    assert once.tests["seen_formats"].target != other.tests["seen_formats"].target


def test_no_date_is_in_two_sets(whole):
    sets = [whole.train, whole.validation, *whole.tests.values()]
    found = [set(pairs.target) for pairs in sets]
    assert len(set.union(*found)) == sum(len(one) for one in found)
    assert [len(one) for one in found] == [30_000, 500, 1000, 500]


def test_more_pairs_than_days():
    more = corpus(seed=1, pairs=80_000)
    assert len(more.train) == 80_000
    assert set(more.train.target) & set(more.validation.target) == set()


def test_dates_are_real(whole):
    for target in whole.train.target[:1000]:
        assert 1900 <= datetime.date.fromisoformat(target).year <= 2099


def test_every_format_is_drawn(monkeypatch):
    drawn = []
    monkeypatch.setattr(dates, "render", lambda date, written: drawn.append(written) or "")
    corpus(seed=0)
    assert set(drawn) == {*formats(), *held_out_formats()}
    assert len(set(drawn[-30_000:])) == len(formats())  # the training set is drawn last
    english = sum(written.language == "en" for written in drawn[-30_000:])
    assert 1 / 8 < english / 30_000 < 1 / 6


@pytest.mark.parametrize("choice", [formats, held_out_formats])
def test_the_target_is_a_function_of_the_source(choice):
    """No two days have the same text, in any two formats and variants."""
    days = [
        datetime.date(year, month, day) for year in (1912, 2001, 2011) for month in range(1, 13) for day in range(1, 13)
    ]
    days += [datetime.date(2020, 11, 20), datetime.date(2011, 12, 20), datetime.date(2020, 11, 12)]
    meaning = {}
    for written in choice():
        for day in days:
            text = render(day, written)
            for draw in (0.0, 0.7, 0.85, 0.95):
                typed = dates._as_typed(text, written.language, draw)
                assert meaning.setdefault(typed, day) == day, typed


def test_no_short_years_and_no_order_that_countries_read_differently():
    for language, pattern in [*formats(), *held_out_formats()]:
        assert re.search(r"(?<!y)y(?!y)", pattern), pattern
        if "MMM" not in pattern:
            assert language == dates.NUMBERS
            assert pattern.startswith("y") or re.fullmatch(r"d+\. ?M+\. ?y", pattern), pattern


def test_months_are_named_alike_in_no_two_languages():
    named = {}
    for language in dates.LANGUAGES:
        for length in ("wide", "abbreviated"):
            for context in ("format", "stand-alone"):
                for month, name in dates._locale(language).months[context][length].items():
                    bare = dates._as_typed(name, language, 0.95)
                    assert named.setdefault(bare, month) == month, bare
    assert len(named) > 150


def _shape(text):
    """Words, days and years, without saying which."""
    return re.sub(r"\d{1,2}", "d", re.sub(r"\d{4}", "Y", re.sub(r"[^\W\d_]+", "w", text)))


def test_held_out_formats_are_not_in_training(whole):
    patterns = {pattern for _, pattern in formats()}
    assert not patterns & {pattern for _, pattern in held_out_formats()}
    held = whole.tests["held_out_formats"].source
    assert not {_shape(text) for text in whole.train.source} & {_shape(text) for text in held}
    assert {language for language, _ in held_out_formats()} == set(dates.LANGUAGES)
    assert set("".join(held)) <= set("".join(whole.train.source))  # new formats, no new characters


@pytest.mark.parametrize(
    ("language", "pattern", "expected"),
    [
        ("en", "EEEE 'the' d@ 'of' MMMM y", "Sunday the 3rd of May 2015"),
        ("en", "MMM d, y", "May 3, 2015"),
        ("de", "d. MMMM y", "3. Mai 2015"),
        ("fr", "'le' EEEE d MMMM y", "le dimanche 3 mai 2015"),
        ("es", "d 'de' MMMM 'de' y", "3 de mayo de 2015"),
        ("pl", "d MMMM y 'r'.", "3 maja 2015 r."),
        ("tr", "d MMMM y, EEEE", "3 Mayıs 2015, Pazar"),
        ("numbers", "dd.MM.y", "03.05.2015"),
        ("numbers", "yMMdd", "20150503"),
    ],
)
def test_render(language, pattern, expected):
    assert DateFormat(language, pattern) in formats()
    assert render(DAY, DateFormat(language, pattern)) == expected


def test_ordinals():
    expected = [
        "1st",
        "2nd",
        "3rd",
        "4th",
        "10th",
        "11th",
        "12th",
        "13th",
        "20th",
        "21st",
        "22nd",
        "23rd",
        "24th",
        "31st",
    ]
    days = [int(re.sub(r"\D", "", text)) for text in expected]
    written = DateFormat("en", "d@ MMMM y")
    assert [render(datetime.date(1999, 1, day), written).split()[0] for day in days] == expected
    french = DateFormat("fr", "d@ MMMM y")
    assert render(datetime.date(1999, 8, 1), french) == "1er août 1999"
    assert render(datetime.date(1999, 8, 2), french) == "2 août 1999"


@pytest.mark.parametrize(
    ("text", "language", "draw", "expected"),
    [
        ("4. März 1999", "de", 0.0, "4. März 1999"),
        ("4. März 1999", "de", 0.7, "4. märz 1999"),
        ("4. März 1999", "de", 0.85, "4. MÄRZ 1999"),
        ("4. März 1999", "de", 0.95, "4. marz 1999"),
        ("mar. 3 févr. 1998", "fr", 0.95, "mar 3 fevr 1998"),
        ("2 Haziran 1997, Salı", "tr", 0.85, "2 HAZİRAN 1997, SALI"),
        ("2 Haziran 1997, Salı", "tr", 0.95, "2 haziran 1997, sali"),
        ("3 października 1996 r.", "pl", 0.95, "3 pazdziernika 1996 r"),
        ("lørdag den 5. maj 1995", "da", 0.95, "lordag den 5. maj 1995"),
    ],
)
def test_as_typed(text, language, draw, expected):
    assert dates._as_typed(text, language, draw) == expected


def test_without_babel(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("babel"):
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    dates._locale.cache_clear()
    with pytest.raises(CorpusError, match=r"^the dates need babel.* pip install 'kmha\[translate\]'$"):
        corpus()
