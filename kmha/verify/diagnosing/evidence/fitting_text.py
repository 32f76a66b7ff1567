"""Choose between mistakes that give the same numbers, by the names in the candidate's code.

In self-attention, mixing the keys and projecting the value with the key's kernel give the same numbers. But code that
says `scores @ v` mixes no keys.
"""

import ast
import re
from collections.abc import Sequence

from kmha.verify.chains.attention import ROLES
from kmha.verify.diagnosing import naming
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.evidence import pointing
from kmha.verify.diagnosing.evidence.source_text import SourceFunction, functions_of
from kmha.verify.diagnosing.matching import Match
from kmha.verify.mistakes import Mistake

PRODUCT_OF = {
    "logits-query-query": {"query"},
    "logits-key-key": {"key"},
    "logits-query-value": {"query", "value"},
    "mix-key": {"key"},
}
RIGHT_PRODUCT = {"logits": {"query", "key"}, "mix": {"value"}}


def fitting_text_first(candidate: Candidate, fitting: Sequence[Match]) -> list[Match]:
    """Return the explanations, with those that the code contradicts last."""
    if len(fitting) < 2:
        return list(fitting)
    functions = functions_of(candidate)
    return sorted(fitting, key=lambda match: any(_is_contradicted(mistake, functions) for mistake in match.mistakes))


def _is_contradicted(mistake: Mistake, functions: Sequence[SourceFunction]) -> bool:
    if mistake.id in PRODUCT_OF:
        step = mistake.id.partition("-")[0]
        lines = pointing.product_lines(functions, step)
        return len(lines) == 1 and _roles_in(*lines[0]) == RIGHT_PRODUCT[step]
    if found := re.fullmatch(r"kernels-(?:query|key|value)-for-(query|key|value)", mistake.id):
        return any(naming.weight(name)[0] == found[1] for function in functions for name in _weights_in(function))
    return False


def _weights_in(function: SourceFunction) -> set[str]:
    """Return the names of attributes and arguments that a function uses, without the constructor's and the inputs."""
    if function.name == "__init__":
        return set()
    arguments = {node.arg for node in ast.walk(function.tree) if isinstance(node, ast.arg)}
    names = {node.id for node in ast.walk(function.tree) if isinstance(node, ast.Name)} & arguments
    own = [node for node in ast.walk(function.tree) if isinstance(node, ast.Attribute)]
    attributes = {node.attr for node in own if isinstance(node.value, ast.Name) and node.value.id == "self"}
    return attributes | {name for name in names if naming.argument(name) is None}


def _roles_in(function: SourceFunction, number: int) -> set[str]:
    """Return the roles that the names in a line stand for."""
    nodes = [node for node in ast.walk(function.tree) if getattr(node, "lineno", 0) == number]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return {role for name in names if (role := naming.argument(name) or naming.weight(name)[0]) in ROLES}
