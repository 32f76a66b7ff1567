"""Derivatives of every order and kind through torch's fused kernel."""

import gc
import weakref

import keras
import numpy as np
import pytest

import kmha
from kmha.core.attention import attend, masked_softmax
from kmha.core.projection import project_heads

if keras.backend.backend() != "torch":
    pytest.skip("needs torch behind Keras", allow_module_level=True)

import torch

pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated"),
    pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace the builtin"),
]

B, T, S, H, O, V = 2, 3, 5, 2, 4, 3
MASK = np.random.default_rng(0).random((B, 1, T, S)) > 0.4
MASK[0, :, 1] = False  # a row with nothing to attend to
OPTIONS = [
    {},
    {"causal": True},
    {"window": 2},
    {"mask": torch.tensor(MASK)},
    {"mask": torch.tensor(MASK), "scale": 1.3},
]


def _inputs(**needed):
    rng = np.random.default_rng(1)
    shapes = {"query": (B, T, H, O), "key": (B, S, H, O), "value": (B, S, H, V)}
    return [
        torch.tensor(rng.normal(size=shape), dtype=torch.float32, requires_grad=needed.get(name, True))
        for name, shape in shapes.items()
    ]


def _fused(**options):
    def run(*inputs):
        mixed, scores = attend(*inputs, **options)
        assert (scores is None) == (options.get("flash") is None)  # the fused kernel has no scores, and the steps have
        return mixed

    return run


def _derivatives(run):
    """Return the output, its first derivatives, and the derivatives of a function of those."""
    inputs = _inputs()
    output = run(*inputs)
    weights = torch.linspace(-1.0, 1.0, output.numel()).reshape(output.shape)
    first = torch.autograd.grad((output * weights).sum(), inputs, create_graph=True)
    second = torch.autograd.grad(sum(x.pow(3).sum() for x in first), inputs)
    return [x.detach() for x in (output, *first, *second)]


@pytest.mark.parametrize("options", OPTIONS)
def test_first_and_second_derivatives_are_those_of_the_steps(options):
    for one, other in zip(*(_derivatives(_fused(**options, flash=flash)) for flash in (None, False)), strict=True):
        assert other.abs().max() > 1e-3
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", OPTIONS)
def test_functional_derivatives_are_those_of_the_steps(options):
    inputs = _inputs()

    def loss(run):
        return lambda query: run(query, *inputs[1:]).square().sum()

    fused, steps = (_fused(**options, flash=flash) for flash in (None, False))
    one, other = (torch.func.hessian(loss(run))(inputs[0]) for run in (fused, steps))
    assert torch.allclose(one, other, rtol=1e-4, atol=1e-5)
    forward, reverse = (transform(loss(fused))(inputs[0]) for transform in (torch.func.jacfwd, torch.func.jacrev))
    assert torch.allclose(forward, reverse, rtol=1e-4, atol=1e-5)


