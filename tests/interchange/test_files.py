import io
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
import zlib

import h5py
import keras
import ml_dtypes
import numpy as np
import pytest

import kmha
from kmha.interchange import canonical, files
from kmha.interchange.files import FileError, read_file, write_file

T, S, H, I, J, O, F, V = 3, 5, 7, 6, 8, 4, 9, 11
PACKAGES = {".safetensors": "safetensors", ".pt": "torch", ".pth": "torch", ".bin": "torch"}
PLAIN = (".npz", ".safetensors", ".pt", ".pth", ".bin")


def _needs(suffix):
    if suffix in PACKAGES:
        pytest.importorskip(PACKAGES[suffix])


def _random(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


WEIGHTS = {
    "encoder/query.kernel": _random((3, 5, 7)),
    "scalar": np.array(2.5),
    "none": np.zeros((0, 3), "float16"),
    "bfloat16": _random((2, 3)).astype(ml_dtypes.bfloat16),
    "one bfloat16": np.array(1.5, ml_dtypes.bfloat16),
    "turned": _random((5, 3)).T,
    "whole": np.arange(7),
    "big endian": np.arange(5, dtype=">f4"),
    "flags": np.array([True, False]),
}


@pytest.mark.parametrize("suffix", PLAIN)
def test_what_is_written_is_read_bit_for_bit(suffix, tmp_path):
    _needs(suffix)
    path = tmp_path / f"weights{suffix}"
    write_file(path, WEIGHTS)
    found = read_file(path)
    assert [*found] == [*WEIGHTS] if suffix != ".safetensors" else found.keys() == WEIGHTS.keys()
    for name, array in WEIGHTS.items():
        assert found[name].dtype == array.dtype.newbyteorder("<") or array.dtype == ml_dtypes.bfloat16
        assert found[name].shape == array.shape
        assert found[name].tobytes() == np.ascontiguousarray(array, found[name].dtype).tobytes(), name
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def _attention(**arguments):
    return keras.layers.MultiHeadAttention(H, O, **arguments)


def _model(layer):
    """A model with this layer alone."""
    query, value = keras.Input((T, I)), keras.Input((S, J))
    if isinstance(layer, kmha.layers.addons.MultiHeadAttention):
        return keras.Model([query, value], layer([query, value]))
    if isinstance(layer, kmha.layers.DecoderLayer):
        value = keras.Input((S, I))
        return keras.Model([query, value], layer(query, value))
    if isinstance(layer, keras.layers.GroupQueryAttention):
        return keras.Model(query, layer(query, query))
    if isinstance(layer, (keras.layers.MultiHeadAttention, kmha.MultiHeadAttention)):
        return keras.Model([query, value], layer(query, value))
    return keras.Model(query, layer(query))


LAYERS = {
    "built-in": lambda: _attention(bias_initializer="normal", name="block2"),
    "built-in, gate, value_dim": lambda: _attention(use_gate=True, value_dim=5, use_bias=False),
    "ours": lambda: kmha.MultiHeadAttention(H, O, bias_initializer="normal"),
    "ours, gate": lambda: kmha.MultiHeadAttention(H, O, use_gate=True),
    "grouped": lambda: keras.layers.GroupQueryAttention(O, 6, 2, bias_initializer="normal"),
    "Addons": lambda: kmha.layers.addons.MultiHeadAttention(O, H),
    "encoder": lambda: kmha.layers.EncoderLayer(I, 2, F),
    "decoder": lambda: kmha.layers.DecoderLayer(I, 2, F),
    "dense": lambda: keras.layers.Dense(F),
    "normalization": lambda: keras.layers.LayerNormalization(),
}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("suffix", [".weights.h5", ".keras"])
def test_a_model_of_one_layer_has_the_names_of_keras(make, suffix, tmp_path):
    model = _model(make())
    path = tmp_path / f"model{suffix}"
    model.save(path) if suffix == ".keras" else model.save_weights(path)
    layer = model.layers[-1]
    paths = {variable.path: np.asarray(variable) for variable in layer.weights}
    expected = {path.partition(f"{layer.name}/")[2]: array for path, array in paths.items()}
    if type(layer) in (keras.layers.Dense, keras.layers.LayerNormalization):
        expected = {f"{layer.name}/{name}": array for name, array in expected.items()}
    found = read_file(path)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert np.array_equal(found[name], array), name


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_keras_loads_what_is_written(make, tmp_path):
    source, target = _model(make()), _model(make())
    path = tmp_path / "attention.weights.h5"
    source.save_weights(path)
    weights = {name: array + 1 for name, array in read_file(path).items()}
    write_file(path, weights)
    target.load_weights(path)
    for variable, changed in zip(source.weights, target.weights, strict=True):
        assert np.array_equal(np.asarray(variable) + 1, np.asarray(changed)), variable.path


STACKS = {
    "encoder": lambda: kmha.layers.Encoder(2, I, 3, F, V, 13),
    "decoder, norm first": lambda: kmha.layers.Decoder(2, I, 3, F, V, 13, norm="pre"),
    "transformer": lambda: kmha.layers.Transformer(2, I, 3, F, V, 12, 13, 14),
    "transformer, tied": lambda: kmha.layers.Transformer(2, I, 3, F, V, V, 13, 14, tie_embeddings="all"),
}


def _stack(make):
    ids, other = keras.Input((T,), dtype="int32"), keras.Input((S, I))
    layer = make()
    if isinstance(layer, keras.Model):
        layer(np.ones((2, T), "int32"), np.ones((2, S), "int32"))
        return layer
    given = (ids, other) if isinstance(layer, kmha.layers.Decoder) else (ids,)
    return keras.Model(given, layer(*given, return_attention_scores=False))


@pytest.mark.parametrize("make", STACKS.values(), ids=STACKS)
def test_our_stacks(make, tmp_path):
    source, target = _stack(make), _stack(make)
    source.save_weights(tmp_path / "a.weights.h5")
    weights = read_file(tmp_path / "a.weights.h5")
    assert len(weights) == len(source.weights)
    assert all(any(variable.path.endswith(name) for variable in source.weights) for name in weights)
    write_file(tmp_path / "b.weights.h5", {name: array + 1 for name, array in weights.items()})
    target.load_weights(tmp_path / "b.weights.h5")
    for variable, changed in zip(source.weights, target.weights, strict=True):
        assert np.array_equal(np.asarray(variable) + 1, np.asarray(changed)), variable.path


@pytest.mark.tensorflow
@pytest.mark.parametrize("kind", ["TransformerEncoder", "TransformerDecoder"])
def test_the_blocks_of_keras_hub(kind, tmp_path):
    hub = pytest.importorskip("keras_hub")
    models = []
    for _ in range(2):
        x, y = keras.Input((T, I)), keras.Input((S, I))
        given = (x,) if kind == "TransformerEncoder" else (x, y)
        models.append(keras.Model(given, getattr(hub.layers, kind)(F, 3)(*given)))
    models[0].save_weights(tmp_path / "a.weights.h5")
    weights = read_file(tmp_path / "a.weights.h5")
    assert set(weights) == {variable.path.partition("/")[2] for variable in models[0].weights}
    write_file(tmp_path / "b.weights.h5", {name: array + 1 for name, array in weights.items()})
    models[1].load_weights(tmp_path / "b.weights.h5")
    for variable, changed in zip(*(model.weights for model in models), strict=True):
        assert np.array_equal(np.asarray(variable) + 1, np.asarray(changed)), variable.path


def test_as_many_heads_for_keys_as_for_queries_need_the_layers_name(tmp_path):
    model = _model(keras.layers.GroupQueryAttention(O, 6, 6))
    path = tmp_path / "grouped.weights.h5"
    model.save_weights(path)
    weights = {name: array + 1 for name, array in read_file(path).items()}
    expected = [np.asarray(variable) + 1 for variable in model.weights]
    write_file(path, weights, layer="grouped_query_attention")
    model.load_weights(path)
    for variable, array in zip(model.weights, expected, strict=True):
        assert np.array_equal(np.asarray(variable), array)


def test_bfloat16_in_keras(tmp_path):
    source, target = (_model(_attention(dtype="bfloat16")) for _ in range(2))
    source.save_weights(tmp_path / "a.weights.h5")
    weights = read_file(tmp_path / "a.weights.h5")
    assert {array.dtype for array in weights.values()} == {np.dtype(ml_dtypes.bfloat16)}
    write_file(tmp_path / "b.weights.h5", weights)
    target.load_weights(tmp_path / "b.weights.h5")
    for theirs, ours in zip(source.weights, target.weights, strict=True):
        assert np.array_equal(np.asarray(theirs), np.asarray(ours))


def _larger_model():
    keras.utils.set_random_seed(3)
    ids, x = keras.Input((T,), dtype="int32"), keras.Input((S, J), name="memory")
    table = keras.layers.Embedding(V, I, name="tokens")
    inner_input = keras.Input((T, I))
    inner = keras.Model(inner_input, _attention(name="self")(inner_input, inner_input), name="inner")
    y = keras.layers.Dropout(0.1)(inner(table(ids)))
    y = _attention(name="cross")(y, x)
    y = keras.layers.BatchNormalization(name="norm")(y)
    y = keras.layers.RMSNormalization(name="rms")(y)
    model = keras.Model([ids, x], keras.layers.Dense(2, use_bias=False, name="head")(y))
    model.compile("adam", "mse", run_eagerly=True)
    model.train_on_batch([np.ones((2, T), "int32"), np.ones((2, S, J), "float32")], np.ones((2, T, 2), "float32"))
    return model


@pytest.mark.tensorflow
@pytest.mark.parametrize("noted", [True, False])
def test_layers_of_a_larger_model_have_their_names(noted, tmp_path):
    """Also in files by a Keras that did not note the layers' names beside the variables: they are in config.json."""
    model = _larger_model()
    path = tmp_path / "model.keras"
    model.save(path)
    if not noted:
        _forget_names(path)
    paths = {variable.path: np.asarray(variable) for variable in model.weights}
    expected = {f"inner/{path}" if path.startswith("self/") else path: array for path, array in paths.items()}
    found = read_file(path)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert np.array_equal(found[name], array), name


def _forget_names(path):
    with zipfile.ZipFile(path) as archive:
        weights = io.BytesIO(archive.read("model.weights.h5"))
    with h5py.File(weights, "r+") as file:
        file.visititems(lambda _, item: item.attrs.__delitem__("name") if "name" in item.attrs else None)
    _replace_member(path, "model.weights.h5", weights.getvalue())


def test_several_layers_are_written_in_their_order(tmp_path):
    weights = {}
    for name in ("second", "first"):
        layer = _attention()
        layer.build((None, T, I), (None, S, J))
        weights |= {f"{name}/{key}": array for key, array in canonical.read(layer).items()}
    weights |= {"top/kernel": _random((I, 2)), "top/bias": _random((2,))}
    write_file(tmp_path / "two.weights.h5", weights)
    query, value = keras.Input((T, I)), keras.Input((S, J))
    layers = [_attention(name="second"), _attention(name="first"), keras.layers.Dense(2, name="top")]
    model = keras.Model([query, value], layers[2](layers[1](layers[0](query, value), value)))
    model.load_weights(tmp_path / "two.weights.h5")
    for variable in model.weights:
        assert np.array_equal(np.asarray(variable), weights[variable.path]), variable.path
    found = read_file(tmp_path / "two.weights.h5")
    assert {name: array.tobytes() for name, array in found.items()} == {n: a.tobytes() for n, a in weights.items()}


def test_layers_in_a_list_of_a_subclass_keep_apart(tmp_path):
    class Stack(keras.Model):
        def __init__(self):
            super().__init__()
            self.blocks = [keras.layers.Dense(size, name="same") for size in (3, 4)]

        def call(self, x):
            return self.blocks[1](self.blocks[0](x))

    model = Stack()
    model(np.ones((1, 2)))
    model.save_weights(tmp_path / "stack.weights.h5")
    shapes = {name: array.shape for name, array in read_file(tmp_path / "stack.weights.h5").items()}
    assert shapes == {
        "dense/kernel": (2, 3),
        "dense/bias": (3,),
        "dense_1/kernel": (3, 4),
        "dense_1/bias": (4,),
    }


def test_a_file_of_keras_2_has_its_names_in_it(tmp_path):
    with h5py.File(tmp_path / "old.h5", "w") as file:
        file.attrs["layer_names"] = ["mha", "input"]
        group = file.create_group("mha/mha")
        for number, name in enumerate(("query_kernel:0", "projection_bias:0")):
            group[name] = np.full((2,), number)
    found = read_file(tmp_path / "old.h5")
    assert {name: array.tolist() for name, array in found.items()} == {
        "query_kernel": [0, 0],
        "projection_bias": [1, 1],
    }


@pytest.mark.parametrize(
    "options", [{"compression": "gzip"}, {"shuffle": True}, {"fletcher32": True}, {"chunks": (2, 3)}]
)
def test_an_array_in_chunks_is_read(options, tmp_path):
    kernel = np.random.default_rng(0).normal(size=(7, 5))
    for more in ({}, {"compression": "gzip", "shuffle": True, "fletcher32": True}):
        with h5py.File(tmp_path / "x.weights.h5", "w") as file:
            file.create_dataset("layers/dense/vars/0", data=kernel, **more | options)
        (read,) = read_file(tmp_path / "x.weights.h5").values()
        np.testing.assert_array_equal(read, kernel)


def test_no_framework_is_imported(tmp_path):
    path = tmp_path / "model.keras"
    _model(_attention()).save(path)
    code = (
        "import sys\nfrom kmha.interchange.files import read_file, write_file\n"
        f"write_file({str(tmp_path / 'x.npz')!r}, read_file({str(path)!r}))\n"
        "print(sorted({'keras', 'tensorflow', 'torch', 'jax'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model"])
