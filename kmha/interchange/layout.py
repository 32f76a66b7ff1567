"""The table that describes a layout: which canonical weight each foreign name holds, and how the axes are ordered.

- The left side of a pattern (`axes.py`) has the foreign axes. The right side has the canonical axes, which
  `canonical.py` lists. A letter has one size in a *scope*: an attention layer, a feed-forward network, a normalization.
  `num_heads` gives H where the shapes do not determine it.
- **Numbered layers** have a lower-case letter in braces, the same on both sides: "layers.{n}.fc.weight" and
  "encoder/layer_{n}/…"; `{n+1}` counts from one. Two separate counts (encoder and decoder) need two letters.
- **A matrix per head** has a capital letter in the foreign name: "heads.{H}.query.weight" with "H O I -> H I O" stands
  for the matrices (O, I) of all heads, stacked on the axis H.
- **Packed** arrays have several roles on the axis P. The entry names these roles: "in_proj_weight", "{P}/kernel",
  "(P H O) I -> P H I O", with packed=("query", "key", "value").
- **Optional** entries belong to groups: with `optional="bias"`, either all entries of that group are present or none.
  An entry of several groups is present if all its groups are. If the weights lack a bias, or a norm's beta, that the
  layout requires, kmha writes zeros instead, and the notes say so.
- **Tied weights** are two entries with the same path. Reading checks that the arrays are equal.
- `Constant`, `Ignored` and `Refused` are names that hold no weight. A `Rule` says which sizes must agree, and why.

`at` assembles blocks from the entries of their parts.
"""

import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any

from kmha.interchange import axes
from kmha.interchange.canonical import scope_of


@dataclasses.dataclass(frozen=True)
class Template:
    """A name with numbers in braces: "layers.{n}.weight", "layer{n+1}", "heads.{H}.weight", "{P}/kernel".

    >>> Template("layer{n+1}.{P}.weight").match("layer3.key.weight"), Template("layer{n+1}").fill({"n": 2})
    ({'n': 2, 'P': 'key'}, 'layer3')
    """

    text: str

    def match(self, name: str, anywhere: bool = False) -> dict[str, int | str] | None:
        """Return the values of the braces in `name`, or None. With `anywhere`, the name may have a prefix."""
        found = (self._regex.search if anywhere else self._regex.fullmatch)(name)
        if found is None:
            return None
        values = {k: found[k] if k == "P" else int(found[k]) - offset for k, offset in self._offsets.items()}
        return None if any(isinstance(value, int) and value < 0 for value in values.values()) else values

    def fill(self, values: Mapping[str, int | str]) -> str:
        """Return the name with the braces filled in. Braces without a value stay."""

        def filled(found: re.Match[str]) -> str:
            value = values.get(found[1], found[0])
            return str(value + int(found[2] or 0)) if isinstance(value, int) else value

        return re.sub(_FIELD, filled, self.text)

    @property
    def letters(self) -> set[str]:
        return set(self._offsets)

    @functools.cached_property
    def _offsets(self) -> dict[str, int]:
        return {letter: int(offset or 0) for letter, offset in re.findall(_FIELD, self.text)}

    @functools.cached_property
    def _regex(self) -> re.Pattern[str]:
        parts = re.split(_FIELD, self.text)
        fields = [rf"(?P<{letter}>{'[a-z_]+' if letter == 'P' else '0|[1-9][0-9]{0,8}'})" for letter in parts[1::3]]
        literals = [re.escape(part) for part in parts[::3]]
        joined = literals[0] + "".join(field + text for field, text in zip(fields, literals[1:], strict=True))
        return re.compile(joined + r"\Z")


@functools.cache
def template(text: str) -> Template:
    """Return the cached template of a text."""
    return Template(text)


_FIELD = r"\{(\w)(?:\+(\d+))?\}"


