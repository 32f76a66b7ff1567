"""Name a mistake by its kind, for answers that match no known wrong answer: by an error, or by a kind of difference."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from kmha.course.exercises import cells
from kmha.course.exercises.exercise import Check
from kmha.course.judging.comparing import same
from kmha.course.judging.differences import RETURNED_NOTHING, kind_of_difference
from kmha.course.judging.error_advice import advice
from kmha.course.judging.marking import LONGEST, Grade, NamedMistake
from kmha.course.judging.planning import Plan
from kmha.sandbox.sandbox import CallResult

LONGEST_NAME = 60
NOT_WHOLE = "contains floats, expected integers."  # so ends what a check of the shape says of them
_FORM = ("signature", "unchanged")  # layers whose messages say everything
# Facts about one check that other checks cannot contradict.
_OF_ITSELF = ("sums-along-wrong-axis", "rows-do-not-sum-to-one", "result-nan", "result-infinite")
# Kinds that say that all else is right.
_OF_ALL = ("should-be-zero", "should-not-be-zero", "result-nearly-right", "result-less-precise")


def failed_checks(grade: Grade, plan: Plan) -> Iterator[tuple[Check, tuple[int, ...]]]:
    """Yield the failed checks of results, with the indices of their calls."""
    for outcome, indices in zip(grade.outcomes, plan.indices, strict=True):
        if outcome.problem is not None and outcome.check.layer not in _FORM:
            yield outcome.check, indices


def kind_of_mistake(
    grade: Grade, plan: Plan, results: Sequence[CallResult], expected: Sequence[CallResult]
) -> NamedMistake | None:
    """Return the kind of the mistake in the first failed check that shows one, or `None`.

    What holds in one check, and not in others that compare the same results, is chance or has another cause. Checks
    with their own judge come last: their results may differ from the solution's and be right.
    """
    failed = sorted(failed_checks(grade, plan), key=lambda each: each[0].judge is not None)
    for check, indices in failed:
        error = next((results[index].error for index in indices if results[index].error), None)
        if error is not None:
            found = advice(error)
        elif check.layer == "named":  # what is wrong with a name is said by its check
            found = None
        else:
            found = _kind(indices, plan, results, expected, check.tolerance)
            if found is not None and found[0] not in _OF_ITSELF:
                everywhere = found[0] in _OF_ALL or check.judge is not None
                comparable = [each for each in failed if everywhere or _comparable(each[0], check)]
                others = [index for _, more in comparable for index in more if everywhere or not results[index].error]
                every = tuple(dict.fromkeys((*indices, *others)))
                again = _kind(every, plan, results, expected, max(each.tolerance for each, _ in comparable))
                found = again if again is not None and again[0] == found[0] else None
        if found is not None:
            id, says = found
            where = "" if check.layer in ("shape", "values") else f" This shows in the check “{check.says}”."
            return NamedMistake(id, says[:LONGEST] + where)
    if _are_floats(grade, plan, results, expected):
        return NamedMistake(
            "floats-for-integers",
            "Your numbers are right, but they are floats where integers are asked for, as for a size or an index. `/`, "
            "`np.zeros` and a product with 1.0 give floats. `//`, `dtype=int` and `int` give integers.",
        )
    return _changed_argument(grade, plan, results)


def _are_floats(grade: Grade, plan: Plan, results: Sequence[CallResult], expected: Sequence[CallResult]) -> bool:
    """Return whether results are wrong in this alone: they are floats where integers are asked for."""
    pairs = [(check, index) for check, indices in failed_checks(grade, plan) for index in indices]
    told = all(str(outcome.problem).endswith(NOT_WHOLE) for outcome in grade.outcomes if outcome.problem)
    return bool(pairs) and told and all(same(results[n].value, expected[n].value, each.tolerance) for each, n in pairs)


def _changed_argument(grade: Grade, plan: Plan, results: Sequence[CallResult]) -> NamedMistake | None:
    """Return the mistake of an answer that writes into an argument, if nothing else is known to be wrong."""
    for outcome, indices in zip(grade.outcomes, plan.indices, strict=True):
        names = [name for index in indices for name in results[index].changed]
        if outcome.problem is not None and outcome.check.layer == "unchanged" and names:
            name = str(names[0])[:LONGEST_NAME]
            says = (
                f"Your code writes into its argument `{name}`, and whoever called it goes on with other numbers. "
                f"`{name} -= …` and `{name}[…] = …` do that, also under another name for the same array. Make a new "
                "array, or write into a copy."
            )
            return NamedMistake("argument-changed", says)
    return None


def _comparable(one: Check, other: Check) -> bool:
    """Return whether what is found in one check must hold in the other: both compare the same results."""
    return one.ask is other.ask and one.judge is None


def _kind(
    indices: Sequence[int], plan: Plan, results: Sequence[CallResult], expected: Sequence[CallResult], tolerance: float
) -> tuple[str, str] | None:
    """Return the kind of the difference in some calls, or `None`, also if one of them raised an error."""
    if any(results[index].error for index in indices):
        return None
    triples = [(plan.inputs(index), results[index].value, expected[index].value) for index in indices]
    return kind_of_difference(triples, tolerance)


def kind_of_error(grade: Grade) -> NamedMistake | None:
    """Return the kind of the error that kept an answer from running, or `None`."""
    found = None if grade.error is None or not grade.error.get("kind") else advice(grade.error)
    return None if found is None else NamedMistake(found[0], found[1][:LONGEST])


def missing_return(code: str, solution: str) -> NamedMistake | None:
    """Return the mistake of a function that has no `return`, if the solution's function of that name has one.

    >>> missing_return("def double(x):\\n    2 * x\\n", "def double(x):\\n    return 2 * x\\n").id
    'returned-nothing'
    """
    wanted, received = _returning(solution), _returning(code)
    for name, returns in received.items():
        if not returns and wanted.get(name):
            shown = name.removeprefix(".")
            says = f"Your `{shown}` has no `return` with a value, so it returned nothing (None)."
            return NamedMistake(RETURNED_NOTHING[0], says)
    return None


@lru_cache(64)  # one file can answer many exercises
def _returning(code: str) -> Mapping[str, bool]:
    """Return for each function, and each method as CLASS.NAME, whether it can return a value or raise an error."""
    tree = cells.syntax_tree(code)
    found: dict[str, bool] = {}
    outers: list[ast.Module | ast.ClassDef] = [] if tree is None else [tree]
    outers += [node for node in tree.body if isinstance(node, ast.ClassDef)] if tree is not None else []
    for outer in outers:
        for node in outer.body:
            if isinstance(node, ast.FunctionDef):
                name = f"{outer.name}.{node.name}" if isinstance(outer, ast.ClassDef) else node.name
                found[name] = any(map(_gives, ast.walk(node)))
    return found


def _gives(node: ast.AST) -> bool:
    returns = isinstance(node, ast.Return) and node.value is not None
    return returns or isinstance(node, ast.Yield | ast.YieldFrom | ast.Raise)