def test_a_checkpoint_of_a_training_is_unwrapped(key, tmp_path):
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(3, 5)
    path = tmp_path / "checkpoint.pt"
    others = {"optimizer": {"lr": 0.1}, "rng": torch.get_rng_state(), "best": torch.tensor(0.5)}
    torch.save({"epoch": 3, key: module.state_dict(), **others}, path)
    found = read_file(path)
    assert {name: array.shape for name, array in found.items()} == {"weight": (5, 3), "bias": (5,)}
    assert np.array_equal(found["weight"], module.weight.detach().numpy())


def test_torch_loads_what_is_written(tmp_path):
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(3, 5, dtype=torch.bfloat16)
    weights = {"weight": _random((5, 3)).astype(ml_dtypes.bfloat16), "bias": np.ones(5, ml_dtypes.bfloat16)}
    write_file(tmp_path / "linear.pt", weights)
    module.load_state_dict(torch.load(tmp_path / "linear.pt", weights_only=True))
    assert module.weight.dtype == torch.bfloat16
    assert np.array_equal(module.weight.detach().float().numpy(), weights["weight"].astype("float32"))


class _Runs:
    """A hostile pickle: it makes a folder when it is loaded."""

    def __reduce__(self):
        return os.mkdir, ("was-run",)


def _hostile(path):
    torch = pytest.importorskip("torch")
    torch.save({"weight": _Runs()}, path)


