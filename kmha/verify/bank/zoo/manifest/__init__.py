"""All entries of the zoo, by package.

Each file lists the entries of a few related packages. No module here imports any of the packages: `Entry.load` and
`Entry.make` import them when they run.

>>> [entry.where for entry in of_package("conformer")]
['conformer.conformer:Attention']
"""

import importlib.metadata
from collections.abc import Iterable

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest import torch_language, torch_series, torch_speech, torch_transformers, torch_vision

ENTRIES: tuple[Entry, ...] = (
    *torch_transformers.ENTRIES,
    *torch_language.ENTRIES,
    *torch_speech.ENTRIES,
    *torch_vision.ENTRIES,
    *torch_series.ENTRIES,
)

PACKAGES: tuple[str, ...] = tuple(dict.fromkeys(entry.package for entry in ENTRIES))


def of_package(package: str) -> tuple[Entry, ...]:
    """Return the entries of a package."""
    return tuple(entry for entry in ENTRIES if entry.package == package)


def missing(packages: Iterable[str] = PACKAGES) -> tuple[str, ...]:
    """Return the names of those packages that are not installed, all packages of the zoo by default.

    >>> missing(["numpy", "no-such-package"])
    ('no-such-package',)
    """
    return tuple(package for package in packages if not _installed(package))


def how_to_install(packages: Iterable[str]) -> str:
    """Return one line that says how to install packages.

    >>> how_to_install(["timm", "d2l"])
    'not installed: timm, d2l; install them with: pip install timm d2l'
    """
    names = tuple(packages)
    return f"not installed: {', '.join(names)}; install them with: pip install {' '.join(names)}"


def _installed(package: str) -> bool:
    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
