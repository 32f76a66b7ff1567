"""Right answers to `bilinear_form` get all points, in whatever order NumPy multiplies."""

import pytest

from kmha.course.exercises import content
from kmha.course.judging.pipeline import judge

SECOND = "from_projections = projected_query @ np.swapaxes(projected_key, -1, -2)"
FIRST = 'from_bilinear = np.einsum("BTI,HIJ,BSJ->BHTS", query, bilinear, key)'
ALL = 'np.einsum("BTI,HIO,BSJ,HJO->BHTS", query, query_kernel, key, key_kernel{})'
FORM = 'np.einsum("HIO,HJO->HIJ", query_kernel, key_kernel)'
STACK = "np.stack([one @ other.T for one, other in zip(query_kernel, key_kernel, strict=True)])"
MATMUL = "from_bilinear = query[:, None] @ bilinear @ np.swapaxes(key[:, None], -1, -2)"
VARIANTS = {
    "kernels first": {FORM: STACK, FIRST: MATMUL, SECOND: "from_projections = " + ALL.format(", optimize=True")},
    "projected first": {FIRST: "from_bilinear = " + ALL.format(", optimize=True")},
    "in one loop": {SECOND: "from_projections = " + ALL.format("")},
}


@pytest.mark.parametrize("seed", [473759349, 1, 2, 3])
@pytest.mark.parametrize("variant", VARIANTS)
def test_no_order_of_products_loses_points(variant, seed, sandbox):
    (item,) = content.find("a3.bilinear_form", content.installed())
    text = item.master.solution
    for old, new in VARIANTS[variant].items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    grade = judge(item, text, sandbox, seed=seed, explained=False)
    assert (grade.error, grade.points) == (None, 10)