@dataclasses.dataclass(frozen=True)
class Entry:
    """A foreign name, or one name per layer or head, and the canonical weight that it holds.

    Attributes:
        name: Foreign name, with numbers in braces.
        path: Canonical path.
        axes: Pattern of the axes, "foreign -> canonical".
        optional: Group or groups that the entry belongs to.
        packed: Roles that `{P}` in the path stands for, in their order on the axis P.
        why: Reason for the layout's sizes. Errors quote it if the weights have other sizes.
    """

    name: str
    path: str
    axes: str
    optional: str | tuple[str, ...] = ()
    packed: tuple[str, ...] = ()
    why: str = ""

    groups = property(lambda self: (self.optional,) if isinstance(self.optional, str) else self.optional)
    names = property(lambda self: template(self.name))
    paths = property(lambda self: template(self.path))
    pattern = property(lambda self: axes.parse(self.axes))
    scope = property(lambda self: scope_of(self.path))
    heads = property(lambda self: "".join(letter for letter in self.names.letters if letter.isupper()))
    indices = property(lambda self: tuple(sorted(letter for letter in self.names.letters if letter.islower())))


@dataclasses.dataclass(frozen=True)
class Constant:
    """A name that must be present and always holds `value`, such as an explicit zero bias.

    Attributes:
        name: Foreign name.
        axes: Axes of its array, such as "(H O)".
        scope: Canonical path of the part that determines the sizes of the letters, such as "self_attention".
        value: Value of every element. Weights with any other value are refused.
        why: Reason why no other value can be represented.
        optional: As in `Entry`.
    """

    name: str
    axes: str
    scope: str
    value: float
    why: str
    optional: str | tuple[str, ...] = ()

    groups = property(lambda self: (self.optional,) if isinstance(self.optional, str) else self.optional)
    names = property(lambda self: template(self.name))
    indices = property(lambda self: tuple(sorted(self.names.letters)))


@dataclasses.dataclass(frozen=True)
class Ignored:
    """A name that may be present and holds no weight, such as a buffer with a mask. A note says that it is left out."""

    name: str
    why: str
    names = property(lambda self: template(self.name))


@dataclasses.dataclass(frozen=True)
class Refused:
    """A name that may be present and holds something that the canonical layout cannot represent."""

    name: str
    why: str
    names = property(lambda self: template(self.name))


@dataclasses.dataclass(frozen=True)
class Rule:
    """An equation between sizes, and the reason for it, in every scope that has all of its letters: Rule("E = H O",
    "torch has no other width").

    Adjacent letters are multiplied; "O = E // H" is an integer division.
    """

    equation: str
    why: str


Item = Entry | Constant | Ignored | Refused


@dataclasses.dataclass(frozen=True)
class Layout:
    """The table of one layout.

    Attributes:
        name: Name for `convert` and the command line.
        says: Line that says which layers have this layout, and how it differs from others.
        items: Entries and constants of the layout, and names that hold no weight.
        rules: Sizes that must agree.
        refusals: Reasons why the layout cannot hold certain canonical weights, keyed by the end of the path,
            such as "gate/kernel".
        unscaled: True if the layer does not divide its logits by √O. Conversions then rescale the query.
        note: Sentence to add to the notes of every conversion from this layout.
        keras_layer: The layer's name in Keras files, for a layout whose weight names fit several layers.
    """

    name: str
    says: str
    items: tuple[Item, ...]
    rules: tuple[Rule, ...] = ()
    refusals: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unscaled: bool = False
    note: str = ""
    keras_layer: str | None = None

    @property
    def entries(self) -> list[Entry]:
        return [item for item in self.items if isinstance(item, Entry)]

    def entry_of(self, path: str) -> tuple[Entry, dict[str, int | str]] | None:
        """Return the first entry that holds the canonical weight `path`, with the values of its braces."""
        for entry in self.entries:
            found = entry.paths.match(path)
            if found is not None and (not entry.packed or found["P"] in entry.packed):
                return entry, found
        return None


def at(items: Iterable[Item], name: str, path: str, optional: tuple[str, ...] = ()) -> tuple[Item, ...]:
    """Return the items of a part as they are named inside a larger layout.

    Args:
        items: Items of the part.
        name: Prefix of the foreign names, with its separator: "self_attn.".
        path: Prefix of the canonical paths: "self_attention/".
        optional: Further groups that the part belongs to.
    """
    moved = []
    for item in items:
        changes: dict[str, Any] = {"name": name + item.name}
        if isinstance(item, Entry):
            changes["path"] = path + item.path
        if isinstance(item, Constant):
            changes["scope"] = (path + item.scope).rstrip("/")
        if isinstance(item, Entry | Constant):
            changes["optional"] = (*item.groups, *optional)
        moved.append(dataclasses.replace(item, **changes))
    return tuple(moved)
