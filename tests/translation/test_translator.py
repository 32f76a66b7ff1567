import warnings

import keras
import numpy as np
import pytest

from kmha.translation.search import Hypothesis
from kmha.translation.settings import SearchSettings
from kmha.translation.tokenizer import END, START, Tokenizer
from kmha.translation.translator import Translation, Translator

pytestmark = pytest.mark.tensorflow

TRAINING = [
    "two dogs run on the sand",
    "a cat sleeps in the old tree , and we listen",
    "zwei Hunde laufen am Strand",
    "eine Katze schläft im alten Baum , und wir hören zu",
] * 2
BEAM = {"beam_size": 3, "n_best": 2, "length_penalty": 1.5}
TEXTS = ["two dogs run", "", "a cat sleeps in the old tree , and we listen", "  \t", "the sand", "we run on the sand"]


def _quiet(row, text):
    pass


def _translator(settings=None):
    from kmha.layers import Transformer

    keras.utils.set_random_seed(6)
    tokenizer = Tokenizer.train(TRAINING, vocabulary_size=60)
    size = tokenizer.vocabulary_size
    # Of layers, heads, features, source positions and target positions no two are as many.
    model = Transformer(2, 12, 3, 10, size, size, 15, 13, final_activation=None)
    model((np.array([[4, END]]), np.array([[START, 5, 6]])))
    model.set_weights([5 * weight for weight in model.get_weights()])  # so that what is read matters
    return Translator(model, tokenizer, settings)


@pytest.fixture(scope="module")
def translator():
    return _translator()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("search", "options"),
    [("beam", BEAM), ("greedy", {}), ("sampling", {"seed": 4, "samples": 2})],
)
def test_all_at_once_is_one_by_one(translator, search, options):
    alone = [translator.translate([text], search, note=_quiet, **options)[0] for text in TEXTS]
    assert len({best.text for best, *_ in alone}) >= 4
    for batch_tokens in (1, 14, 1000):
        found = translator.translate(TEXTS, search, batch_tokens=batch_tokens, note=_quiet, **options)
        for mine, theirs in zip(found, alone, strict=True):
            assert [one.ids for one in mine] == [one.ids for one in theirs]
            assert [one.score for one in mine] == pytest.approx([one.score for one in theirs], rel=1e-4)


def test_the_searches_are_those_of_the_search_module(translator):
    from kmha.translation.search import Beam

    ids = [*translator.tokenizer.encode(TEXTS[:1])[0], END]
    [hypotheses] = Beam(translator.model, **BEAM)([ids])
    [found] = translator.translate(TEXTS[:1], note=_quiet, **BEAM)
    assert found == [
        Translation(translator.tokenizer.decode(one.ids), one.score, one.log_probability, one.finished, one.ids)
        for one in hypotheses
    ]
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_a_text_without_words_has_the_empty_translation(translator):
    nothing = [Translation("", 0.0, 0.0, True)]
    assert translator.translate(["", " \t "], beam_size=3, n_best=2) == [nothing, nothing]
    assert translator.translate([]) == []


def test_settings_are_the_defaults_of_a_call(translator):
    settings = SearchSettings(beam_size=3, length_penalty=2.0, max_length=24)
    of_settings = Translator(translator.model, translator.tokenizer, settings)
    search = of_settings._search("beam", {})
    assert (search.beam_size, search.length_penalty, search.n_best) == (3, 2.0, 1)
    assert [search.max_length(length) for length in (2, 8, 100)] == [13, 22, 24]
    search = of_settings._search("beam", {"length_penalty": 0.5, "n_best": 5})
    assert (search.beam_size, search.length_penalty, search.n_best) == (5, 0.5, 5)
    assert of_settings._search("beam", {"beam_size": 4}).beam_size == 4
    assert of_settings._search("greedy", {}).max_length(100) == 24
    assert of_settings._search("greedy", {"max_length": 7}).max_length == 7
    search = translator._search("beam", {})
    assert (search.beam_size, search.length_penalty) == (5, 0.6)


def test_a_search_is_made_once(translator):
    first = translator._search("beam", {"beam_size": 3, "n_best": 2})
    assert translator._search("beam", {"n_best": 2, "beam_size": 3}) is first
    assert translator._search("beam", {"n_best": 1, "beam_size": 3}) is not first
    assert translator._search("greedy", {}) is translator._search("greedy", {})


def test_progress_counts_texts(translator):
    done = []
    translator.translate(TEXTS, "greedy", batch_tokens=10, note=_quiet, progress=done.append)
    assert done == sorted(done)
    assert done[-1] == len(TEXTS)
    assert len(done) > 2