def _hostile_pickle(path):
    pytest.importorskip("torch")
    path.write_bytes(pickle.dumps(_Runs()))


def _torch(value):
    return lambda path: pytest.importorskip("torch").save(value(), path)


def _npz(**arrays):
    return lambda path: np.savez(path, **arrays)


def _text(text):
    return lambda path: path.write_text(text)


def _lying_header(path):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (2**40, 3)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", file.getvalue())


def _h5(fill):
    def make(path):
        with h5py.File(path, "w") as file:
            fill(file)

    return make


def _soft_link(file):
    file["layers/dense/vars/0"] = np.ones(3)
    file["layers/dense/vars/1"] = h5py.SoftLink("/layers/dense/vars/0")


def _external_link(file):
    file["layers/dense/vars"] = h5py.ExternalLink("/etc/passwd", "/")


def _circle(file):
    group = file.create_group("layers")
    group["layers"] = group


def _turned_name(file):
    file["layers/dense/vars/0"], file["layers/other/vars/0"] = np.ones(3), np.ones(5)
    file["layers/dense/vars"].attrs["name"] = "a\u202eb"


def _two_names(file):
    file["layers/dense/vars/0"] = np.ones((3, 5))
    file["layers/dense/vars/1"] = file["layers/dense/vars/0"]


