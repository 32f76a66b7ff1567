import collections
import configparser
import inspect
import re
from pathlib import Path

import pytest

from kmha.verify import diagnose
from kmha.verify.bank.zoo.entry import HELD_OUT, KINDS, TUNED
from kmha.verify.bank.zoo.manifest import ENTRIES, PACKAGES, WITHOUT_REQUIREMENTS, how_to_install, missing
from kmha.verify.diagnosing.verdicts import KNOWN


@pytest.fixture
def installed(request):
    absent = missing([request.getfixturevalue("entry").package])
    if absent:
        pytest.skip(how_to_install(absent))


def label(entry):
    return f"{entry.package}-{entry.where.partition(':')[2]}-{entry.norm or entry.kind}"


@pytest.mark.zoo
@pytest.mark.filterwarnings("ignore")  # of the packages, about each other
@pytest.mark.parametrize("entry", ENTRIES, ids=label)
def test_an_entry_is_made(entry, installed):
    made = entry.made()
    assert callable(made)
    assert entry.make is not None or made is entry.load()


@pytest.mark.zoo
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("entry", ENTRIES, ids=label)
def test_an_entry_is_not_accused(entry, installed):
    assert diagnose(entry.made(), **entry.options).verdict != KNOWN


def test_the_zoo_is_large_enough():
    assert len(ENTRIES) >= 100
    assert len(PACKAGES) >= 30


def test_each_half_has_packages_of_its_own():
    packages = {half: {entry.package for entry in ENTRIES if entry.half == half} for half in (TUNED, HELD_OUT)}
    assert packages[TUNED] & packages[HELD_OUT] == set()
    assert len(packages[HELD_OUT]) >= 10
    assert sum(entry.half == HELD_OUT for entry in ENTRIES) >= 30
    assert max(collections.Counter(entry.package for entry in ENTRIES if entry.half == HELD_OUT).values()) <= 11


def test_no_entry_is_listed_twice():
    listed = collections.Counter(
        (entry.where, entry.norm, str(entry.options), how_it_is_made(entry.make)) for entry in ENTRIES
    )
    assert [each for each, count in listed.items() if count > 1] == []


def how_it_is_made(make):
    return "" if make is None else f"{make.__qualname__} {inspect.getclosurevars(make).nonlocals}"


def test_every_entry_is_described_in_known_words():
    for entry in ENTRIES:
        assert entry.kind in KINDS
        assert entry.framework in ("torch", "keras", "tensorflow", "jax", "numpy")
        assert entry.norm in ("", "pre", "post")
        assert entry.mask in ("", "attends", "hides", "adds")
        assert entry.norm or entry.kind in ("attention", "embedding")


def test_what_is_missing_is_named_with_the_command_that_installs_it():
    assert missing(["numpy", "no-such-package"]) == ("no-such-package",)
    assert how_to_install(["no-such-package"]).endswith("pip install no-such-package")
    assert how_to_install(["rtdl"]).endswith("pip install --no-deps rtdl")


def test_the_extra_lists_every_package():
    text = configparser.ConfigParser()
    text.read(Path(__file__).parents[4] / "setup.cfg")
    extras = dict(text["options.extras_require"])
    required = "\n".join(extras[name] for name in ("zoo", "jax", "torch", "flax")) + text["options"]["install_requires"]
    listed = set(re.findall(r"^ *([a-z0-9-]+)", required, re.MULTILINE))
    assert set(PACKAGES) - listed - set(WITHOUT_REQUIREMENTS) == set()
