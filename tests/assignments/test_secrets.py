import inspect

import numpy as np

from kmha.course.exercises import content


def test_an_answer_gets_no_input_that_only_the_judge_reads():
    """Frames show all inputs to the answer, so the judge must know the rest by itself."""
    for item in content.items(content.installed()):
        for check in item.spec.checks:
            if check.ask is None or check.judge is None:
                continue
            ask, judge = (inspect.getsource(function) for function in (check.ask, inspect.unwrap(check.judge)))
            for name in check.draw(np.random.default_rng(1)):
                read = f'inputs["{name}"]'
                assert read in ask or "**inputs" in ask or read not in judge, (item.id, check.says, name)