def _doubled_groups(file):
    """Each group names the next twice, so there are 2**40 paths."""
    group = file.create_group("layers")
    for _ in range(40):
        inner = group.create_group("a")
        group["b"], group = inner, inner
    group["vars/0"] = np.ones(3)


def _nested(file):
    file["/".join(["a"] * 70 + ["vars/0"])] = np.ones(3)


def _zeros(file):
    """Arrays that each compress as well as zeros do."""
    for number in range(5):
        data = np.zeros(2**21, "f4")
        file.create_dataset(f"layers/dense/vars/{number}", data=data, chunks=(2**18,), compression="gzip")


def _shape_bomb(file):
    file.create_dataset("layers/dense/vars/0", shape=(2**20, 2**14), dtype="f4", chunks=(2**10, 2**10))


def _large_chunk(file):
    """HDF5 reads all of a chunk, of which the array has a single number."""
    chunked = {"shape": (1,), "maxshape": (None,), "chunks": (2**24,), "compression": "gzip"}
    file.create_dataset("layers/dense/vars/0", dtype="f4", data=np.ones(1, "f4"), **chunked)


def _many_chunks(file):
    """A kilobyte for which HDF5 takes gigabytes."""
    file.create_dataset("layers/dense/vars/0", shape=(2**22,), dtype="i1", chunks=(1,))


