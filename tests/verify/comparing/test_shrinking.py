from kmha.verify.comparing.cases import Case, draw_case
from kmha.verify.comparing.shrinking import shrink


def test_all_that_does_not_matter_goes():
    large = Case(seed=9, heads=5, batch=7, rows=(3, 4), columns=(2, 1), use_gate=True, mask="BTS", dropout=0.3)
    smallest = shrink(large, lambda case: case.use_gate)
    assert smallest == Case(
        seed=9, heads=1, batch=1, rows=(2,), columns=(2,), widths=(2, 3, 0), key_dim=1, use_gate=True
    )


def test_query_and_key_keep_the_same_number_of_axes():
    for index in range(60):
        seen = []
        shrink(draw_case(1, index), lambda case: seen.append(case) or True)  # noqa: B023
        assert all(len(case.rows) == len(case.columns) for case in seen)
        assert all(case.heads not in case.widths for case in seen)


def test_attempts_are_bounded():
    count = []
    shrink(draw_case(1, 1), lambda case: bool(count.append(case)), attempts=5)
    assert len(count) == 5
