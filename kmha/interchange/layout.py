"""A layout is a table: which foreign name holds which canonical weights, and how its axes lie.

- The left side of a pattern (`axes.py`) has the foreign axes, the right side those of the canonical layout, which
  `canonical.py` lists by path. A letter means one size in one *scope*: in one attention, one feed-forward network, one
  normalization. `num_heads` gives H where the shapes leave it open.
- **Numbered layers** are a small letter in braces, the same on both sides: "layers.{n}.fc.weight" and
  "encoder/layer_{n}/…"; `{n+1}` counts from one. Layers that count apart (encoder, decoder) take two letters.
- **A matrix per head** is a capital letter in the foreign name: "heads.{H}.query.weight" with "H O I -> H I O" stands
  for all heads' matrices (O, I), stacked on the axis H.
- **Packed** arrays name the roles that they hold, on the axis P: "in_proj_weight", "{P}/kernel",
  "(P H O) I -> P H I O", with packed=("query", "key", "value").
- **Optional** entries come in groups: with `optional="bias"` all of that group are there, or none. An entry of several
  groups is there if all of them are. Entries that are not optional are always there. A bias, or a norm's beta, that the
  layout needs and the weights lack is written as zeros, and the conversion's notes say so.
- One canonical weight under two foreign names (tied weights): two entries with the same path; reading demands that they
  are equal.
- `Constant`, `Ignored` and `Refused` are names that hold no weight; `Rule` says which sizes must agree, and why.

Blocks are put together from the entries of their parts with `at`.
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
        """What the braces stand for in `name`, or None; with `anywhere` the name may have a prefix."""
        found = (self._regex.search if anywhere else self._regex.fullmatch)(name)
        if found is None:
            return None
        values = {letter: found[letter] for letter in self._offsets}
        numbers = {letter: value if letter == "P" else int(value) for letter, value in values.items()}
        if any(isinstance(value, int) and value < self._offsets[letter] for letter, value in numbers.items()):
            return None
        return {k: v - self._offsets[k] if isinstance(v, int) else v for k, v in numbers.items()}

    def fill(self, values: Mapping[str, int | str]) -> str:
        """The name for what the braces stand for; braces without a value stay."""

        def replaced(found: re.Match[str]) -> str:
            value = values.get(found[1], found[0])
            return str(value + int(found[2] or 0)) if isinstance(value, int) else value

        return re.sub(_FIELD, replaced, self.text)

    @property
    def letters(self) -> set[str]:
        return set(self._offsets)

    @functools.cached_property
    def _offsets(self) -> dict[str, int]:
        return {letter: int(offset or 0) for letter, offset in re.findall(_FIELD, self.text)}

    @functools.cached_property
    def _regex(self) -> re.Pattern[str]:
        pieces = re.split(_FIELD, self.text)
        fields = [rf"(?P<{letter}>{'[a-z_]+' if letter == 'P' else '0|[1-9][0-9]{0,8}'})" for letter in pieces[1::3]]
        literals = [re.escape(piece) for piece in pieces[::3]]
        joined = literals[0] + "".join(field + text for field, text in zip(fields, literals[1:], strict=True))
        return re.compile(joined + r"\Z")


@functools.cache
def template(text: str) -> Template:
    """The template of a text, made once."""
    return Template(text)


_FIELD = r"\{(\w)(?:\+(\d+))?\}"


@dataclasses.dataclass(frozen=True)
class Entry:
    """One foreign name, or one per layer or head, and the canonical weight that it holds.

    Attributes:
        name: the foreign name, with numbers in braces.
        path: the canonical path.
        axes: the pattern, "foreign -> canonical".
        optional: the group, or groups, without which the entry is not there.
        packed: the roles that `{P}` in the path stands for, in their order on the axis P.
        why: said when the sizes of weights do not fit the entry: why the layout demands what it does.
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
    """A name that must be there and always holds `value`, such as an explicit zero bias.

    Attributes:
        name: the foreign name.
        axes: its axes, such as "(H O)".
        scope: the canonical path under which the letters have their sizes, such as "self_attention".
        value: of every element; weights that hold another cannot be read.
        why: the reason why no other value can be represented.
        optional: as in `Entry`.
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
    """A name that may be there and holds no weight, such as a mask in a buffer; it is left out, and that is noted."""

    name: str
    why: str
    names = property(lambda self: template(self.name))


@dataclasses.dataclass(frozen=True)
class Refused:
    """A name that may be there and holds what the canonical layout cannot represent."""

    name: str
    why: str
    names = property(lambda self: template(self.name))


@dataclasses.dataclass(frozen=True)
class Rule:
    """Sizes that must agree in every scope that has the letters: Rule("E = H O", "torch adds no other width").

    Letters side by side are multiplied; "O = E // H" divides, and drops the remainder.
    """

    equation: str
    why: str


Item = Entry | Constant | Ignored | Refused


@dataclasses.dataclass(frozen=True)
class Layout:
    """A named table.

    Attributes:
        name: as `convert` and the command line take it.
        says: one line: what has this layout, and what is particular about it.
        items: entries, constants, and names without a weight.
        rules: sizes that must agree.
        refusals: reasons why a canonical weight has no place here, by the end of its path ("gate/kernel").
        unscaled: whether its logits are not divided by √O, as all others' are; folding makes up for it in the query.
        note: said with every conversion of weights of this layout.
        keras_layer: Keras' name of the layer in files, for a layout whose weights have the names of several layers.
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
        """The first entry that holds the canonical weight `path`, and what its braces stand for there."""
        for entry in self.entries:
            found = entry.paths.match(path)
            if found is not None and (not entry.packed or found["P"] in entry.packed):
                return entry, found
        return None


def at(items: Iterable[Item], name: str, path: str, optional: tuple[str, ...] = ()) -> tuple[Item, ...]:
    """The items of a part inside a larger layout: its names after `name`, its paths after `path`.

    Args:
        items: of the part.
        name: what stands before the foreign names, with its separator: "self_attn.".
        path: what stands before the canonical paths: "self_attention/".
        optional: further groups that the part belongs to.
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
