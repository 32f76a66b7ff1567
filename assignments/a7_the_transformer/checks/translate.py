"""The checks of `translate`, with made-up models and with the learner's own after training."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

PADDING = "padding = create_padding_mask(source)"
ROUNDS = "for _ in range(max_length):"
TRAINING = "training=False,"
LOOK_AHEAD = "look_ahead_mask=create_look_ahead_mask(target.shape[1]),"
CHOSEN = "chosen = np.argmax(np.asarray(probabilities)[:, -1], axis=-1)"
ZEROS = "chosen = np.where(ended, 0, chosen)"
ENDED = "ended = ended | (chosen == end_id)"
TARGET = "target = np.concatenate([target, chosen[:, None]], axis=1)"
LAST = "return target[:, 1:]"

MONTHS, START, END, DIGIT, HYPHEN, MONTH, VOCABULARY = 12, 1, 2, 3, 13, 14, 26


def draw(rng):
    """Return sentences with padding, the ids of start and end, and a made-up model that depends on all of its arguments.

    Only the first sentence begins with 9. Its translation ends at once.
    """
    batch, columns, length = sizes(rng, 3, least=4, most=9)
    source = rng.integers(1, 9, (batch, columns))
    for sentence, kept in zip(source, rng.integers(2, columns, batch), strict=True):
        sentence[kept:] = 0
    source[0, 0] = 9
    start, end = (int(token) for token in rng.permutation(np.arange(1, 7))[:2])
    return {"source": source, "table": rng.normal(size=(40, 7)), "start": start, "end": end, "length": length + 4}


def made_up(answer, inputs):
    """Translate with a model that looks its probabilities up in a table, by a sum over the visible part of both sentences."""
    table = inputs["table"]

    def model(source, target, training=None, enc_padding_mask=None, look_ahead_mask=None, dec_padding_mask=None):
        source, target = np.asarray(source), np.asarray(target)
        size = target.shape[1]
        first = np.ones((1, 1, source.shape[1])) if enc_padding_mask is None else np.asarray(enc_padding_mask)
        second = np.ones((1, 1, source.shape[1])) if dec_padding_mask is None else np.asarray(dec_padding_mask)
        third = 1 if look_ahead_mask is None else np.asarray(look_ahead_mask)
        third = np.broadcast_to(third, (len(target), size, size))
        source_sum = ((first + 2 * second) * (source + 1)[:, None]).sum(axis=-1)  # (B, 1)
        target_sum = (target + 1) * (1 + np.arange(size))  # (B, T)
        for _ in range(2):  # like two layers, so what earlier positions see matters too
            target_sum = (third * target_sum[:, None]).sum(axis=-1)
        logits = table[(source_sum + target_sum + (11 if training else 0)).astype(int) % len(table)]  # (B, T, V)
        # The end token comes late, but after a sentence that begins with 9 at once. 0 is padding, so it never comes.
        # Nothing depends on a sentence's place in the batch: an answer may call the model with one at a time.
        place = np.arange(size)
        late = np.where(source[:, :1] == 9, -30.0 * (place == 0), 3.0 * (place < 2))[..., None]
        logits = logits - late * (np.arange(7) == inputs["end"]) - 30.0 * (np.arange(7) == 0)
        powers = np.exp(logits)
        return powers / powers.sum(axis=-1, keepdims=True), {}

    return answer.translate(model, *(inputs[name] for name in ("source", "start", "end", "length")))


def dates(rng, count):
    """Return dates as tokens: the source has day, month and year with the year last or first, the target is ISO 8601."""
    source, target = np.zeros((count, 7), int), np.zeros((count, 12), int)
    for row in range(count):
        year, month, day = rng.integers(1900, 2100), rng.integers(1, MONTHS + 1), rng.integers(1, 29)
        days, years = ([DIGIT + int(digit) for digit in str(number)] for number in (day, year))
        named = [MONTH + int(month) - 1]
        tokens = [*days, *named, *years] if rng.random() < 0.5 else [*years, *named, *days]
        source[row, : len(tokens)] = tokens
        iso = f"{year:04}-{month:02}-{day:02}"
        target[row] = [START, *(HYPHEN if sign == "-" else DIGIT + int(sign) for sign in iso), END]
    return source, target


TARGETS = {}  # the translations of new dates, which never enter the process of the answer


def draw_dates(rng):
    """Return a thousand dates to learn from, in their order, and a hundred others.

    Each time other numbers stand for digits and months, so that the rule cannot be written down instead of learned.
    """
    ids = [np.append([0, START, END], rng.permutation(np.arange(DIGIT, last))) for last in (VOCABULARY, MONTH)]
    (source, target), (new_source, new_target) = (
        [names[tokens] for names, tokens in zip(ids, dates(rng, count), strict=True)] for count in (1000, 100)
    )
    TARGETS[new_source.tobytes()] = new_target
    return {
        "source": source,
        "target": target,
        "batches": rng.integers(0, 1000, (200, 64)),
        "new source": new_source,
        "made": [1, 32, 4, 64, VOCABULARY, MONTH, 7, 12, 0.0],
    }


def learned(answer, inputs):
    """Train the learner's Transformer and read new dates, unless `translate` fails on a model that recites a sentence."""
    import keras
    import tensorflow as tf

    def by_heart(source, target, training=None, **masks):
        tokens = [5, 7, 2, 9, 9][: target.shape[1]]
        return np.tile(np.eye(10)[tokens], (len(source), 1, 1)), {}

    def with_masks(source, target, training=None, **masks):
        paddings = [masks.pop("enc_padding_mask", None), masks.pop("dec_padding_mask", None)]
        said = not training and masks.get("look_ahead_mask") is not None
        said = said and all(np.array_equal(mask, np.not_equal(source, 0)[:, None]) for mask in paddings)
        return by_heart(source, target) if said else (np.tile(np.eye(10)[9], (*target.shape, 1)), {})

    def endless(source, target, training=None, **masks):
        if target.shape[1] > 5:
            raise RuntimeError("with max_length 5, a model that never writes the end token is asked for a sixth token.")
        return np.tile(np.eye(10)[9], (*target.shape, 1)), {}

    must = "translate must return 5, 7, 2, 0, 0"
    for model, error in (
        (by_heart, ValueError(f"with a model that knows 5, 7, 2 (the end) by heart, {must}")),
        (
            with_masks,
            RuntimeError(f"with a model that knows 5, 7, 2 only if it gets its masks and no training, {must}"),
        ),
    ):
        if np.asarray(answer.translate(model, np.array([[4, 0], [6, 8]]), 1, 2, 5)).tolist() != [[5, 7, 2, 0, 0]] * 2:
            raise error
    answer.translate(endless, np.array([[4, 0], [6, 8]]), 1, 2, 5)
    from create_look_ahead_mask import create_look_ahead_mask
    from create_padding_mask import create_padding_mask
    from Transformer import Transformer

    keras.utils.set_random_seed(1)
    model = Transformer(*inputs["made"])
    optimizer = keras.optimizers.Adam(clipnorm=1.0)
    look_ahead = create_look_ahead_mask(inputs["target"].shape[1] - 1)

    @tf.function
    def step(source, target, padding):
        with tf.GradientTape() as tape:
            masks = {"enc_padding_mask": padding, "look_ahead_mask": look_ahead, "dec_padding_mask": padding}
            probabilities, _ = model(source, target[:, :-1], training=True, **masks)
            right = tf.gather(probabilities, target[:, 1:], batch_dims=2)
            loss = -tf.reduce_mean(tf.math.log(right + 1e-9))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    losses, steps = [], len(inputs["batches"])
    for number, rows in enumerate(inputs["batches"]):
        optimizer.learning_rate = 8e-3 * min(1.0, (number + 1) / 20, 2 * (steps - number) / steps)
        source, target = inputs["source"][rows], inputs["target"][rows]
        losses.append(float(step(tf.constant(source), tf.constant(target), tf.constant(create_padding_mask(source)))))
    read = answer.translate(model, inputs["new source"], 1, 2, inputs["target"].shape[1] - 1)
    return {"losses": losses, "read": read}