def _same_bytes(path):
    """Two arrays, the address of whose numbers is the same."""
    with h5py.File(path, "w", libver="earliest") as file:
        for number in range(2):
            file.create_dataset(f"layers/dense/vars/{number}", data=np.full(2**23, number, "f4"))
        first, second = (file[f"layers/dense/vars/{number}"].id.get_offset() for number in range(2))
    data = bytearray(path.read_bytes()[:second].replace(struct.pack("<Q", second), struct.pack("<Q", first)))
    data[40:48] = struct.pack("<Q", len(data))  # the end of the file
    path.write_bytes(data)


def _chunk(data):
    """A function that writes these bytes as the only chunk of an array of 60 bytes."""
    gzip = {"shape": (3, 5), "dtype": "f4", "chunks": (3, 5), "compression": "gzip"}
    return lambda file: file.create_dataset("layers/dense/vars/0", **gzip).id.write_direct_chunk((0, 0), data)


def _hidden_chunk(file):
    """A chunk that decompresses to a million times its size, once the filters before have put its bytes in order."""
    pipeline = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    pipeline.set_chunk((3, 5))
    pipeline.set_deflate(9)
    pipeline.set_shuffle()
    pipeline.set_fletcher32()
    group = file.create_group("layers/dense/vars")
    h5py.h5d.create(group.id, b"0", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((3, 5)), pipeline)


def _long_label(file):
    file["layers/dense/l/vars/0"] = np.ones(3)
    file.create_group("layers/dense/vars").attrs["name"] = "a" * 2_000


def _long_labels(file):
    """Names that are too long together. Each array below would repeat them."""
    path = "layers/dense"
    for _ in range(3):
        file.create_group(f"{path}/vars").attrs["name"] = "a" * 400
        path += "/l"
    file["layers/dense/l/l/vars/0"] = np.ones(3)


def _texts(file):
    file["layers/dense/vars/0"] = ["text"]


def _keras_without_weights(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", json.dumps({}))


def _keras(config):
    """A `.keras` file whose weights can be read, and whose config is what `config` writes."""

    def make(path):
        _model(_attention()).save(path)
        _replace_member(path, "config.json", config)

    return make


@pytest.mark.parametrize("config", ["[" + "[]," * 10**6 + "[]]", '"' + "a" * 2**24 + '"'])
def test_a_long_config_is_not_needed(tmp_path, config):
    """A constant table of positions or of words stands in it, as a list."""
    _model(_attention()).save(tmp_path / "x.keras")
    names = read_file(tmp_path / "x.keras").keys()
    _keras(config)(tmp_path / "x.keras")
    assert read_file(tmp_path / "x.keras").keys() == names


def _replace_member(path, name, content):
    with zipfile.ZipFile(path) as archive:
        contents = {each: archive.read(each) for each in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, old in contents.items():
            archive.writestr(each, content if each == name else old)


def _sparse(path):
    """A file that seems to have 64 MiB, and takes 4 KiB."""
    header = b'{"a":{"dtype":"F32","shape":[16777216],"data_offsets":[0,67108864]}}'
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + 2**26)


def _zip_bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.npy", "w") as member:
        for _ in range(17):
            member.write(bytes(2**22))


def _zip_of_bombs(path):
    """Many arrays that are each small enough."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(5):
            archive.writestr(f"{number}.npy", bytes(2**23))


def _overlapping(path, names=(b"a.npy", b"b.npy", b"c.npy")):
    """Members that share the stored bytes of one: each header calls the headers after it its extra field."""
    plain = np.random.default_rng(3).bytes(2**16)
    starts = [sum(30 + len(each) for each in names[:place]) for place in range(len(names) + 1)]
    sizes = struct.pack("<III", zlib.crc32(plain), len(plain), len(plain))
    local, listed = b"", b""
    for name, start in zip(names, starts, strict=False):
        after = starts[-1] - start - 30 - len(name)
        local += b"PK\3\4" + struct.pack("<5H", 20, 0, 0, 0, 0) + sizes + struct.pack("<HH", len(name), after) + name
        listed += b"PK\1\2" + struct.pack("<6H", 20, 20, 0, 0, 0, 0) + sizes
        listed += struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, start) + name
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, len(names), len(names), len(listed), len(local + plain), 0)
    path.write_bytes(local + plain + listed + end)


def _zip_bomb_beside_much(path):
    """A bomb that a check of the whole file would miss, because it stands beside incompressible data."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", np.random.default_rng(3).bytes(2**20))
        archive.writestr("b.npy", bytes(2**26))


