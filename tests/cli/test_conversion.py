import json
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
from click.testing import CliRunner

import kmha
from kmha.cli import conversion, main
from kmha.interchange import LAYOUTS, canonical
from kmha.interchange.files import read_file, write_file

T, S, H, I, J, O = 3, 5, 3, 6, 8, 2


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def _random(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


def _run(*arguments):
    result = CliRunner().invoke(main, ["convert", *arguments])
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def _words(result):
    return " ".join(result.output.split())


PACKED = {
    "in_proj_weight": _random(3 * H * O, I),
    "in_proj_bias": _random(3 * H * O),
    "out_proj.weight": _random(I, H * O),
    "out_proj.bias": _random(I),
}


def _builtin(**arguments):
    layer = keras.layers.MultiHeadAttention(H, O, bias_initializer="random_normal", **arguments)
    layer.build((None, T, I), (None, S, J))
    return layer


def test_a_file_is_converted_and_the_table_says_what_became_what(tmp_path):
    write_file("attention.npz", PACKED)
    result = _run("attention.npz", "attention.weights.h5", "--to", "keras", "--heads", str(H), "--json", "report.json")
    assert result.exit_code == 0, result.output
    assert "Recognised as torch (torch.nn.MultiheadAttention, packed" in result.output
    assert "it has all 4 names, and the shapes fit 3 heads" in _words(result)
    assert "attention.npz → attention.weights.h5" in result.output
    assert "│ in_proj_weight  │ (18, 6) │ value/kernel            │ (6, 3, 2) │" in result.output
    assert "attention.weights.h5: 8 arrays with 168 numbers, float32." in result.output
    found = read_file("attention.weights.h5")
    assert np.array_equal(found["key/kernel"], PACKED["in_proj_weight"][6:12].reshape(H, O, I).transpose(2, 0, 1))
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["from"], report["to"], report["notes"]) == ("torch", "keras", [])
    assert report["weights"][-1] == {
        "from": {"name": "out_proj.bias", "shape": [I], "dtype": "float32"},
        "to": {"name": "attention_output/bias", "shape": [I], "dtype": "float32"},
    }


@pytest.mark.tensorflow
def test_a_layer_of_a_model_becomes_the_same_layer_of_another():
    x, y = keras.Input((T, I)), keras.Input((S, J))
    layers = [_builtin(name=name) for name in ("block1", "block2")]
    model = keras.Model([x, y], layers[1](layers[0](x, y), y))
    model.save("model.keras")
    result = _run("model.keras", "ours.weights.h5", "--prefix", "block2/", "--to", "ours", "--from", "keras")
    assert result.exit_code == 0, result.output
    assert "Recognised" not in result.output
    ours = kmha.MultiHeadAttention(H, O)
    keras.Model([x, y], ours(x, y)).load_weights("ours.weights.h5")
    data = _random(2, T, I), _random(2, S, J)
    assert np.allclose(ours(*data), layers[1](*data), atol=1e-5)


def test_without_out_nothing_is_written(tmp_path):
    write_file("attention.npz", PACKED)
    result = _run("attention.npz", "--to", "ours", "--heads", "2")
    assert result.exit_code == 0
    assert "No OUT was given, so nothing was written: 8 arrays" in _words(result)
    assert [path.name for path in tmp_path.iterdir()] == ["attention.npz"]


def test_without_to_the_file_is_shown(tmp_path):
    write_file("attention.npz", PACKED)
    result = _run("attention.npz", "--heads", "2")
    assert result.exit_code == 0
    assert "Recognised as torch (torch.nn.MultiheadAttention, packed" in _words(result)
    assert "│ in_proj_weight  │ (18, 6) │" in result.output
    assert "Add --to and a layout to see what it would become." in _words(result)
    assert [path.name for path in tmp_path.iterdir()] == ["attention.npz"]


def test_what_is_folded_is_said():
    weights = {name: array for name, array in canonical.read(_builtin()).items() if name != "query/bias"}
    weights["query/bias"] = np.zeros((H, O), "float32")
    write_file("keras.npz", weights)
    refused = _run("keras.npz", "addons.npz", "--from", "keras", "--to", "addons")
    assert refused.exit_code == 1
    assert "No place for `value/bias`: rows of scores sum to one" in _words(refused)
    assert "--fold moves it there" in _words(refused)
    assert "num_heads" not in refused.output
    folded = _run("keras.npz", "addons.npz", "--from", "keras", "--to", "addons", "--fold", "--json", "report.json")
    assert folded.exit_code == 0, folded.output
    assert folded.output.count("Note: ") == len(json.loads(Path("report.json").read_text())["notes"]) >= 2
    assert "│ key/bias " in folded.output
    assert read_file("addons.npz").keys() == {
        "query_kernel",
        "key_kernel",
        "value_kernel",
        "projection_kernel",
        "projection_bias",
    }


