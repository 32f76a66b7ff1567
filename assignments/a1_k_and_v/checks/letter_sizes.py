"""Checks of `letter_sizes`, and the ways in which equations are misread."""

import string

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

PROJECTIONS = ("...NI , HIO -> ...NHO", "...MI , HIO -> ...MHO")
UNSORTED = "...NIH,HIMO->...N"  # sums over four letters
PRODUCTS = ("...NHO,...MHO->...HNM", "...HNM,...MHI->...NHI", "...NHI,HIO->...NO")


def inputs_of(rng, equation, size, batch):
    """Return inputs with the given size of each letter and the given axes for the dots."""
    operands = equation.replace(" ", "").partition("->")[0].split(",")
    left, right = (
        (batch if letters.startswith("...") else ()) + tuple(size[letter] for letter in letters.removeprefix("..."))
        for letters in operands
    )
    return {"equation": equation, "left_shape": left, "right_shape": right}


def draw_plain(rng, equations, axes):
    drawn = sizes(rng, 5 + axes)
    return inputs_of(rng, str(rng.choice(equations)), dict(zip("NMHIO", drawn, strict=False)), tuple(drawn[5:]))


def draw_equation(rng, equations, axes, alphabet=string.ascii_uppercase):
    """Draw an equation with other letters, so that only who reads it knows what they stand for."""
    found = draw_plain(rng, equations, axes)
    letters = str.maketrans("NMHIO", "".join(rng.permutation([*alphabet])[:5]))
    return found | {"equation": found["equation"].translate(letters)}


def draw_projection(rng):
    return draw_equation(rng, PROJECTIONS, 1)


def draw_product(rng):
    return draw_equation(rng, PRODUCTS, 1)


def draw_axes(rng):
    """Draw an equation of small letters whose dots stand for no axis, or for two or three."""
    return draw_equation(rng, PROJECTIONS + PRODUCTS, int(rng.choice([0, 2, 3])), string.ascii_lowercase)


def each_side(answer, inputs):
    """Call with the dots on the left, as drawn, on the right, and without them, and with equations of other forms.

    These have spaces everywhere, no sum, a sum over a letter of the left operand alone, dots on the right that stand
    for no axis and for two, and results without a letter.
    """
    equation, left, right = inputs["equation"], inputs["left_shape"], inputs["right_shape"]
    operands, result = equation.split("->")
    exchanged = ",".join(reversed(operands.split(",")))
    signs = equation.replace(" ", "").replace("...", ".").replace("->", ">")
    spaced = " ".join(signs).replace(".", "...").replace(">", "->")
    return [
        answer.letter_sizes(equation, left, right),
        answer.letter_sizes(f"{exchanged}->{result}", right, left),
        answer.letter_sizes(equation.replace("...", ""), left[1:], right),
        answer.letter_sizes(spaced, left, right),
        answer.letter_sizes("...AB,CDE->...DABEC", left, right),
        answer.letter_sizes("...BCD,CE->...BE", (*left[:2], right[1], right[0]), right[1:]),
        answer.letter_sizes(f"{exchanged}->{result}", right, left[1:]),
        answer.letter_sizes(f"{exchanged}->{result}", right, (right[2], *left)),
        answer.letter_sizes("...A,A->...", left, left[2:]),
        answer.letter_sizes("A,A->", left[:1], left[:1]),
        answer.letter_sizes("...,AB->...AB", left, right[:2]),
    ]


def draw_unsorted(rng):
    return draw_plain(rng, (UNSORTED,), 1)


def draw_equal(rng):
    """Draw letters that all have the same size, as if N = M = O."""
    (size,) = sizes(rng, 1)
    return inputs_of(rng, str(rng.choice(PROJECTIONS + PRODUCTS)), dict.fromkeys("NMHIO", size), (size + 1,))


