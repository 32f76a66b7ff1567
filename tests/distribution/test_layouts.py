"""`head_parallel` on eight simulated devices, which a process of its own computes with (`eight_devices.py`)."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import keras
import pytest

from kmha.distribution import head_parallel
from kmha.verify import tolerance

pytestmark = pytest.mark.slow
pytestmark = pytest.mark.slow
B, T, S, D = 4, 5, 7, 26  # as in eight_devices.py


@pytest.fixture(scope="module")
def found():
    if importlib.util.find_spec("jax") is None:
        pytest.skip("needs JAX")
    script = Path(__file__).with_name("eight_devices.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("number", "mesh"), [(1, (1, 2)), (2, (1, 4)), (3, (1, 8)), (4, (2, 4))])
def test_a_model_trains_to_the_same_numbers_on_one_and_on_several_devices(found, number, mesh):
    (losses, outputs), (parallel_losses, parallel_outputs) = found["training"][0], found["training"][number]
    assert losses[0] > losses[1] > losses[2]
    assert tolerance.is_close(parallel_losses, losses, "float64")
    assert tolerance.is_close(parallel_outputs, outputs, "float64")


def _bytes(length, width=D - 2):
    return B * length * width * 4


@pytest.mark.parametrize(
    ("layer", "sizes"),
    [
        ("attention", [_bytes(T, D)]),
        ("feed-forward", [_bytes(T, D)]),
        ("encoder", [_bytes(T)] * 2),
        ("decoder", [_bytes(T)] * 3),
        ("LoRA", [_bytes(T, D)]),
    ],
)
def test_a_sublayer_needs_one_all_reduce(found, layer, sizes):
    assert found["all_collectives"][layer][0] == [["all-reduce", size] for size in sizes]


@pytest.mark.parametrize(
    ("layer", "sizes"),
    [
        ("attention", [_bytes(T, D)]),
        ("feed-forward", [_bytes(T, D)]),
        ("encoder", [_bytes(T)] * 2),
        ("decoder", [_bytes(T), _bytes(T), _bytes(T) + _bytes(S)]),  # the last adds up the gradient of enc_output too
        ("LoRA", [_bytes(T, D) + 4 * 2 * 3]),  # the gradient of its matrix (rank, O) too
    ],
)
def test_the_backward_pass_of_a_sublayer_needs_one_all_reduce(found, layer, sizes):
    """It adds up one tensor for each input, though query, key and value all give gradients to it."""
    forward, step = found["all_collectives"][layer]
    assert step == [*forward, *(["all-reduce", size] for size in sizes)]


ATTENTION, FFN = "multi_head_attention/", "feed_forward/"
SPLIT = {  # (weight, shape): the axis that is split
    ATTENTION + "query/kernel": 0,
    ATTENTION + "query/bias": 0,
    ATTENTION + "query/lora_kernel_a": 0,
    ATTENTION + "attention_output/kernel": 0,
    ATTENTION + "attention_output/lora_kernel_a": 0,
    FFN + "dense1/kernel": 1,
    FFN + "dense1/bias": 0,
    FFN + "dense1/lora_kernel_b": 1,
    FFN + "dense2/kernel": 0,
    FFN + "dense2/lora_kernel_a": 0,
}


@pytest.mark.parametrize(("number", "weights"), [(0, 16), (1, 12)], ids=["LoRA", "int8"])
def test_the_weights_are_really_split(found, number, weights):
    assert len(found["shards"][number]) == weights
    for path, (shape, shard) in found["shards"][number].items():
        split = SPLIT.get(path)
        assert shard == [size // 8 if axis == split else size for axis, size in enumerate(shape)], path


def test_a_large_kernel_starts_with_the_same_numbers(found):
    """Keras initializes a weight whose bytes, times the number of devices, exceed 250 MiB in a compiled program."""
    (one, parallel), shard = found["large"]
    assert tolerance.is_close(parallel, one, "float32")
    assert shard == [1, 1024, 1024]


def test_a_map_for_the_built_in_layer_warns(found):
    [message] = set(found["messages"]["the built-in's"])
    assert message == (
        "mha: the layout (None, 'model', None) splits I, the input features, because kernels of kmha have the shape "
        "(H, I, O), where the built-in layer's have (I, H, O). The results are the same, but the devices must exchange "
        "much more. Use the layout ('model', None, None), which splits the heads, or "
        "`kmha.distribution.head_parallel(mesh)`."
    )


@pytest.mark.parametrize("case", ["right", "the built-in's layer", "stored apart"])
def test_other_maps_do_not_warn(found, case):
    assert found["messages"][case] == []


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("heads", "mha/query/kernel: the layout ('model', None, None) splits H over the 8 devices of the mesh axis"),
        ("heads", "so H must be a multiple of 8. Received: H=6. Change H, or make this axis of the mesh smaller."),
        ("hidden", "feed_forward/dense1/kernel: the layout (None, 'model') splits fully_connected_dim over the 8"),
        ("mesh", "expected a keras.distribution.DeviceMesh. Received: mesh=8. Try keras.distribution.DeviceMesh"),
        ("axis", "over the mesh axis 'heads', which `mesh` does not have. Received: the axes ('batch', 'model')"),
        ("one axis", "needs a mesh with at least two axes, because `ModelParallel` also splits the batch over one"),
        ("one axis", "keras.distribution.DeviceMesh((1, 8), (\"batch\", 'model')), and pass batch_dim_name"),
    ],
)
def test_errors(found, case, message):
    assert found["messages"][case].startswith("ValueError: ")
    assert message in found["messages"][case]


def test_other_backends():
    if keras.backend.backend() == "jax":
        pytest.skip("needs another backend than JAX")
    with pytest.raises(
        RuntimeError, match=r"Received: the backend '.*'. Set the environment variable KERAS_BACKEND=jax"
    ):
        head_parallel(None)
