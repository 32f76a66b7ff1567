"""A function that turns queries and keys by rotary positions, such as `apply_rotary(q, k, cos, sin)`, as a layer.

Its arguments may be tables of angles, or of their cosines and sines. kmha gives it those of the usual angles.
"""

import inspect
import re
from typing import Any

from kmha.verify.diagnosing import naming
from kmha.verify.diagnosing.calling import parameters
from kmha.verify.diagnosing.with_parameters import class_around

PARTS = re.compile("half|two|every|pair|table|cache|freq|precompute|build|create|make|get")  # of code around it
TABLES = re.compile("cos(?!t)|sin(?!gle)|freq|angle|theta|rotary|rope|(^|_)pos(ition)?(_?emb)?")


def as_rotary(function: Any) -> type | None:
    """Return a class whose objects turn vectors as a function does, or `None` if its name and arguments tell otherwise.

    >>> as_rotary(lambda x: x) is None
    True
    >>> def apply_rotary(x, cos, sin): ...
    >>> as_rotary(apply_rotary).__name__
    'apply_rotary'
    """
    name = getattr(function, "__name__", "").lower()
    if not (inspect.isfunction(function) and naming.ROTARY.search(name)) or PARTS.search(name):
        return None
    found = parameters(function)
    roles = naming.roles_of(found)
    takes_both = {"query", "key"} <= roles.keys()
    turns = "rotate" not in name or any(TABLES.search(each.lower()) for each in found)
    sizes = () if takes_both else ("width", "length")  # of code that makes a table
    if not ((takes_both or "self" in roles) and turns) or {"value", "heads", *sizes} & roles.keys():
        return None
    call = lambda self, **arguments: function(**arguments)  # noqa: E731
    return class_around(function, object, {}, found, {"__init__": lambda self: None, "__call__": call})
