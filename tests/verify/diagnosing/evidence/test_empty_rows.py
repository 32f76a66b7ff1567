import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing import report
from kmha.verify.diagnosing.evidence import empty_rows


def _attention(fill):
    def attention(query, key, value, mask=None):
        logits = query @ np.swapaxes(key, -1, -2) / query.shape[-1] ** 0.5
        logits = logits if mask is None else np.where(mask, logits, fill)
        with np.errstate(invalid="ignore"):
            powers = np.exp(logits - logits.max(-1, keepdims=True))
            return powers / powers.sum(-1, keepdims=True) @ value

    return attention


@pytest.mark.parametrize(("fill", "says"), [(-np.inf, True), (-1e9, False)])
def test_nan_where_everything_is_hidden_is_right_and_said(fill, says):
    found = diagnose(_attention(fill))
    assert found.right
    assert any("Rows with nothing to attend to are NaN" in each for each in found.evidence) == says
    assert any("are NaN" in remark for remark in report.remarks(found)) == says


def test_nan_in_other_rows_is_wrong(evaluated):
    def attention(query, key, value, mask=None):
        output = _attention(-np.inf)(query, key, value, mask)
        return output if mask is None else np.where(np.isnan(output).any(), np.nan, output)

    assert empty_rows.find(evaluated(attention)[1]) is None
    assert not diagnose(attention).right
