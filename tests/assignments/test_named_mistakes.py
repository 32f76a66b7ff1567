"""Answers that learners wrote, with mistakes that only numbers were said of, or something else than they did."""

import pytest

from kmha.course.exercises import content
from kmha.course.judging.pipeline import judge
from kmha.course.judging.running import needed_solutions

SEED = 31
MASKED = "masked = np.where(mask[:, None], scaled, -np.inf)"
CLOSE = "np.all(np.abs(steps[name] - array) <= 1e-4 * np.abs(array).max())"
ADDED = "logits = logits + (1.0 - ops.cast(mask, query.dtype)) * -1e9\n    scores = ops.softmax(logits, axis=-1)"


def _judged(id, edits, sandbox_of):
    (item,) = content.find(id, content.installed())
    code = item.master.solution
    for old, new in edits.items():
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    return judge(item, code, sandbox_of(item.spec.uses), seed=SEED, files=needed_solutions(item))


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("id", "edits", "mistake", "says"),
    [
        (
            "a1.addons_forward",
            {'BSHO", value, value_kernel)': 'BSHO", value, value_kernel) if len(inputs) == 3 else key'},
            "missing-value-is-projected-key",
            "kernel of its own",
        ),
        (
            "a2.head_widths",
            {
                '"small": num_heads * (query_size + more) * width': '"small": query_size * width + more',
                '"large": (query_size + more) * num_hiddens': '"large": query_size * num_hiddens + more',
            },
            "small-of-one-head",
            "Count all h",
        ),
        (
            "a3.fold_biases",
            {"query_bias.copy(), np.zeros_like(key_bias)": "np.zeros_like(query_bias), key_bias.copy()"},
            "query-bias-for-key-bias",
            "the other way round",
        ),
        (
            "a3.fold_biases",
            {'"HO,HOE->E", value_bias': '"HO,HOE->E", value_bias + key_bias'},
            "key-bias-moved-to-output",
            "",
        ),
        (
            "a4.scaled_dot_product_attention",
            {MASKED: "masked = scaled + mask[:, None] * -1e9"},
            "mask-adds-large",
            "or -1e9 to allowed ones",
        ),
        (
            "a5.contiguous_merge",
            {'"joins": strides["moved"][2] == moved.shape[3] * strides["moved"][3]': '"joins": True'},
            "joins-of-the-copy",
            "By your rule",
        ),
        (
            "a5.recover_output_layer",
            {
                "known = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)": "known = rows",
                "kernel, bias = found[:-1], found[-1]": "kernel, bias = found, (targets - rows @ found).mean(axis=0)",
                "targets - known @ found": "targets - rows @ kernel - bias",
            },
            "bias-after-the-kernel",
            "Fit both together",
        ),
        (
            "a7.scaled_dot_product_attention",
            {"np.sqrt(k.shape[-1])": "np.sqrt(v.shape[-1])"},
            "scale-values",
            "a value's features",
        ),
        (
            "a9.first_wrong_step",
            {CLOSE: "np.allclose(steps[name], array, atol=1e-4)"},
            "allclose-with-atol",
            "`rtol=0`",
        ),
    ],
)
def test_what_learners_wrote(id, edits, mistake, says, sandbox_of):
    found = _judged(id, edits, sandbox_of).mistake
    assert found is not None
    assert found.id == mistake
    assert says in found.says


@pytest.mark.slow
@pytest.mark.parametrize(
    ("id", "edits", "mistake"),
    [
        ("a6.attention_scores", {'keras.backend.result_type(query.dtype, "float32")': '"float32"'}, "float64-narrowed"),
        (
            "a6.attention_scores",
            {
                "ops.cast(query, wide), ops.cast(key, wide)": "query, key",
                "logits / query.shape[-1] ** 0.5": "logits / ops.sqrt(ops.cast(query.shape[-1], query.dtype))",
                "scores = ops.softmax(ops.where(mask, logits, -1e30), axis=-1)": ADDED,
                "scores = ops.where(mask, scores, 0.0)": "",
            },
            "empty-row-unmasked",
        ),
        (
            "a9.OwnAttention",
            {
                " + self.value_bias": "",
                "logits = ops.where(mask, logits, -1e30)": "logits = ops.where(mask, logits, -1e4)",
                "logits = ops.where(causal, logits, -1e30)": "logits = ops.where(causal, logits, -1e4)",
            },
            "bias-missing-value",
        ),
    ],
)
def test_layers_that_learners_wrote(id, edits, mistake, sandbox_of):
    grade = _judged(id, edits, sandbox_of)
    assert grade.points < grade.possible
    assert grade.mistake is not None
    assert grade.mistake.id == mistake


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("id", "edits", "says"),
    [
        (
            "a1.cross_mask",
            {"return np.expand_dims(source != padding, axis=1)": "return (source != padding)[:, :, None]"},
            "the mask cannot be broadcast to the scores",
        ),
        (
            "a1.cross_mask",
            {
                "return np.expand_dims(source != padding, axis=1)": "return (source != padding)[:, None] & "
                "(target != padding)[:, :, None]"
            },
            "some query has nothing to attend to",
        ),
        (
            "a2.transpose_qkv",
            {".reshape(batch * num_heads, positions, size)": ""},
            "one for each head of each item",
        ),
        ("a4.mask_order", {"hidden = ~mask[:, None]": "hidden = mask[:, None]"}, "each is about 0"),
        ("a7.positional_encoding", {"return encoding[None]": "return encoding"}, "expected (1, "),
        (
            "a8.program_11",
            {'MISTAKE = "kernels-': 'MISTAKE = "kernel-'},
            "no id is called so. Did you mean `kernels-key-value-swapped`?",
        ),
        ("a9.first_wrong_step", {'    return ""\n': "    return None\n"}, "you return None, expected"),
    ],
)
def test_what_a_check_says(id, edits, says, sandbox_of):
    grade = _judged(id, edits, sandbox_of)
    problems = [outcome.problem or "" for outcome in grade.outcomes]
    assert any(says in problem for problem in problems), problems


@pytest.mark.slow
def test_an_exact_comparison_objects_to_right_implementations(sandbox_of):
    close = "assert np.allclose(output[b, h, t], expected @ value[b, h], atol=1e-5)"
    grade = _judged("a8.catches", {close: "assert (output[b, h, t] == expected @ value[b, h]).all()"}, sandbox_of)
    assert "Right results differ by rounding" in str(grade.outcomes[0].problem)


@pytest.mark.slow
def test_an_error_in_a_traced_call_shows_the_learners_line(sandbox_of):
    """AutoGraph runs other code, which the learner never saw."""
    named = "attention = self.mha(x, x, attention_mask=mask, training=training)"
    grade = _judged("a7.EncoderLayer", {named: "attention = self.mha(x, x, x, mask, training=training)"}, sandbox_of)
    problem = str(grade.outcomes[-1].problem) + str(grade.outcomes[-2].problem)
    assert ": attention = self.mha(x, x, x, mask, training=training), with x (" in problem
    assert "ag__" not in problem