EXERCISE = Exercise(
    title="How large is each letter?",
    question="What are N, M, H, I and O in the layer's equations, and is N = M = O? (seed 000, a course forum)",
    difficulty=1,
    minutes=15,
    checks=(
        *standard(draw_projection, signature=1, shape=1, values=3),
        Check("values", "products of two activations, where both operands have the dots", 1, draw_product, times=6),
        Check(
            "values",
            "other forms: dots on the right or nowhere, spaces, nothing summed over, results without a letter",
            1,
            draw_projection,
            each_side,
        ),
        Check("edge", "the dots stand for no axis, or for several", 1, draw_axes, times=5),
        Check("edge", "all summed letters, four of them, in alphabetical order", 1, draw_unsorted, times=1),
        Check("edge", "letters of the same size are still different letters", 1, draw_equal),
    ),
    wrong=(
        Wrong(
            "letters-from-the-left",
            "You matched the letters to the first axes of the shape. The first axes belong to the dots; match the "
            "letters to the last ones.",
            {"first = len(shape) - len(named)": "first = 0"},
        ),
        Wrong(
            "dots-at-the-end",
            "You matched the letters to the first axes of the shape, and the dots to the last ones. The dots come "
            "first: match the letters to the last axes.",
            {"shape[first:], strict=True": "shape, strict=False", "shape[:first]": "shape[len(named) :]"},
        ),
        Wrong(
            "dots-missing-in-result",
            "Your result shape has only the axes with letters. The axes that the dots stand for belong to the result "
            "too.",
            {"result_shape = batch + tuple": "result_shape = tuple"},
        ),
        Wrong(
            "dots-of-the-left",
            "You read the dots from the left operand only. They may be in the right one alone: ask each operand.",
            {"if letters != named:": "if letters != named and shape is left_shape:"},
        ),
        Wrong(
            "dots-always-there",
            "You took for granted that the left operand and the result begin with dots, and cut them off. The equation "
            "may have none there: look first.",
            {
                'named = letters.removeprefix("...")': "named = letters[3:] if shape is left_shape else "
                'letters.removeprefix("...")',
                'kept = result.removeprefix("...")': "kept = result[3:]",
            },
        ),
        Wrong(
            "dots-are-one-axis",
            "You took the dots for exactly one axis. They stand for every axis without a letter, and there may be "
            "several or none.",
            {"batch = tuple(shape[:first])": "batch = tuple(shape[:1])"},
        ),
        Wrong(
            "shared-letters-summed",
            "You took a letter to be summed because both operands have it. What counts is whether the result has it: "
            "in the logits, both operands have the heads, and the heads stay.",
            {
                'summed = "".join(sorted(set(found) - set(kept)))': "left, right = (set(each) for each in "
                'operands.replace("...", "").split(","))\n'
                '    summed = "".join(sorted(left & right))'
            },
        ),
        Wrong(
            "summed-only-if-in-both",
            "You sum a letter only if both operands have it. A letter that stands in one operand alone is summed over "
            "too if the result does not have it.",
            {
                'summed = "".join(sorted(set(found) - set(kept)))': "left, right = (set(each) for each in "
                'operands.replace("...", "").split(","))\n'
                '    summed = "".join(sorted((left & right) - set(kept)))'
            },
        ),
        Wrong(
            "kept-letters-summed",
            "You returned the letters that are kept. Return those that are summed over: they are missing from the "
            "result.",
            {"sorted(set(found) - set(kept))": "sorted(set(kept))"},
        ),
        Wrong(
            "summed-letters-unsorted",
            "You returned the summed letters in the order of the operands. Put them in alphabetical order.",
            {"sorted(set(found) - set(kept))": "letter for letter in found if letter not in kept"},
        ),
        Wrong(
            "result-in-order-of-operands",
            "You put the axes of the result in the order of the operands' letters. Their order is the one after the "
            "arrow.",
            {"for letter in kept)": "for letter in found if letter in kept)"},
        ),
        Wrong(
            "summed-letters-in-result",
            "Your result shape still has the letters that are summed over. It has only the letters after the arrow.",
            {"for letter in kept)": "for letter in found)"},
        ),
        Wrong(
            "letter-by-size",
            "You took letters of the same size for one letter, as in “N = M = O”. Equal sizes are a coincidence: keep "
            "one entry for each letter.",
            {
                "    kept = result": "    found = {letter: size for size, letter in "
                "{size: letter for letter, size in found.items()}.items()}\n    kept = result",
                "found[letter] for letter in kept)": "found.get(letter, 0) for letter in kept)",
            },
            "seed 000",
        ),
        Wrong(
            "blanks-are-letters",
            "You counted the spaces in the equation as letters. Remove them first.",
            {'equation.replace(" ", "").split': "equation.split"},
        ),
        Wrong(
            "blanks-inside-are-letters",
            "You remove spaces only at the ends of an operand. They may stand between letters too.",
            {
                'operands, result = equation.replace(" ", "").split("->")': 'operands, result = equation.split("->")\n'
                '    operands, result = ",".join(each.strip() for each in operands.split(",")), result.strip()'
            },
        ),
        Wrong(
            "nothing-summed-is-none",
            "You return None where no letter is summed over. Return the empty string.",
            {"return found, result_shape, summed": "return found, result_shape, summed or None"},
        ),
        Wrong(
            "sums-of-the-right-only",
            "You look for the letters that are summed over in the right operand only. A letter of the left one may be "
            "missing from the result too.",
            {"sorted(set(found) - set(kept))": 'sorted(set(operands.split(",")[1].removeprefix("...")) - set(kept))'},
        ),
        Wrong(
            "dots-on-the-right-are-one-axis",
            "You take the dots of the right operand for one axis. They stand for as many as are left over.",
            {"batch = tuple(shape[:first])": "batch = tuple(shape[:1] if shape is right_shape else shape[:first])"},
        ),
    ),
)
