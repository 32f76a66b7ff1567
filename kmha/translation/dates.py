"""A corpus without download: dates as people write them in many formats and languages, and their ISO 8601 form.

Each source has only one correct target, because every format distinguishes day and month and has the full year. So
years never have two digits. No format has slashes or hyphens between numbers with the year last, because countries read
such dates in different orders. With dots, every locale of the Unicode CLDR puts the day first. Eight digits in a row
are the basic format of ISO 8601. No name of a month, long or short, with or without accents, means another month in
another of these languages.
"""

import datetime
import random
import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

from kmha.translation.corpora import Corpus, CorpusError, Pairs

LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "tr", "sv", "da", "cs")
FIRST, LAST = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)
TRAINING_PAIRS = 30_000
VALIDATION_PAIRS, SEEN_PAIRS, HELD_OUT_PAIRS = 500, 1000, 500

ORDINAL = "@"  # stands for the ending of an ordinal number in a pattern
EVERYWHERE = ("d MMMM y", "d MMM y", "dd MMM y", "d-MMM-y", "EEE d MMM y", "y MMMM d", "MMMM d y")
IN_LANGUAGE = {
    "en": (
        "MMMM d, y",
        "EEEE, d MMMM y",
        "EEEE d MMMM y",
        "EEE, d MMM y",
        "MMM d y",
        "d@ MMMM y",
        "d@ 'of' MMMM y",
        "d@ 'of' MMMM, y",
        "'the' d@ 'of' MMMM y",
        "'the' d@ 'of' MMMM, y",
        "MMMM d@, y",
        "MMMM d@ y",
        "MMM d@, y",
        "EEEE, MMMM d@, y",
        "EEEE 'the' d@ 'of' MMMM y",
    ),
    "de": ("d. MMMM y", "dd. MMMM y", "EEEE, 'den' d. MMMM y", "'den' d. MMMM y", "EEE d. MMM y"),
    "fr": ("d@ MMMM y", "'le' d@ MMMM y", "'le' EEEE d MMMM y"),
    "es": ("d 'de' MMMM 'del' y", "EEEE d 'de' MMMM 'de' y", "'el' d 'de' MMMM 'de' y"),
    "it": ("d@ MMMM y", "'il' d MMMM y", "EEEE, d MMMM y"),
    "pt": ("d@ 'de' MMMM 'de' y", "'a' d@ 'de' MMMM 'de' y", "EEEE, dd 'de' MMMM 'de' y"),
    "nl": ("EEEE, d MMMM y", "'op' d MMMM y", "'de' d'e' MMMM y"),
    "pl": ("d MMMM y 'r'.", "EEEE, d MMMM y 'r'.", "'dnia' d MMMM y"),
    "tr": ("EEEE, d MMMM y", "d MMMM y, EEEE"),
    "sv": ("'den' d MMMM y", "EEEE 'den' d MMMM y"),
    "da": ("d. MMMM y", "'den' d. MMMM y"),
    "cs": ("EEEE d. MMMM y", "'dne' d. MMMM y"),
}
NUMBERS = "numbers"  # stands for formats that have no language
DIGITS = ("y-MM-dd", "y/MM/dd", "y/M/d", "y.MM.dd", "yMMdd", "y-M-d", "dd.MM.y", "d.M.y", "d. M. y", "y MM dd")
HELD_OUT = ("d/MMM/y", "d MMMM, y", "y, d MMMM", "MMM-dd-y", "EEEE, y MMMM dd", "EEE, MMMM d y", "d.MMMM.y")
FIRST_OF_MONTH = {"fr": "er", "it": "º", "pt": "º"}
BARE = str.maketrans("łıø", "lio")  # letters that Unicode does not decompose
SKELETONS = ("yMMMd", "yMMMEd", "yMMMMd", "yMMMMEEEEd")


class DateFormat(NamedTuple):
    """A date format, which is a language and a pattern of the Unicode CLDR."""

    language: str
    pattern: str


