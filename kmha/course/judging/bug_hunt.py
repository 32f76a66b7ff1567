"""Checks for a bug hunt: the learner fixes a program, and names the mistake in it by its id."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from kmha.course.exercises.exercise import Check, Draw, Inputs
from kmha.course.judging.comparing import same

LONGEST = 60  # characters of an id
State = Mapping[str, Any]
# Said of a program that still makes its mistake. Whoever has not found it yet must not read it here.
NOT_FIXED = "The mistake is still there: the program computes what it computed when you got it."
NOT_NAMED = "`MISTAKE` is not the id of the mistake in this program."


def mistake_is_named(draw: Draw, points: int = 2) -> Check:
    """Return the check that the program's constant `MISTAKE` is the correct id. It gives no points for that alone."""
    return Check("named", "the mistake is named", points, draw, _read, _compare, times=1)


def bank_without(mistake: str, program_output: Callable[[Any], Any] = lambda output: output) -> Callable[[State], Any]:
    """Return a `bank_result` that hides one mistake of the bank: the mistake that the learner must find.

    Args:
        mistake: Id of the mistake.
        program_output: Function that converts the output of the bank's chain to what the program returns.
    """

    def result(state: State) -> Any:
        from kmha.verify.chains.attention import run
        from kmha.verify.mistakes import BANK

        trial, output = state["trial"], state["output"]
        if same(output, run(trial, [BANK[mistake].changes])["output"]):
            output = run(trial)["output"]
        return program_output(output)

    return result


def _read(answer: Any, inputs: Inputs) -> Any:
    return answer.MISTAKE


def _compare(inputs: Inputs, result: Any, expected: Any) -> str | None:
    return None if result == expected else not_named(result)


def not_named(name: Any) -> str:
    """Return what is said of a `MISTAKE` that is not the right id. It depends on nothing but this id."""
    from kmha.verify.mistakes import BANK

    if name == "":
        return "`MISTAKE` is still empty. Copy the id of the mistake from the list in the text."
    if not isinstance(name, str) or name in BANK:
        return NOT_NAMED
    nearest = get_close_matches(name[:LONGEST], BANK, 1, 0.8)
    return f"`MISTAKE` is {name[:LONGEST]!r}, and no id is called so." + (
        f" Did you mean `{nearest[0]}`?" if nearest else " Copy one from the list in the text."
    )