def test_what_is_not_there_is_filled_and_said():
    names = ("query/kernel", "key/kernel", "value/kernel", "attention_output/kernel")
    write_file("ours.npz", {name: _random(*((H, I, O) if name in names[:3] else (H, O, I))) for name in names})
    result = _run("ours.npz", "bert.npz", "--to", "bert-attention")
    assert result.exit_code == 0, result.output
    assert _words(result).count("it is filled with zeros, which change nothing.") == 4
    assert "│ – │ │ self.key.bias │ (6,) │" in _words(result)
    assert not read_file("bert.npz")["self.key.bias"].any()


def test_two_readings_have_to_be_chosen_from():
    """Kernels (3, 3, 3) are (heads, in, head size) as well as (in, heads, head size)."""
    names = ("query/kernel", "key/kernel", "value/kernel", "attention_output/kernel")
    write_file("cube.npz", {name: _random(3, 3, 3) + number for number, name in enumerate(names)})
    result = _run("cube.npz", "out.npz", "--to", "torch")
    assert result.exit_code == 2
    assert "cube.npz: the names and shapes fit 2 layouts, which would compute different things:" in _words(result)
    assert "  ours: kmha.MultiHeadAttention: kernels (heads, in, head size)\n  keras: " in result.output
    assert "Choose one: --from ours or --from keras." in _words(result)
    assert _run("cube.npz", "out.npz", "--from", "keras", "--to", "ours").exit_code == 0
    assert np.array_equal(read_file("out.npz")["key/kernel"], read_file("cube.npz")["key/kernel"].swapaxes(0, 1))


def test_heads_that_the_shapes_do_not_tell():
    write_file("attention.npz", PACKED)
    result = _run("attention.npz", "out.npz", "--to", "ours")
    assert result.exit_code == 2
    assert "do not determine the number of heads. 1, 2, 3 or 6 would fit. Choose one with --heads." in _words(result)
    result = _run("attention.npz", "out.npz", "--to", "ours", "--heads", "4")
    assert result.exit_code == 1
    assert "No layout fits" in _words(result)


def test_the_parts_of_a_model_that_are_tried():
    names = ["a.b.kernel", "a.c/kernel", "d/e.kernel", "kernel", "a.b.c.kernel"]
    assert conversion._prefixes(names) == ["a.", "d/", "a.b.", "a.c/", "d/e.", "a.b.c."]
    assert conversion._prefixes([]) == []
    deep = conversion._prefixes(["." * 1000] * 3 + [f"{i}/x" for i in range(50)])
    assert (len(deep), deep[:2], deep[-1]) == (100, [".", "0/"], "." * 50)


