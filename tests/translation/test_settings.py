import dataclasses
import json

import pytest

from kmha.translation import settings
from kmha.translation.settings import Settings, SettingsError, differences


def test_every_profile_is_complete_and_has_a_comment():
    names = sorted(path.stem for path in settings.PROFILES.glob("*.toml"))
    assert {"cpu", "base", "dates-cpu"} <= set(names)
    for name in names:
        task, _, profile = name.rpartition("-")
        assert isinstance(Settings.load(profile, task or "multi30k"), Settings)
        assert (settings.PROFILES / f"{name}.toml").read_text().startswith("# ")


def test_a_profile_of_the_task_comes_before_the_general_one():
    dates, multi30k, files = (Settings.load("cpu", task) for task in ("dates", "multi30k", "files"))
    assert multi30k == files
    assert multi30k.training.steps > dates.training.steps
    assert (multi30k.training.beta_1, multi30k.training.beta_2, multi30k.training.epsilon) == (0.9, 0.98, 1e-9)
    assert dates.model.num_layers == 2
    assert dates.training.beta_2 == multi30k.training.beta_2  # which the profile of the dates doesn't say
    assert Settings.load("base", "dates").model.embedding_dim == 512


def test_through_json_and_back():
    given = Settings.load("cpu", "dates", ["training.clip_norm=1"])
    assert Settings.from_dict(json.loads(json.dumps(dataclasses.asdict(given)))) == given
    assert isinstance(given.training.clip_norm, float)


def test_entries_over_a_profile():
    entries = ["model.norm=pre", "data.lowercase=true", "training.peak_learning_rate = 0.25", 'search.beam_size="7"']
    loaded = Settings.load("cpu", "dates", entries[:3])
    assert (loaded.model.norm, loaded.data.lowercase, loaded.training.peak_learning_rate) == ("pre", True, 0.25)
    with pytest.raises(SettingsError, match=r"search.beam_size must be a whole number. Received: '7'"):
        Settings.load("cpu", "dates", entries)


def test_a_users_profile_holds_only_what_differs(tmp_path):
    (tmp_path / "wide.toml").write_text('extends = "cpu"\n[model]\nembedding_dim = 72\n')
    (tmp_path / "long.toml").write_text('extends = "wide.toml"\n[training]\nsteps = 77\n')
    wide = Settings.load(str(tmp_path / "wide.toml"), "dates")
    below = Settings.load("cpu", "dates")
    assert wide == dataclasses.replace(below, model=dataclasses.replace(below.model, embedding_dim=72))
    long = Settings.load(str(tmp_path / "long.toml"), "dates")
    assert (long.model, long.training.steps) == (wide.model, 77)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("steps=5", "expected section.key=value, such as training.steps=500"),
        ("training.steps", "expected section.key=value"),
        ("training.step=5", "there is no training.step. Did you mean training.steps?"),
        ("trainings.steps=5", "there is no trainings.steps. Did you mean training.steps?"),
        ("training.steps=many", "training.steps must be a whole number. Received: 'many'"),
        ("training.steps=true", "training.steps must be a whole number. Received: True"),
        ("training.steps=0", "training.steps must be 1 to 16,777,216. Received: 0"),
        ("training.clip_norm=true", "training.clip_norm must be a number. Received: True"),
        ("search.beam_size=true", "search.beam_size must be a whole number. Received: True"),
        ("training.batch=true", "there is no training.batch. Did you mean training.patience?"),
        ("training.keep_all=1", "training.keep_all must be true or false. Received: 1"),
        ("training.keep_all=0.0", "training.keep_all must be true or false. Received: 0.0"),
        ("search.beam_size=0", "search.beam_size must be a positive integer, at most 16,777,216. Received: 0"),
        ("search.beam_size=99999999", "a positive integer, at most 16,777,216. Received: 99999999"),
        (
            "search.length_penalty=11",
            "search.length_penalty must be a number of at least 0 and at most 10. ",
        ),
        ("training.peak_learning_rate=0", "training.peak_learning_rate must be more than 0"),
        ("training.label_smoothing=1", "training.label_smoothing must be at least 0 and less than 1. Received: 1.0"),
        (
            "training.peak_learning_rate=nan",
            "training.peak_learning_rate must be more than 0 and finite. Received: nan",
        ),
        (
            "training.peak_learning_rate=inf",
            "training.peak_learning_rate must be more than 0 and finite. Received: inf",
        ),
        ("model.norm=middle", "model.norm must be one of post, pre. Received: 'middle'"),
        ("model.num_heads=7", "model.num_heads must divide model.embedding_dim. Received: 7 heads, width "),
        ("data.max_length=5000", "data.max_length must not exceed model.max_positions. Received: 5000 tokens"),
        ("training.tokens_per_batch=9", "data.max_length must not exceed training.tokens_per_batch. Received: 64 tok"),
    ],
)
def test_errors_name_the_entry(entry, message):
    with pytest.raises(SettingsError) as error:
        Settings.load("cpu", "dates", [entry])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: No such file"),
        ("[model", "is not TOML: "),
        ('extends = "mine.toml"', "extends itself"),
        ("a." * 4_000 + "a = 1", "is not TOML: line 1 has more than 100 dots"),  # 30,000 parts take 3 GB
        ("a = " + "[" * 20_000, "is not TOML: it is nested too deeply"),
        ('extends = "gpu"', "there is no profile gpu. Choose base, cpu, or give the path of a .toml file"),
        ("model = 3", "the section data is missing"),
        ('extends = "cpu"\nmodel = 3', "[model] must be a table of entries. Received: 3"),
        ('extends = "cpu"\n[modell]', "there is no section modell. Did you mean model?"),
        ('extends = "cpu"\n[search]\nbeam = 3', "[search]: there is no entry beam. Did you mean beam_size?"),
        ("[model]\n[data]\n[training]\n[search]", "[model]: the entry num_layers is missing"),
    ],
)
def test_a_broken_profile_is_explained(text, message, tmp_path):
    path = tmp_path / "mine.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingsError) as error:
        Settings.load(str(path), "dates")
    assert message in str(error.value)


def test_an_unknown_profile():
    with pytest.raises(SettingsError, match=r"there is no profile gpu. Choose base, cpu, or give the path"):
        Settings.load("gpu", "dates")


def test_booleans_have_no_range():
    """A range would compare them as numbers."""
    kinds = settings.ModelSettings, settings.DataSettings, settings.TrainingSettings, settings.SearchSettings
    fields = [field for kind in kinds for field in dataclasses.fields(kind)]
    assert {field.name for field in fields if not field.metadata} == {
        field.name for field in fields if field.type is bool
    }


def test_a_search_that_a_config_does_not_mention_has_its_defaults():
    tables = dataclasses.asdict(Settings.load("cpu", "dates"))
    del tables["search"]["beam_size"]
    assert Settings.from_dict(tables).search.beam_size == 5
    del tables["search"]["max_length"]
    with pytest.raises(SettingsError, match=r"\[search\]: the entry max_length is missing"):
        Settings.from_dict(tables)


def test_differences_name_every_entry_that_changed():
    assert differences({"a": {"b": 1, "c": [2]}, "d": 4}, {"a": {"b": 1, "c": [3]}, "e": 5}) == [
        "a.c was [2], is [3]",
        "d was 4, is None",
        "e was None, is 5",
    ]
    assert differences({"a": {"b": 1}}, {"a": {"b": 1}}) == []
