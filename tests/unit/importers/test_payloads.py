import base64
import hashlib

from convmemory.conversations.importers.values import (
    MAX_VALUE_DEPTH,
    TOO_DEEP,
    base64_size,
    value_without_payloads,
    without_payloads,
)

BYTES = b"".join(hashlib.sha256(str(number).encode()).digest() for number in range(64))
ENCODED = base64.b64encode(BYTES).decode()
URL_SAFE = base64.urlsafe_b64encode(BYTES).decode()
WRAPPED = base64.encodebytes(BYTES).decode()


def test_size_of_what_was_encoded() -> None:
    assert [base64_size(base64.b64encode(b"x" * n).decode()) for n in range(5)] == [0, 1, 2, 3, 4]
    assert base64_size(WRAPPED) == len(BYTES)


def test_long_base64_becomes_marker() -> None:
    assert without_payloads(ENCODED) == "[base64 data, 2048 bytes]"
    assert without_payloads(URL_SAFE) == "[base64 data, 2048 bytes]"
    assert without_payloads(f'{{"data": "{ENCODED}"}}') == '{"data": "[base64 data, 2048 bytes]"}'
    assert without_payloads(f"before\n{WRAPPED}after") == "before\n[base64 data, 2048 bytes]\nafter"


def test_data_urls_become_markers_with_their_type() -> None:
    text = f"![plot](data:image/png;base64,{ENCODED[:200]}) and on"
    assert without_payloads(text) == "![plot]([image/png, 150 bytes]) and on"


def test_ordinary_long_text_stays() -> None:
    for text in ("x" * 5000, "ab12" * 2000, BYTES.hex(), "word " * 5000, ENCODED[:900], "a/b/c/d" * 400):
        assert without_payloads(text) == text


def test_values_are_searched_to_bounded_depth() -> None:
    assert value_without_payloads({"a": [{"b": ENCODED}, 1, None]}) == {
        "a": [{"b": "[base64 data, 2048 bytes]"}, 1, None]
    }
    deep: object = "end"
    for _ in range(MAX_VALUE_DEPTH + 5):
        deep = [deep]
    assert TOO_DEEP in str(value_without_payloads(deep))