def _shape_bomb_beside_much(file):
    """A thousandth of what is declared is there."""
    file.create_dataset("layers/dense/vars/0", data=np.ones(2**20, "f4"))
    file.create_dataset("layers/dense/vars/1", shape=(2**9, 2**20), dtype="f4", chunks=(2**9, 2**9))


def _many_shapes(file):
    for number in range(3):
        file.create_dataset(f"layers/dense/vars/{number}", shape=(2**9, 2**18), dtype="f4", chunks=(2**9, 2**9))


def _expanded():
    return {"a": __import__("torch").zeros(1).expand(2**26)}


def _one_storage():
    """Tensors that are each not much larger than their storage."""
    storage = __import__("torch").zeros(2**17)
    return {str(number): storage.expand(60, -1) for number in range(2)}


def _in_itself():
    found = {}
    return found | {"state_dict": found, "model": found.setdefault("state_dict", found)}


BAD = [
    ("x.onnx", _text("x"), r"has the suffix '\.onnx', so it cannot be read\. Expected \.weights\.h5, .* or \.bin"),
    ("x", _text("x"), "has no suffix"),
    ("x.npz", lambda path: None, "does not exist"),
    ("x.npz", lambda path: path.mkdir(), "is a folder"),
    *((f"x{suffix}", _text(""), "is empty") for suffix in files.READABLE),
    *(
        (f"x{suffix}", _text("no weights at all"), f"cannot be read as {suffix}|contains other")
        for suffix in files.READABLE
    ),
    ("x.npz", _npz(a=np.array([{}, None], object)), "`a` is an array of objects. Only pickle"),
    ("x.npz", _npz(a=np.array(["text"])), "contains `a`, an array of <U4. Expected arrays of real numbers"),
    ("x.npz", _npz(a=np.ones(3, complex)), "`a`, an array of complex128"),
    ("x.npz", _npz(), "contains no weights"),
    ("x.npz", _lying_header, "takes 13194139533312 bytes, but the file has 0"),
    (
        "x.npz",
        _overlapping,
        r"take 196,608 bytes together, but the file has 65,\d+: they overlap\. ",
    ),
    ("x.pt", _overlapping, "they overlap"),
    ("x.keras", lambda path: _overlapping(path, [b"config.json", b"model.weights.h5"]), "they overlap"),
    ("x.npz", _zip_bomb, "No weights compress like that"),
    ("x.npz", _zip_bomb_beside_much, r"`b\.npy` takes .* No weights compress like that"),
    ("x.weights.h5", _h5(_shape_bomb_beside_much), "`layers/dense/vars/1` takes 0 bytes .* No weights compress"),
    ("x.npz", _zip_of_bombs, "No weights compress like that"),
    ("x.weights.h5", _h5(_many_shapes), "No weights compress like that"),
    ("x.pt", _torch(_expanded), "No weights compress like that"),
    ("x.pt", _torch(_one_storage), "`all arrays` takes .* No weights compress like that"),
    ("x.pt", _torch(_in_itself), "contains `state_dict`, a dict"),
    ("x.keras", _keras_without_weights, r"has no model\.weights\.h5, .* Received: 'config\.json'\."),
    ("x.keras", _keras("[" * 10**5), r"its config\.json cannot be read: "),
    (
        "x.safetensors",
        _sparse,
        r"`x\.safetensors` takes \d?,?\d+ bytes in the file and would take 67,.* No weights compress like",
    ),
    (
        "x.weights.h5",
        _h5(_long_label),
        "`layers/dense` is a layer whose name has 2,000 characters.* Rename the layer",
    ),
    ("x.weights.h5", _h5(_long_labels), "`layers/dense/l/l` is a layer whose name has 1,200 characters"),
    ("x.weights.h5", _h5(lambda file: file.create_group("a/" + "b" * 4_000)), "is a path of 4,002 characters"),
    ("x.weights.h5", _h5(_large_chunk), "No weights compress like that"),
    (
        "x.weights.h5",
        _h5(_chunk(zlib.compress(bytes(2**26), 9))),
        "`layers/dense/vars/0` has a chunk of more than 60 bytes",
    ),
    ("x.weights.h5", _h5(_hidden_chunk), "`layers/dense/vars/0` is compressed in a way that kmha does not read"),
    ("x.weights.h5", _h5(_chunk(bytes(1000))), "`layers/dense/vars/0` has a chunk of more than 60 bytes"),
    (
        "x.weights.h5",
        _h5(lambda file: file.create_dataset("layers/dense/vars/0", data=np.ones((3, 5)), compression="lzf")),
        "`layers/dense/vars/0` is compressed in a way that kmha does not read. It reads gzip",
    ),
    ("x.weights.h5", _h5(_soft_link), "`layers/dense/vars/1` is a link"),
    ("x.weights.h5", _h5(_external_link), "`layers/dense/vars` is a link"),
    ("x.weights.h5", _h5(_texts), "`layers/dense/vars/0` is an array of objects or texts"),
    ("x.weights.h5", _h5(_circle), "`layers/layers` and `layers` are the same"),
    ("x.weights.h5", _h5(_two_names), "`layers/dense/vars/1` and `layers/dense/vars/0` are the same"),
    ("x.weights.h5", _h5(_doubled_groups), "`layers(/a)*/b` and `layers(/a)*` are the same"),
    ("x.weights.h5", _h5(_nested), "nested deeper than 64 groups"),
    ("x.weights.h5", _h5(_many_chunks), "more than 1,000,000 chunks"),
    ("x.weights.h5", _same_bytes, "several of its arrays are the same bytes of the file"),
    ("x.weights.h5", _h5(_zeros), "`all arrays` takes .* No weights compress like that"),
    ("x.npz", _npz(**{"a\x1b]0;title\x07": np.ones(3)}), r"control characters in its name: 'a\\x1b\]0;title\\x07'"),
    (
        "x.npz",
        _npz(**{"q" * 60_000: np.ones(3)}),
        r"whose name has 60,000 characters: 'q{80}'…. ",
    ),
    (
        "x.npz",
        _npz(**{f"k{i}": np.ones(()) for i in range(20_001)}),
        "20,001 arrays. kmha reads at most 20,000",
    ),
    ("x.weights.h5", _h5(_turned_name), r"control characters in its name: .*\\u202e"),
    ("x.weights.h5", _h5(_shape_bomb), "No weights compress like that"),
    ("x.weights.h5", _h5(lambda file: file.create_group("layers")), "contains no weights"),
    ("x.weights.h5", _h5(lambda file: file.create_dataset("a/b", data=np.ones(3))), "has `a/b`, but Keras writes"),
    ("x.pt", _hostile, "contains other things than tensors"),
    ("x.bin", _hostile_pickle, "is no checkpoint that torch.save wrote"),
    ("x.pt", _torch(lambda: [1, 2]), "contains a list. Expected tensors by name"),
    ("x.pt", _torch(lambda: {"epoch": 3, "a": None}), "contains `epoch`, a int, among `epoch`, `a`"),
    ("x.pt", _torch(lambda: {"a": __import__("torch").eye(3).to_sparse()}), "`a` is a sparse"),
]