def test_parts_of_a_model_that_fit_are_named():
    layers = {"first": _builtin(), "second": _builtin()}
    weights = {f"decoder.{n}/{key}": a for n, layer in layers.items() for key, a in canonical.read(layer).items()}
    write_file("model.npz", {**weights, "head.kernel": _random(4, 5)})
    result = _run("model.npz", "--to", "ours")
    assert result.exit_code == 2
    parts = "--prefix decoder.first/ (keras), --prefix decoder.second/ (keras)."
    assert f"these options each select a part that fits one: {parts}" in _words(result)
    assert _run("model.npz", "--to", "ours", "--prefix", "decoder.second/").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "Missing argument 'IN'"),
        (["a.npz", "b.npz"], 2, "Missing option '--to', a layout. `kmha convert --list` prints them."),
        (["a.npz", "--from", "torch"], 2, "Missing option '--to', a layout."),
        (["a.npz", "--json", "a.json"], 2, "Missing option '--to', a layout."),
        (["a.npz", "--prefix", "x."], 2, "no name begins with 'x.'."),
        (["text.npz"], 1, "text.npz cannot be read as .npz"),
        (["none.npz", "--to", "ours"], 2, "'none.npz' does not exist"),
        (["a.npz", "b.npz", "--to", "kera"], 2, "Invalid value for '--to': There is no layout 'kera'."),
        (["a.npz", "b.npz", "--to", "auto"], 2, "Invalid value for '--to': There is no layout 'auto'"),
        (["a.npz", "b.npz", "--from", "theirs", "--to", "ours"], 2, "Invalid value for '--from'"),
        (["a.npz", "a.npz", "--to", "ours"], 2, "a.npz is the input file. Name another file."),
        (["a.npz", "no/b.npz", "--to", "ours"], 2, "the folder no does not exist"),
        (["a.npz", "b.npz", "--to", "ours", "--prefix", "x."], 2, "no name begins with 'x.'. Received: `in_proj_bias`"),
        (["a.npz", "b.npz", "--to", "ours", "--heads", "0"], 2, "0 is not in the range x>=1"),
        (["a.npz", "b.keras", "--heads", "3", "--to", "ours"], 1, "a .keras file cannot be written"),
        (["a.npz", "b.weights.h5", "--heads", "3", "--to", "d2l"], 1, "kmha does not know how Keras stores `W_k.bias`"),
        (["a.npz", "b.npz", "--from", "keras", "--to", "ours"], 1, "Unexpected for the layout `keras`: `in_proj_bias`"),
        (["text.npz", "b.npz", "--to", "ours"], 1, "text.npz cannot be read as .npz"),
        (["dense.npz", "b.npz", "--to", "ours"], 1, "No layout fits."),
        (["a.onnx", "b.npz", "--to", "ours"], 1, "a.onnx has the suffix '.onnx', so it cannot be read"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(arguments, status, message, tmp_path):
    write_file("a.npz", PACKED)
    write_file("dense.npz", {"dense/kernel": _random(4, 5)})
    for name in ("text.npz", "a.onnx"):
        (tmp_path / name).write_text("text")
    result = _run(*arguments)
    assert result.exit_code == status, result.output
    assert message in _words(result)
    assert not (tmp_path / "b.npz").exists()


def test_too_little_memory_is_told_in_a_line(monkeypatch):
    def convert(*_, **__):
        raise MemoryError("Unable to allocate 4.00 TiB")

    write_file("in.npz", {f"{role}/kernel": _random(H, I, O) for role in ("query", "key", "value", "attention_output")})
    monkeypatch.setattr(kmha.interchange, "convert", convert)
    result = _run("in.npz", "--from", "ours", "--to", "heads")
    assert result.exit_code == 1
    assert "in.npz: converting its weights takes more memory than there is. Convert a part of" in _words(result)


def test_the_layouts_are_listed():
    result = _run("--list", "--json", "layouts.json")
    assert result.exit_code == 0
    for name, layout in LAYOUTS.items():
        assert f" {name} " in result.output
        assert layout.says in _words(result).replace(" │ ", " ")
    assert json.loads(Path("layouts.json").read_text()).keys() == LAYOUTS.keys()


def test_no_framework_is_imported():
    write_file("attention.npz", PACKED)
    code = (
        "import sys\nfrom kmha.cli import main\n"
        "main('convert attention.npz out.npz --to keras --heads 3'.split(), standalone_mode=False)"
    )
    code = code.replace("main('", "try:\n    main('") + "\nexcept SystemExit as end:\n    print(end.code)"
    code += "\nprint(sorted({'keras', 'tensorflow', 'torch', 'jax', 'h5py'} & set(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert output.endswith("\n0\n[]\n"), output


def test_no_name_in_a_file_controls_the_terminal():
    """Names of arrays, and of members of archives, went to the terminal with their escape sequences."""
    np.savez("names.npz", **{"a\x1b]0;title\x07\u202e/" + name: array for name, array in PACKED.items()})
    with zipfile.ZipFile("members.npz", "w") as archive:
        archive.writestr("a\x1b]0;title\x07.txt", "")
    with zipfile.ZipFile("names.keras", "w") as archive:
        archive.writestr("config.json", json.dumps({}))
        archive.writestr("model.weights.h5", b"not \x1b]0;title\x07")
    with h5py.File("link.weights.h5", "w") as file:
        file["a\x1b]0;title\x07"] = h5py.SoftLink("/other")
    for name in ("names.npz", "members.npz", "names.keras", "link.weights.h5"):
        result = _run(name)
        assert result.exit_code == 1
        assert result.output.replace("\n", "").isprintable()
        assert name == "names.keras" or r"a\x1b]0;title\x07" in result.output
