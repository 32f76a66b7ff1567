"""Find the files that a task may read: Python's standard library, and the installed packages that the task uses.

Landlock allows a folder with everything in it. So where a folder contains something that must not be read, such as
`site-packages`, its other entries are listed one by one.
"""

import contextlib
import os
import re
import stat
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

# Paths that NumPy, Keras and TensorFlow read besides Python's own folders.
_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo", "/usr/share/fonts")
_PACKAGES = ("*-packages", "python*/*-packages")  # folders of installed packages inside those of the system
_OWN = __name__.partition(".")[0]
_NAME = re.compile(r"[\w.-]+")
FRESH = 12 * 60 * 60.0  # seconds for which an access time stays, at least


def paths(uses: Sequence[str]) -> list[str]:
    """Return the files and folders that a task may read if it uses these libraries.

    This is the standard library, and the distributions of the libraries with all that they require. Other packages are
    not readable, even if the libraries import them where they are installed, as TensorFlow does with JAX. The package
    that contains this module is never readable.
    """
    found = _own_entries(folder for folder in _python_folders() if os.path.isdir(folder))
    required = _required([*uses, *_used_by_keras(uses)])
    found += [path for path in required if Path(path).name.partition("-")[0] != _OWN]
    return sorted({os.path.realpath(path) for path in found if os.path.exists(path)})


def read_once(uses: Iterable[str]) -> None:
    """Read each file that a task may read, so that the files' access times tell a task nothing of earlier ones.

    Most systems keep a file's access time if it was read since it changed, and less than a day ago (`relatime`). The
    first time, this takes some ten seconds, and after that one, until the next day.
    """
    for path in paths(tuple(uses)):
        walk = os.walk(path) if os.path.isdir(path) else [(os.path.dirname(path), [], [os.path.basename(path)])]
        for file in (os.path.join(folder, name) for folder, _, names in walk for name in names):
            with contextlib.suppress(OSError):
                found = os.lstat(file)
                read = max(found.st_mtime, found.st_ctime, time.time() - FRESH) < found.st_atime
                if stat.S_ISREG(found.st_mode) and not read:
                    with open(file, "rb", buffering=0) as opened:
                        opened.read(1)


def _used_by_keras(uses: Sequence[str]) -> list[str]:
    """Return the library that Keras computes with, if it is used, and the one with which it reads and writes images."""
    keras = sys.modules.get("keras")
    return [keras.config.backend(), "pillow"] if "keras" in uses and keras is not None else []


def forget_own_package() -> None:
    """Remove the package that contains this module from what can be imported. Its functions still run."""
    folder = str(Path(__file__).parents[2])
    for name in [name for name in sys.modules if name.partition(".")[0] == _OWN]:
        del sys.modules[name]
    sys.path[:] = [path for path in sys.path if path.endswith("-packages") or os.path.abspath(path) != folder]


def package_folders() -> list[str]:
    """Return the folders of installed packages, whose entries a task may list. It cannot read the entries."""
    return [path for path in sys.path if path.endswith("-packages") and os.path.isdir(path)]


def without(folders: Iterable[str], hidden: Iterable[str]) -> list[str]:
    """Return paths that contain everything in some folders except the hidden files and folders."""
    hidden = {os.path.realpath(path) for path in hidden}
    above = {str(parent) for path in hidden for parent in Path(path).parents}
    found, pending = [], [os.path.realpath(folder) for folder in folders]
    while pending:
        path = pending.pop()
        if path in above:
            # What a link leads to is listed where it lies.
            pending += [entry.path for entry in os.scandir(path) if not entry.is_symlink()]
        elif path not in hidden:
            found.append(path)
    return found


def _own_entries(folders: Iterable[str]) -> list[str]:
    folders = list(folders)
    return without(folders, (str(path) for each in folders for name in _PACKAGES for path in Path(each).glob(name)))


def _python_folders() -> Iterator[str]:
    """Yield the folders of modules and libraries, not the whole environment, which may contain other data."""
    bases: tuple[dict[str, str], ...] = ({}, {"base": sys.base_prefix, "platbase": sys.base_exec_prefix})
    yield from {sysconfig.get_path(name, vars=base) for name in ("stdlib", "platstdlib") for base in bases}
    yield from (os.path.join(sys.base_prefix, "lib"), *_SYSTEM)


def _of_module(module: object) -> Iterator[str]:
    """Yield the folders of a package, or the file of a module."""
    folders = list(getattr(module, "__path__", None) or ())
    file = getattr(module, "__file__", None)
    yield from folders or ([file] if file else [])


def _required(uses: Iterable[str]) -> Iterator[str]:
    """Yield the files and folders of some distributions, and of those that they require.

    A library may come from a distribution of another name, such as `tensorflow-cpu`.
    """
    pending, seen = list(uses), set()
    while pending:
        name = re.sub(r"[-_.]+", "-", pending.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        yield from _of_module(sys.modules.get(name.replace("-", "_")))
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            pending += metadata.packages_distributions().get(name, ()) if name in uses else ()
            continue
        pending += [match[0] for text in found.requires or () if "extra" not in text and (match := _NAME.match(text))]
        lines = (found.read_text("RECORD") or found.read_text("top_level.txt") or "").splitlines()
        tops = {line.partition(",")[0].partition("/")[0] for line in lines}
        # `__pycache__` contains modules of other distributions too.
        yield from (str(found.locate_file(top)) for top in tops - {"..", "", "__pycache__"})