def corpus(seed: int = 0, pairs: int = TRAINING_PAIRS) -> Corpus:
    """Return a corpus of dates from 1900 to 2099 as people write them, with their ISO 8601 form.

    No date of the validation set or a test set is in the training set, in any format. The test set `seen_formats` uses
    the formats of the training set. The test set `held_out_formats` uses other formats in the same languages.

    Raises:
        CorpusError: babel is not installed.

    >>> dates = corpus(seed=1, pairs=4)
    >>> list(zip(dates.train.source, dates.train.target))[1:3]
    [('onsdag 15 april 2054', '2054-04-15'), ('kwietnia 21 1945', '1945-04-21')]
    """
    generator = random.Random(seed)
    days = [FIRST + datetime.timedelta(days=number) for number in range((LAST - FIRST).days + 1)]
    generator.shuffle(days)

    def take(count: int, name: str, formats: Sequence[DateFormat]) -> Pairs:
        return _pairs([days.pop() for _ in range(count)], name, formats, generator)

    seen = formats()
    validation = take(VALIDATION_PAIRS, "validation", seen)
    tests = {
        "seen_formats": take(SEEN_PAIRS, "seen_formats", seen),
        "held_out_formats": take(HELD_OUT_PAIRS, "held_out_formats", held_out_formats()),
    }
    # Every day occurs once before any day occurs twice.
    drawn = days * (pairs // len(days)) + generator.sample(days, pairs % len(days))
    train = _pairs(drawn, "train", seen, generator)
    return Corpus(train, validation, tests, notice=None, source_language="dates", target_language="ISO 8601")


def formats() -> list[DateFormat]:
    """Return the formats of the training set, which are the CLDR's formats for each language and others in common use.

    >>> DateFormat("fr", "'le' d@ MMMM y") in formats()
    True
    """
    named = [DateFormat(language, pattern) for language in LANGUAGES for pattern in _patterns(language)]
    return [*named, *(DateFormat(NUMBERS, pattern) for pattern in DIGITS)]


def held_out_formats() -> list[DateFormat]:
    """Return the formats that are not in the training set, in every language.

    >>> set(held_out_formats()) & set(formats())
    set()
    """
    return [DateFormat(language, pattern) for language in LANGUAGES for pattern in HELD_OUT]


def render(date: datetime.date, format: DateFormat) -> str:
    """Return the date as text in a format.

    >>> render(datetime.date(2015, 5, 3), DateFormat("en", "EEEE 'the' d@ 'of' MMMM y"))
    'Sunday the 3rd of May 2015'
    """
    text = _parsed(format.pattern).apply(date, _locale(format.language))
    return text.replace(ORDINAL, _ending(format.language, date.day))


def _pairs(days: Sequence[datetime.date], name: str, formats: Sequence[DateFormat], generator: random.Random) -> Pairs:
    """Return each day in a random format of a random language."""
    by_language: dict[str, list[DateFormat]] = {}
    for one in formats:
        by_language.setdefault(one.language, []).append(one)
    languages = ["en", *by_language]  # English is listed twice, because it has the most formats
    source = []
    for day in days:
        chosen = generator.choice(by_language[generator.choice(languages)])
        source.append(_as_typed(render(day, chosen), chosen.language, generator.random()))
    return Pairs(source, [day.isoformat() for day in days], name)


def _patterns(language: str) -> list[str]:
    """Return the CLDR's patterns that name the month, followed by our own patterns, without duplicates."""
    locale = _locale(language)
    known = [locale.date_formats[length].pattern for length in ("full", "long", "medium")]
    known += [str(locale.datetime_skeletons[key]) for key in SKELETONS if key in locale.datetime_skeletons]
    named = [pattern for pattern in known if "MMM" in pattern]
    return list(dict.fromkeys([*named, *EVERYWHERE, *IN_LANGUAGE[language]]))


def _as_typed(text: str, language: str, draw: float) -> str:
    """Return a variant of the text: unchanged, lower case, upper case, or lower case without accents and dots."""
    if draw < 0.65:
        return text
    if 0.8 <= draw < 0.9:
        return (text.replace("i", "İ") if language == "tr" else text).upper()
    # Turkish distinguishes i with and without a dot, but Python's `lower` does not.
    text = (text.replace("I", "ı").replace("İ", "i") if language == "tr" else text).lower()
    if draw < 0.8:
        return text
    text = "".join(letter for letter in unicodedata.normalize("NFD", text) if not unicodedata.combining(letter))
    return re.sub(r"(?<=[a-z])\.(?=\s|$)", "", text.translate(BARE))


def _ending(language: str, day: int) -> str:
    """Return the ending of an ordinal number. Languages other than English have an ending only for the first day."""
    if language != "en":
        return FIRST_OF_MONTH.get(language, "") if day == 1 else ""
    return "th" if day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


@cache
def _locale(language: str) -> Any:
    return _babel().Locale.parse("en" if language == NUMBERS else language)


@cache
def _parsed(pattern: str) -> Any:
    return _babel().dates.parse_pattern(pattern)


def _babel() -> ModuleType:
    try:
        import babel
        import babel.dates
    except ModuleNotFoundError:
        raise CorpusError("the dates need babel, which is not installed. Run: pip install 'kmha[translate]'") from None
    return babel
