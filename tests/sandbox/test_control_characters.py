from kmha.sandbox.control_characters import visible


def test_ordinary_characters_stay():
    assert visible("ordinary ✓ é 🙂\ttext\n\xa0") == "ordinary ✓ é 🙂\ttext\n\xa0"
