"""An entry of the zoo: where a package's attention is, how it is made, and what it is."""

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from typing import Any

KINDS = ("attention", "encoder", "decoder", "embedding")
TUNED, HELD_OUT = "tuned", "held out"


@dataclasses.dataclass(frozen=True)
class Entry:
    """One right layer, block, embedding or function of a public package.

    Attributes:
        package: Name of the distribution, as `pip install` takes it.
        where: Where the class or function is, as MODULE:NAME.
        kind: What it is, one of `KINDS`.
        framework: Framework of its arrays: "torch", "keras", "tensorflow", "jax" or "numpy".
        make: Function that makes what a user would diagnose from the class or function at `where`, such as an instance
            from the package's configuration object. `None` diagnoses the class or function itself.
        norm: Place of its normalizations, "pre" or "post", or "" if it has none.
        mask: What True means in its mask, "attends", "hides" or "adds", or "" if it has no mask.
        options: Options that `diagnose` needs to read it, the ones that its message proposes. Empty for most entries.
        half: Half of the zoo, the same for all entries of a package. The packages that were there first are `TUNED`:
            their results improve the diagnosis. The others are `HELD_OUT`: they were chosen before kmha read any of
            them, and only measure it.
    """

    package: str
    where: str
    kind: str
    framework: str
    make: Callable[[Any], Any] | None = None
    norm: str = ""
    mask: str = ""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    half: str = TUNED

    def load(self) -> Any:
        """Import the class or function at `where`."""
        module, _, path = self.where.partition(":")
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
        return found

    def made(self, found: Any = None) -> Any:
        """Return what a user would diagnose, made from `found` instead of the class at `where` if it is given."""
        found = self.load() if found is None else found
        return found if self.make is None else self.make(found)