@pytest.mark.parametrize(("name", "make", "message"), BAD, ids=[f"{name} {message[:30]}" for name, _, message in BAD])
def test_what_cannot_be_read_is_told_in_a_line(name, make, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kmha.interchange.errors.LIMIT", 2**25)
    _needs("." + name.rpartition(".")[2])
    make(tmp_path / name)
    with pytest.raises(FileError, match=message) as error:
        read_file(tmp_path / name)
    assert str(tmp_path / name) in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "was-run").exists()


def test_a_name_that_is_no_text_is_not_read(tmp_path):
    """HDF5 crashes on a text that damage made another thing."""
    _model(_attention(name="attention")).save_weights(tmp_path / "x.weights.h5")
    with h5py.File(tmp_path / "x.weights.h5", "r+") as file:
        file["layers/multi_head_attention/query_dense/vars"].attrs["name"] = np.arange(3)
    assert "query/kernel" in read_file(tmp_path / "x.weights.h5")


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("keras_files.MOST_ARRAYS", "contains more than 20 arrays, the most"),
        ("hdf5._MOST_OBJECTS", "has more than 20 groups and arrays"),
    ],
)
def test_walking_through_a_file_ends_at_a_limit(limit, message, tmp_path, monkeypatch):
    monkeypatch.setattr(f"kmha.interchange.{limit}", 20)
    with h5py.File(tmp_path / "x.weights.h5", "w") as file:
        for number in range(21):
            file[f"layers/dense/vars/{number}"] = np.ones(3)
    with pytest.raises(FileError, match=message):
        read_file(tmp_path / "x.weights.h5")


