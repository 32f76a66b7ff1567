"""What is checked of `letter_sizes`, and how equations are misread."""

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

PROJECTIONS = ("...NI , HIO -> ...NHO", "...MI , HIO -> ...MHO")
UNSORTED = "...NIH,HIO->...NO"  # as the output's, with the head size first
PRODUCTS = ("...NHO,...MHO->...HNM", "...HNM,...MHI->...NHI", "...NHI,HIO->...NO")


def shapes(rng, equation, size, batch):
    """Inputs with these sizes by letter, and these axes for the dots."""
    operands = equation.replace(" ", "").partition("->")[0].split(",")
    left, right = (
        (batch if letters.startswith("...") else ()) + tuple(size[letter] for letter in letters.removeprefix("..."))
        for letters in operands
    )
    return {"equation": equation, "left_shape": left, "right_shape": right}


def some(rng, equations, axes):
    drawn = sizes(rng, 5 + axes)
    return shapes(rng, str(rng.choice(equations)), dict(zip("NMHIO", drawn, strict=False)), tuple(drawn[5:]))


def draw_projection(rng):
    return some(rng, PROJECTIONS, 1)


def draw_product(rng):
    return some(rng, PRODUCTS, 1)


def draw_axes(rng):
    """No axis for the dots, or two or three."""
    return some(rng, PROJECTIONS + PRODUCTS, int(rng.choice([0, 2, 3])))


def draw_unsorted(rng):
    return some(rng, (UNSORTED,), 1)


def draw_equal(rng):
    """All letters of one size, as where N = M = O."""
    (size,) = sizes(rng, 1)
    return shapes(rng, str(rng.choice(PROJECTIONS + PRODUCTS)), dict.fromkeys("NMHIO", size), (size + 1,))


EXERCISE = Exercise(
    title="How large is every letter",
    question="What are N, M, H, I and O in the layer's equations, and is N = M = O? (seed 000, a course's forum)",
    difficulty=1,
    minutes=15,
    checks=(
        *standard(draw_projection, signature=1, shape=1, values=3),
        Check("values", "the products of two activations, where both operands have the dots", 2, draw_product, times=6),
        Check("edge", "the dots stand for no axis, or for several", 1, draw_axes, times=5),
        Check("edge", "the letters that are summed over are in alphabetical order", 1, draw_unsorted, times=1),
        Check("edge", "letters of one size are still different letters", 1, draw_equal),
    ),
    wrong=(
        Wrong(
            "letters-from-the-left",
            "The letters are laid to the first axes of a shape: but these belong to the dots.",
            {"first = len(shape) - len(named)": "first = 0"},
        ),
        Wrong(
            "dots-missing-in-result",
            "The result's shape has only the axes with letters: what the dots stand for is in the result too.",
            {"result_shape = batch + tuple": "result_shape = tuple"},
        ),
        Wrong(
            "dots-are-one-axis",
            "The dots are taken for exactly one axis: they are as many as have no letter, also none.",
            {"batch = tuple(shape[:first])": "batch = tuple(shape[:1])"},
        ),
        Wrong(
            "shared-letters-summed",
            "Letters are taken for summed over because both operands have them: what decides is whether the result "
            "has them. The heads are in both operands of the logits, and stay.",
            {
                'summed = "".join(sorted(set(found) - set(kept)))': "left, right = (set(each) for each in "
                'operands.replace("...", "").split(","))\n'
                '    summed = "".join(sorted(left & right))'
            },
        ),
        Wrong(
            "kept-letters-summed",
            "The letters that are returned as summed over are those that are kept.",
            {"sorted(set(found) - set(kept))": "sorted(set(kept))"},
        ),
        Wrong(
            "summed-letters-unsorted",
            "The letters that are summed over come as they stand in the operands: alphabetical order is asked for.",
            {"sorted(set(found) - set(kept))": "letter for letter in found if letter not in kept"},
        ),
        Wrong(
            "result-in-order-of-operands",
            "The result's axes come in the order of the operands' letters: their order is the one after the arrow.",
            {"for letter in kept)": "for letter in found if letter in kept)"},
        ),
        Wrong(
            "summed-letters-in-result",
            "The result's shape still has the letters that are summed over: it has the letters after the arrow only.",
            {"for letter in kept)": "for letter in found)"},
        ),
        Wrong(
            "letter-by-size",
            "Letters of one size are taken for one letter, as in “N = M = O”: that sizes are equal is an accident.",
            {
                "    kept = result": "    found = {letter: size for size, letter in "
                "{size: letter for letter, size in found.items()}.items()}\n    kept = result",
                "found[letter] for letter in kept)": "found.get(letter, 0) for letter in kept)",
            },
            "seed 000",
        ),
        Wrong(
            "blanks-are-letters",
            "Blanks of the equation are counted as letters.",
            {'equation.replace(" ", "").split': "equation.split"},
        ),
    ),
)