def test_notes(translator):
    notes = []
    assert len(translator.tokenizer.encode(["sand"])[0]) == 2
    texts = ["two dogs", "犬 two 猫 dogs 犬", "sand " * 8, "sand " * 7]
    translator.translate(texts, "greedy", note=lambda row, text: notes.append((row, text)))
    said = [note for note in notes if "truncated" not in note[1]]
    assert said == [
        (1, "the model does not know '犬' '猫'."),
        (2, "the text has 16 tokens; the model reads only the first 14."),
    ]


def test_the_model_does_not_read_truncated_tokens(translator):
    long, exactly, less = translator.translate(["sand " * 40, "sand " * 7, "sand " * 3], "greedy", note=_quiet)
    assert long[0].ids == exactly[0].ids
    assert long[0].log_probability == pytest.approx(exactly[0].log_probability, rel=1e-4)
    assert long[0].log_probability != pytest.approx(less[0].log_probability, rel=1e-3)


def test_a_translation_without_an_end_is_noted(translator, monkeypatch):
    notes = []
    cut = Hypothesis((5, 7, 8), -2.0, -1.0, False)
    monkeypatch.setattr(translator, "_search", lambda name, options: lambda source: [[cut]])
    [[best]] = translator.translate(TEXTS[:1], "greedy", note=lambda *note: notes.append(note))
    assert best == Translation(translator.tokenizer.decode((5, 7, 8)), -1.0, -2.0, False, (5, 7, 8))
    assert notes == [(0, "the translation was truncated after 3 tokens.")]


def test_notes_are_warnings_unless_taken(translator):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        translator.translate(["two", "犬"], "greedy")
    said = [str(one.message) for one in caught if "truncated" not in str(one.message)]
    assert said == ["text 1: the model does not know '犬'."]
    assert caught[0].filename == __file__


def test_no_such_search(translator):
    with pytest.raises(ValueError, match=r"search must be one of 'beam', 'greedy', 'sampling'. Received: 'dowsing'"):
        translator.translate(["two"], "dowsing")


def test_attention_is_the_models(translator):
    attention = translator.attention("two dogs run", "zwei Hunde")
    source = [*translator.tokenizer.encode(["two dogs run"])[0], END]
    target = [START, *translator.tokenizer.encode(["zwei Hunde"])[0]]
    _, scores = translator.model((np.array([source]), np.array([target])))
    assert len(source) != len(target)
    assert sorted(attention.scores) == [
        *(f"decoder_layer{i}_block{j}" for i in (1, 2) for j in ("1_self_att", "2_decenc_att")),
        *(f"encoder_layer{i}_self_att" for i in (1, 2)),
    ]
    for name, expected in scores.items():
        np.testing.assert_allclose(attention.scores[name], expected[0], rtol=1e-5, atol=1e-6)
    for layer in (1, 2):
        encoder = attention.scores[f"encoder_layer{layer}_self_att"]
        assert encoder.shape == (3, len(source), len(source))
        np.testing.assert_allclose(encoder.sum(-1), np.ones((3, len(source))), rtol=1e-5)
    assert len(attention.source) == len(source)
    assert attention.source[-1] == attention.target_out[-1] == "[END]"
    assert attention.target_in == ["[START]", *attention.target_out[:-1]]


def test_cross_attention_by_layer_and_head(translator):
    attention = translator.attention("two dogs run", "zwei Hunde")
    for layer, number in ((1, 1), (2, 2), (-1, 2), (-2, 1)):
        expected = attention.scores[f"decoder_layer{number}_block2_decenc_att"]
        np.testing.assert_array_equal(attention.heads(layer), expected)
        np.testing.assert_array_equal(attention.cross(layer), expected.mean(axis=0))
        for head in (1, 2, 3):
            np.testing.assert_array_equal(attention.cross(layer, head), expected[head - 1])
    with pytest.raises(ValueError, match=r"there are 2 layers, counted from 1. Received: 0"):
        attention.cross(0)
    with pytest.raises(ValueError, match=r"there are 3 heads, counted from 1. Received: 4"):
        attention.cross(1, 4)


def test_attention_to_what_the_model_wrote(translator):
    [[best]] = translator.translate(TEXTS[:1], "greedy", note=_quiet)
    by_ids, unasked = translator.attention(TEXTS[0], best), translator.attention(TEXTS[0])
    assert by_ids.target_out == [*translator.tokenizer.tokens(best.ids), *["[END]"] * best.finished]
    assert unasked.target_out == by_ids.target_out
    for name, scores in by_ids.scores.items():
        np.testing.assert_array_equal(unasked.scores[name], scores)


def test_attention_truncates_long_texts(translator):
    with pytest.warns(UserWarning, match="the model reads only the first 14"):
        attention = translator.attention("sand " * 20, "Strand " * 30)
    assert attention.cross().shape == (13, 15)


@pytest.mark.parametrize("text", ["", "  "])
def test_attention_needs_words(translator, text):
    with pytest.raises(ValueError, match="attention needs a sentence with at least one word"):
        translator.attention(text)
