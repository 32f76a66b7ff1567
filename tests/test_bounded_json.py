import json

import pytest

from kmha.bounded_json import PartsError, from_json


@pytest.mark.parametrize("part", ["[],", "{},", "1,", '{"":1},'])
def test_json_with_too_many_parts_is_not_parsed(part, monkeypatch):
    """Four notebooks with 16 MB of lists took half a minute, in which Ctrl-C did nothing."""
    assert len(from_json("[" + part * 300_000 + "1]")) == 300_001
    monkeypatch.setattr(json, "loads", None)
    with pytest.raises(PartsError, match="more than 1,000,000 brackets and commas"):
        from_json("[" + part * 1_000_000 + "1]")
