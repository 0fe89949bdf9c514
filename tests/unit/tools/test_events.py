"""The payload of an event in a tool's answer stays JSON, however long it is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmemory.tools.events import PAYLOAD_CHARS, short_payload

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=900),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=40), inner, max_size=30),
    max_leaves=40,
)


def test_long_texts_are_cut_and_short_ones_are_kept() -> None:
    shown = short_payload({"error": "cannot open orders.db", "trace": "at line 7 " * 200})
    assert shown["error"] == "cannot open orders.db"
    assert shown["trace"].startswith("at line 7")
    assert shown["trace"].endswith("…")


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=40), values, max_size=30))
def test_payload_of_any_shape_is_short(payload: dict[str, Any]) -> None:
    shown = short_payload(payload)
    assert len(json.dumps(shown, ensure_ascii=False)) <= PAYLOAD_CHARS
    if len(json.dumps(payload, ensure_ascii=False)) <= PAYLOAD_CHARS:
        assert shown == payload
