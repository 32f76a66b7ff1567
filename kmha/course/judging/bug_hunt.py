"""What the programs of a bug hunt have in common: the learner mends a program, and says by its id what was wrong."""

from collections.abc import Callable, Mapping
from typing import Any

from kmha.course.exercises.exercise import Check, Draw, Inputs
from kmha.course.judging.comparing import same


def is_named(draw: Draw, points: int = 2) -> Check:
    """The check that `MISTAKE`, beside the program, is the right id."""
    return Check("invariants", "the mistake is named", points, draw, _name, _judge, times=1)


def others_of(mistake: str, form: Callable[[Any], Any] = lambda output: output) -> Callable[[Mapping[str, Any]], Any]:
    """A `bank_result` by which every mistake of the bank is named but one: that is what is to be found.

    Args:
        mistake: its id.
        form: of the output in the bank's chain makes that of the program.
    """

    def result(state: Mapping[str, Any]) -> Any:
        from kmha.verify.chains.attention import run
        from kmha.verify.mistakes import BANK

        trial, output = state["trial"], state["output"]
        if same(output, run(trial, [BANK[mistake].changes])["output"]):
            output = run(trial)["output"]
        return form(output)

    return result


def _name(answer: Any, inputs: Inputs) -> Any:
    return answer.MISTAKE


def _judge(inputs: Inputs, result: Any, expected: Any) -> str | None:
    return None if result == expected else "`MISTAKE` is not the id of what is wrong with the program."