def reads(inputs, result, expected):
    """Check that the loss has fallen, and that most dates come out letter by letter."""
    if result is None:
        return "`translate` does not return the sentence of a model that recites one. Fix that first."
    first, last = np.mean(result["losses"][:5]), np.mean(result["losses"][-5:])
    if not last < 0.3 * first:
        return (
            f"your Transformer does not learn: its loss is {first:.2f} in the first steps and {last:.2f} in the last."
        )
    read, dates = np.asarray(result["read"]), TARGETS[inputs["new source"].tobytes()][:, 1:]
    if read.shape != dates.shape:
        return f"`translate` returns an array of shape {read.shape}, expected {dates.shape}."
    right = np.all(read == dates, axis=1)
    if right.mean() < 0.6:
        return f"it reads {right.sum()} of {len(right)} new dates correctly."
    return None


EXERCISE = Exercise(
    title="Your Transformer translates",
    question="What goes into the decoder when there is no target sentence yet? (Vaswani et al. 2017, "
    "section 3.1: auto-regressive)",
    difficulty=3,
    minutes=30,
    uses=("numpy", "keras", "tensorflow"),
    needs=(
        "get_angles",
        "positional_encoding",
        "create_padding_mask",
        "create_look_ahead_mask",
        "fully_connected",
        "EncoderLayer",
        "Encoder",
        "DecoderLayer",
        "Decoder",
        "Transformer",
    ),
    seconds=90.0,
    checks=(
        *standard(draw, signature=1, shape=1, values=7, ask=made_up, ones=False),
        Check("values", "your Transformer learns dates, and reads new ones", 6, draw_dates, learned, reads, times=1),
    ),
    wrong=(
        Wrong(
            "first-position-taken",
            "You use the first position's probabilities in every round. Those of the next token are at the last position.",
            {CHOSEN: CHOSEN.replace("[:, -1]", "[:, 0]")},
        ),
        Wrong(
            "end-not-kept",
            "You continue a sentence that has ended. After its end token all ids must be 0.",
            {ZEROS: ""},
        ),
        Wrong(
            "end-forgotten",
            "You treat a sentence as ended for one round only. Once ended, it stays ended.",
            {ENDED: "ended = chosen == end_id"},
        ),
        Wrong(
            "end-removed",
            "You replace the end token by 0. It belongs to the sentence; zeros come after it.",
            {LAST: "return np.where(target[:, 1:] == end_id, 0, target[:, 1:])"},
        ),
        Wrong(
            "rounds-stopped",
            "You stop when all sentences have ended. The result is always (B, max_length), filled up with zeros.",
            {TARGET: TARGET + "\n        if ended.all():\n            break"},
        ),
        Wrong(
            "rounds-until-all-end",
            "You go on until every sentence has ended. A model that never writes the end token would keep you there "
            "forever: stop after max_length tokens.",
            {
                ROUNDS: "while not ended.all():",
                LAST: "written = target[:, 1 : max_length + 1]\n"
                "    return np.pad(written, ((0, 0), (0, max_length - written.shape[1])))",
            },
        ),
        Wrong(
            "start-returned-and-last-dropped",
            "Your first column is the start token, and the last token that was written is missing. Return the columns after "
            "the first.",
            {LAST: "return target[:, :-1]"},
        ),
        Wrong(
            "start-returned",
            "You return the start token too. Return only the written tokens, (B, max_length).",
            {LAST: "return target"},
        ),
        Wrong(
            "dropout-at-inference",
            "You call the model as in training. With dropout it gives different tokens each time.",
            {TRAINING: "training=True,"},
            "pytorch/pytorch#124464, huggingface/pytorch-image-models#1978, meta-pytorch/torchtune#1791",
        ),
        Wrong(
            "last-token-only",
            "You pass only the last token to the decoder. Pass everything written so far.",
            {
                "            target,\n": "            target[:, -1:],\n",
                LOOK_AHEAD: "look_ahead_mask=create_look_ahead_mask(1),",
            },
        ),
        Wrong(
            "decoder-masks-source-padding-missing",
            "You pass no padding mask to the decoder, so its second attention attends to the source's padding.",
            {"dec_padding_mask=padding,": "dec_padding_mask=None,"},
            "speechbrain/speechbrain#1107, huggingface/transformers#47946",
        ),
        Wrong(
            "causal-missing",
            "You pass no look-ahead mask to the decoder, so earlier positions see later ones, unlike in training.",
            {LOOK_AHEAD: "look_ahead_mask=None,"},
            "LiamMaclean216/Pytorch-Transfomer#1",
        ),
        Wrong(
            "look-ahead-of-one-token",
            "Your look-ahead mask hides nothing: it is made of ones, or for one token only. Make it in every round for all "
            "tokens written so far.",
            {LOOK_AHEAD: "look_ahead_mask=create_look_ahead_mask(1),"},
        ),
        Wrong(
            "mask-of-target",
            "You make the padding masks from the target. Make them from the source.",
            {
                "enc_padding_mask=padding,": "enc_padding_mask=create_padding_mask(np.resize(target, source.shape)),",
                "dec_padding_mask=padding,": "dec_padding_mask=create_padding_mask(np.resize(target, source.shape)),",
            },
        ),
        Wrong(
            "masks-missing",
            "You pass no mask at all. The model needs three of them, as in training.",
            {
                "enc_padding_mask=padding,": "enc_padding_mask=None,",
                LOOK_AHEAD: "look_ahead_mask=None,",
                "dec_padding_mask=padding,": "dec_padding_mask=None,",
            },
        ),
        Wrong(
            "encoder-mask-missing",
            "You pass no padding mask to the encoder, so it attends to the source's padding.",
            {"enc_padding_mask=padding,": "enc_padding_mask=None,"},
        ),
        Wrong(
            "mask-inverted",
            "You pass the padding mask the other way round. Your mask says 1 where there is a token: pass it as it is.",
            {PADDING: "padding = np.logical_not(create_padding_mask(source))"},
        ),
        Wrong(
            "target-filled-up",
            "You pass the decoder a target of the full length and read its last position, which is still 0. Pass only what "
            "is written so far, or read the position of the last written token.",
            {
                "target = np.full((len(source), 1), start_id)": "target = np.zeros((len(source), max_length + 1), int)\n"
                "    target[:, 0] = start_id",
                ROUNDS: "for number in range(max_length):",
                TARGET: "target[:, number + 1] = chosen",
            },
        ),
        Wrong(
            "end-repeated",
            "You repeat the end token after a sentence has ended. After its end token all ids must be 0.",
            {ZEROS: "chosen = np.where(ended, end_id, chosen)"},
        ),
        Wrong(
            "last-end-lost",
            "You leave the loop before you append the tokens of that round, so the end token that comes last is lost.",
            {
                TARGET: "if ended.all():\n            break\n        " + TARGET,
                LAST: "return np.pad(target[:, 1:], ((0, 0), (0, max_length + 1 - target.shape[1])))",
            },
        ),
        Wrong(
            "stopped-at-first-end",
            "You stop when one sentence has ended. The others go on.",
            {
                TARGET: TARGET + "\n        if ended.any():\n            break",
                LAST: "return np.pad(target[:, 1:], ((0, 0), (0, max_length + 1 - target.shape[1])))",
            },
        ),
        Wrong(
            "least-probable-token",
            "You take the token with the smallest probability. Take the most probable one.",
            {CHOSEN: CHOSEN.replace("argmax", "argmin")},
        ),
        Wrong(
            "end-at-once-ignored",
            "You do not look for the end token in the first round. A sentence may end at once.",
            {ENDED: "ended = ended | ((chosen == end_id) & (target.shape[1] > 1))"},
        ),
    ),
)