def test_forward_mode():
    inputs = _inputs()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(inputs[0], torch.ones_like(inputs[0]))
        tangent = torch.autograd.forward_ad.unpack_dual(_fused()(dual, *inputs[1:])).tangent
    jacobian = torch.autograd.functional.jacobian(lambda query: _fused()(query, *inputs[1:]), inputs[0])
    assert torch.allclose(tangent, jacobian.sum((-4, -3, -2, -1)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("needed", [{"query": False}, {"key": False, "value": False}])
def test_only_what_needs_a_gradient_gets_one(needed):
    inputs = _inputs(**needed)
    wanted = [x for x in inputs if x.requires_grad]
    gradients = []
    for flash in (None, False):
        _fused(flash=flash)(*inputs).square().sum().backward()
        gradients.append([x.grad.clone() for x in wanted])
        assert all(x.grad is None for x in inputs if not x.requires_grad)
        for x in wanted:
            x.grad = None
    assert all(torch.allclose(one, other, rtol=1e-4, atol=1e-5) for one, other in zip(*gradients, strict=True))


def test_a_graph_that_is_retained_gives_the_same_gradient_again():
    inputs = _inputs()
    loss = _fused()(*inputs).square().sum()
    first = torch.autograd.grad(loss, inputs, retain_graph=True)
    again = torch.autograd.grad(loss, inputs)
    assert all(map(torch.allclose, first, again))
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(loss, inputs)


def test_a_gradient_penalty_trains_as_without_the_fused_kernel():
    x = torch.tensor(np.random.default_rng(0).normal(size=(B, S, 6)), dtype=torch.float32)
    gradients = []
    for flash in (None, False):
        keras.utils.set_random_seed(1)
        layer = kmha.MultiHeadAttention(H, O, flash_attention=flash)
        inputs = x.clone().requires_grad_(True)
        (slope,) = torch.autograd.grad(layer(inputs, inputs).square().sum(), inputs, create_graph=True)
        slope.square().sum().backward()
        gradients.append([weight.value.grad for weight in layer.weights if weight.value.grad is not None])
    assert len(gradients[0]) == len(gradients[1]) >= 7
    assert all(torch.allclose(one, other, rtol=1e-3, atol=1e-3) for one, other in zip(*gradients, strict=True))


@pytest.fixture
def seen(monkeypatch):
    """What torch's kernel gets."""
    kernel, seen = torch.nn.functional.scaled_dot_product_attention, {}
    monkeypatch.setattr(
        torch.nn.functional,
        "scaled_dot_product_attention",
        lambda *heads, **options: seen.update(heads=heads, **options) or kernel(*heads, **options),
    )
    return seen


@pytest.mark.parametrize("shape", [(B, 1, 1, S), (1, 1, T, S), (B, 1, T, S), (B, H, T, S), (T, S)])
def test_the_kernel_gets_heads_and_mask_as_they_are(shape, seen):
    """Neither the heads nor a mask for all heads are copied, which took up to five times the memory."""
    inputs = [x.detach() for x in _inputs()]
    _fused(mask=torch.ones(shape, dtype=torch.bool))(*inputs)
    assert [x.data_ptr() for x in seen["heads"]] == [x.data_ptr() for x in inputs]
    assert seen["attn_mask"].numel() == np.prod(shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(B, 1, 1, S), (T, S), (B, H, T, S)])
def test_what_is_hidden_changes_nothing_and_nothing_visible_gives_zeros(dtype, shape):
    mask = torch.tensor(np.random.default_rng(4).random(shape) > 0.4)
    mask[..., 0, :] = False
    mask[..., 3] = False
    query, key, value = (x.detach().to(dtype) for x in _inputs())
    found, expected = (_fused(mask=mask, flash=flash)(query, key, value) for flash in (None, False))
    hidden = ~torch.broadcast_to(mask, (B, H, T, S)).any(2).transpose(1, 2)  # (B, S, H): keys that nobody sees
    key, value = (torch.where(hidden[..., None], 1e3, x) for x in (key, value))
    assert torch.equal(_fused(mask=mask)(query, key, value), found)
    tolerance = 1e-5 if dtype == torch.float32 else 0.02
    assert torch.allclose(found, expected, rtol=0, atol=tolerance)
    empty = ~torch.broadcast_to(mask, (B, H, T, S)).any(-1).transpose(1, 2)  # (B, T, H)
    assert empty.any()
    assert not found[empty].any()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_query_with_nothing_to_attend_to_gives_zeros_whatever_it_is(bad):
    mask = torch.ones((B, 1, T, 1), dtype=torch.bool)
    mask[1, 0, 2] = False
    query, key, value = _inputs()
    with torch.no_grad():
        query[1, 2] = bad
    mixed = _fused(mask=mask)(query, key, value)
    assert not mixed[1, 2].any()
    assert torch.isfinite(mixed).all()
    upstream = torch.ones_like(mixed)
    upstream[1, 2] = bad
    _, _, d_value = torch.autograd.grad(mixed[0].sum(), (query, key, value))
    assert torch.isfinite(d_value[0]).all()
    query, key, value = _inputs()
    found = torch.autograd.grad(_fused(mask=mask)(query, key, value), (query, key, value), upstream)
    assert all(torch.isfinite(x).all() for x in found)


@pytest.mark.parametrize("options", [{"window": 2}, {"mask": torch.ones((B, 1, T, 0), dtype=torch.bool)}])
def test_no_keys_give_zeros(options):
    query, key, value = (x.detach() for x in _inputs())
    mixed = _fused(**options)(query, key[:, :0], value[:, :0])
    assert mixed.shape == (B, T, H, V)
    assert not mixed.any()


def test_dtypes_that_differ_are_made_one():
    query, key, value = (x.detach() for x in _inputs())
    mixed = _fused()(query, key.half(), value.to(torch.bfloat16))
    assert mixed.dtype == torch.float32
    assert torch.allclose(mixed, _fused()(query, key.half().float(), value.to(torch.bfloat16).float()), atol=1e-6)


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_hook_of_the_caller_changes_the_gradients(create_graph):
    inputs = _inputs()
    mixed = _fused()(*inputs)
    mixed.register_hook(lambda gradient: gradient * 0)
    found = torch.autograd.grad(mixed.square().sum(), inputs, create_graph=create_graph)
    assert not any(x.any() for x in found)


def test_a_gradient_that_ends_at_the_mixed_values_keeps_nothing_alive():
    kept = []
    for _ in range(3):
        mixed = _fused()(*_inputs())
        (gradient,) = torch.autograd.grad(mixed.pow(3).sum(), mixed, create_graph=True)
        kept.append(weakref.ref(gradient))
        del mixed, gradient
    gc.collect()
    assert not any(reference() is not None for reference in kept)


def test_a_mask_whose_last_axis_is_one_is_written_out_for_the_kernel(seen):
    """Kernels for GPUs refuse it otherwise."""
    _fused(mask=torch.tensor(MASK.any(-1, keepdims=True)))(*_inputs())
    assert seen["attn_mask"].shape == (B, 1, T, S)
    assert seen["attn_mask"].is_contiguous()


def test_inputs_on_another_device_are_moved_to_the_kernels():
    projected = project_heads(torch.ones((2, 3, 4)), torch.ones((5, 4, 6), device="meta"))
    assert projected.device.type == "meta"
    assert projected.shape == (2, 3, 5, 6)


def test_a_softmax_of_bfloat16_needs_no_copy_in_float32(monkeypatch):
    logits = torch.tensor(np.random.default_rng(0).normal(size=(B, H, T, 33)) * 8).to(torch.bfloat16)
    expected = torch.softmax(logits.float(), -1).to(torch.bfloat16)
    dtypes, softmax = [], keras.ops.softmax
    monkeypatch.setattr("keras.ops.softmax", lambda x, axis: dtypes.append(x.dtype) or softmax(x, axis))
    assert torch.equal(masked_softmax(logits), expected)
    assert dtypes == [torch.bfloat16]


@pytest.mark.filterwarnings("ignore")  # torch's compiler warns of Keras' own code
def test_compiled_and_exported():
    layer = kmha.MultiHeadAttention(H, O)
    x = torch.ones(B, S, 6)
    expected = layer(x, x)
    compiled = torch.compile(lambda x: layer(x, x), backend="eager", fullgraph=False)
    assert torch.allclose(compiled(x), expected, atol=1e-6)
    inputs = torch.rand(B, S, 6, requires_grad=True)
    slopes = [torch.autograd.grad(call(inputs).square().sum(), inputs)[0] for call in (compiled, lambda x: layer(x, x))]
    assert torch.allclose(*slopes, atol=1e-6)

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x, x)

    exported = torch.export.export(Module(), (x,), strict=False)
    assert torch.allclose(exported.module()(x), expected, atol=1e-6)
    assert any("scaled_dot_product_attention" in str(node.target) for node in exported.graph.nodes)
