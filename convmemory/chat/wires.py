"""The wire formats that the capture proxy records: chat completions, Responses, and Anthropic's Messages.

A format reads the messages of a request, turns the events of a streamed reply into chunks of a chat completion, which
`CompletionDraft` assembles, and recognises a reply that arrives whole. Its errors have its own form.

Source: https://platform.openai.com/docs/api-reference/responses-streaming,
https://docs.anthropic.com/en/api/messages-streaming
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from convmemory.conversations.importers.content import CALL_TYPES
from convmemory.conversations.importers.values import mapping_of, text_of

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wire:
    """One format, by the path below `/v1/` at which it is requested.

    `messages` yields the messages of a request, as `message_draft` reads them. `chunks` yields an event of a stream as
    chunks. `whole` returns a whole reply as a message with its `model`, given an event or the body of an answer; None
    if there is none. `joins_answers` says that items which follow each other make up one message of the assistant.
    `error` returns the body of an error, `error_event` the event that ends a stream with one.
    """

    path: str
    messages: Callable[[Values], Iterator[Values]]
    chunks: Callable[[Values], Iterator[Values]]
    whole: Callable[[Values], Values | None]
    error: Callable[[HTTPStatus, str, str], Values]
    error_event: Callable[[str], bytes]
    joins_answers: bool = False


def _chunk(*, finish_reason: str = "", **delta: Any) -> Values:
    return {"choices": [{"delta": delta, "finish_reason": finish_reason}]}


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _event(name: str, values: Values) -> bytes:
    return f"event: {name}\ndata: {json.dumps(values)}\n\n".encode()


def _chat_messages(asked: Values) -> Iterator[Values]:
    yield from _listed(asked.get("messages"))


def _chat_chunks(event: Values) -> Iterator[Values]:
    yield event


def _chat_whole(answer: Values) -> Values | None:
    choice = next(iter(_listed(answer.get("choices"))), None)
    message = mapping_of(choice).get("message")
    if not isinstance(message, Mapping):
        return None
    return {**message, "role": "assistant", "model": answer.get("model")}


def _openai_error(status: HTTPStatus, message: str, kind: str) -> Values:
    kind = kind or ("api_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _openai_error_event(message: str) -> bytes:
    return f"data: {json.dumps(_openai_error(HTTPStatus.BAD_GATEWAY, message, ''))}\n\n".encode()


CHAT = Wire("chat/completions", _chat_messages, _chat_chunks, _chat_whole, _openai_error, _openai_error_event)


def _responses_messages(asked: Values) -> Iterator[Values]:
    if asked.get("instructions"):
        yield {"role": "system", "content": asked["instructions"]}
    entries = asked.get("input")
    if isinstance(entries, str):
        yield {"role": "user", "content": entries}
    yield from _listed(entries)


def _responses_chunks(event: Values) -> Iterator[Values]:
    match event.get("type"):
        case "response.output_text.delta" | "response.refusal.delta":
            yield _chunk(content=event.get("delta"))
        case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
            yield _chunk(reasoning=event.get("delta"))
        case "response.reasoning_summary_part.added" if event.get("summary_index"):
            yield _chunk(reasoning="\n\n")
        case "response.output_item.done":
            item = mapping_of(event.get("item"))
            if item.get("type") in CALL_TYPES:
                arguments = item["arguments"] if "arguments" in item else item.get("input")
                function = {"name": item.get("name"), "arguments": arguments}
                yield _chunk(tool_calls=[{"id": item.get("call_id") or item.get("id"), "function": function}])


def _responses_whole(event: Values) -> Values | None:
    answer = event
    if event.get("type") in ("response.completed", "response.incomplete"):
        answer = mapping_of(event.get("response"))
    if not isinstance(answer.get("output"), list):
        return None
    content: list[Any] = []
    for item in answer["output"]:
        is_message = mapping_of(item).get("type") == "message"
        content += _listed(item.get("content")) if is_message else [item]
    return {"role": "assistant", "content": content, "model": answer.get("model")}


def _responses_error_event(message: str) -> bytes:
    return _event("error", {"type": "error", "code": "server_error", "message": message, "param": None})


RESPONSES = Wire(
    "responses",
    _responses_messages,
    _responses_chunks,
    _responses_whole,
    _openai_error,
    _responses_error_event,
    joins_answers=True,
)


def _anthropic_messages(asked: Values) -> Iterator[Values]:
    if asked.get("system"):
        yield {"role": "system", "content": asked["system"]}
    yield from _listed(asked.get("messages"))


def _anthropic_chunks(event: Values) -> Iterator[Values]:
    match event.get("type"):
        case "message_start":
            yield {"model": mapping_of(event.get("message")).get("model")}
        case "content_block_start":
            block = mapping_of(event.get("content_block"))
            if text_of(block.get("type")).endswith("tool_use"):
                function = {"name": block.get("name"), "arguments": block.get("input") or ""}
                call = {"index": event.get("index", 0), "id": block.get("id"), "function": function}
                yield _chunk(tool_calls=[call])
            else:
                yield _chunk(content=block.get("text"), reasoning=block.get("thinking"))
        case "content_block_delta":
            delta = mapping_of(event.get("delta"))
            if delta.get("type") == "input_json_delta":
                piece = {"index": event.get("index", 0), "function": {"arguments": delta.get("partial_json")}}
                yield _chunk(tool_calls=[piece])
            else:
                yield _chunk(content=delta.get("text"), reasoning=delta.get("thinking"))
        case "message_delta":
            yield _chunk(finish_reason=text_of(mapping_of(event.get("delta")).get("stop_reason")))
        case "message_stop":
            yield _chunk(finish_reason="stop")


def _anthropic_whole(answer: Values) -> Values | None:
    if answer.get("type") != "message" or not isinstance(answer.get("content"), list):
        return None
    return answer


_ANTHROPIC_ERRORS = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.NOT_FOUND: "not_found_error",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "request_too_large",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
}


def _anthropic_error(status: HTTPStatus, message: str, kind: str) -> Values:
    kind = _ANTHROPIC_ERRORS.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def _anthropic_error_event(message: str) -> bytes:
    return _event("error", _anthropic_error(HTTPStatus.BAD_GATEWAY, message, ""))


MESSAGES = Wire(
    "messages",
    _anthropic_messages,
    _anthropic_chunks,
    _anthropic_whole,
    _anthropic_error,
    _anthropic_error_event,
)
