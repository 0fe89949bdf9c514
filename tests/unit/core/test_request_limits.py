"""Which requests count as streams, so that a caller's other requests do not wait for them."""

import pytest

from convmemory.request_limits import waits_for_others


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/api/v1/conversations/7/stream", "/chat/7/send", "/api/v1/imports"]
)
def test_what_waits_for_a_model_or_a_worker_is_a_stream(path: str) -> None:
    assert waits_for_others(path)


@pytest.mark.parametrize("path", ["/", "/api/v1/conversations/search", "/api/v1/imports/7", "/import"])
def test_what_this_process_answers_itself_is_a_request(path: str) -> None:
    assert not waits_for_others(path)