@pytest.mark.parametrize("suffix", [".weights.h5", ".keras", ".npz", ".safetensors", ".pt"])
@pytest.mark.parametrize("part", [0.3, 0.9])
def test_a_truncated_file(suffix, part, tmp_path):
    _needs(suffix)
    path = tmp_path / f"x{suffix}"
    if suffix in (".weights.h5", ".keras"):
        model = _model(_attention())
        model.save(path) if suffix == ".keras" else model.save_weights(path)
    else:
        write_file(path, WEIGHTS)
    path.write_bytes(path.read_bytes()[: int(part * path.stat().st_size)])
    with pytest.raises(FileError, match=r"truncated|damaged"):
        read_file(path)


@pytest.mark.parametrize(
    ("name", "weights", "message"),
    [
        (
            "x.keras",
            {"a": np.ones(3)},
            r"a \.keras file cannot be written, because it holds a model, .* Write \.weights\.h5",
        ),
        ("x.onnx", {"a": np.ones(3)}, "cannot be written"),
        ("no/x.npz", {"a": np.ones(3)}, "the folder .*no does not exist"),
        (".", {"a": np.ones(3)}, "no suffix"),
        ("x.npz", {}, "no weights to write"),
        ("x.npz", {"a": np.array([None])}, "The weights contain `a`, an array of object"),
        ("x.weights.h5", {"in_proj_weight": np.ones((3, 5))}, "kmha does not know how Keras stores `in_proj_weight`"),
        ("x.weights.h5", {"query/kernel": np.ones(1), "attention_output/kernel": np.ones(1), "a/b": np.ones(1)}, "`b`"),
    ],
)
def test_what_cannot_be_written_is_told_and_leaves_nothing(name, weights, message, tmp_path):
    with pytest.raises(FileError, match=message):
        write_file(tmp_path / name, weights)
    assert [*tmp_path.iterdir()] == []


def test_an_unknown_layer_of_keras(tmp_path):
    known = "kmha knows in Keras files\\. Expected one of grouped_query_attention"
    with pytest.raises(FileError, match=f"'attention' is not a layer name that {known}"):
        write_file(tmp_path / "x.weights.h5", {"kernel": np.ones((3, 5))}, layer="attention")


@pytest.mark.parametrize(
    ("suffix", "extra"), [(".safetensors", "convert"), (".pt", "torch"), (".weights.h5", "convert")]
)
def test_a_missing_package_is_named(suffix, extra, tmp_path, monkeypatch):
    for package in ("safetensors", "torch", "h5py"):
        for module in [name for name in sys.modules if name.split(".")[0] == package]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, package, None)
    path = tmp_path / f"x{suffix}"
    path.write_text("x")
    with pytest.raises(FileError, match=rf"is not installed\. Run: pip install 'kmha\[{extra}\]'"):
        read_file(path)
    with pytest.raises(FileError, match=rf"is not installed\. Run: pip install 'kmha\[{extra}\]'"):
        write_file(path, {"kernel": np.ones((3, 5))})
    assert path.read_text() == "x"


def test_an_interrupted_write_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "x.npz"
    write_file(path, {"a": np.ones(3)})
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_file(path, {"a": np.zeros(5)})
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.npz"]
