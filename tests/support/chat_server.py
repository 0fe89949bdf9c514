"""A real HTTP server with the chat routes of OpenAI, Anthropic and Gemini, which does what tests script for it.

Each request takes the next script: what is said, thought and called, in which pieces, and what goes wrong
(an error, a pause, a stall, a malformed chunk, a cut connection). Without a script `otherwise` chooses the answer,
which repeats the question by default.
Run as a program it is the fast endpoint of the load test: `python -m tests.support.chat_server PORT`.
"""

import asyncio
import json
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from tests.support.asgi_thread import running_application

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
MODEL = "test-model"
HOLD_LIMIT_S = 30.0
ASKS_FOR_TITLE = "Give the question that follows a title"  # how `convmemory.chat.live.INSTRUCTION` begins


@dataclass(frozen=True)
class Say:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True)
class Think:
    """A piece of reasoning."""

    text: str


@dataclass(frozen=True)
class Call:
    """A call of a tool; its arguments are sent in pieces of `piece` characters. Responses has namespaces of tools."""

    name: str
    arguments: str
    id: str = "call_1"
    index: int = 0
    piece: int = 7
    namespace: str = ""


@dataclass(frozen=True)
class Raw:
    """Bytes as they are."""

    data: bytes


@dataclass(frozen=True)
class Pause:
    """Nothing for a while."""

    seconds: float


@dataclass(frozen=True)
class Hold:
    """Nothing until the test sets the event."""

    until: threading.Event


@dataclass(frozen=True)
class Cut:
    """The connection breaks."""


Step = Say | Think | Call | Raw | Pause | Hold | Cut


@dataclass(frozen=True)
class Script:
    """The answer to one request. A `status` other than 200 sends `body` instead of the steps."""

    steps: tuple[Step, ...] = ()
    status: int = 200
    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    has_end: bool = True


def says(*pieces: str) -> Script:
    return Script(tuple(Say(piece) for piece in pieces))


def calls(name: str, arguments: Any = None, **values: Any) -> Script:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return Script((Call(name, text, **values),))


def fails(status: int, message: str = "It failed.", **headers: str) -> Script:
    body = {"error": {"message": message, "type": "test", "param": None, "code": None}}
    return Script(status=status, body=body, headers={name.replace("_", "-"): v for name, v in headers.items()})


@dataclass
class ChatServer:
    """The server's behaviour; tests change it while it runs. `requests` are the JSON bodies it was sent.

    Requests for a chat's title are no part of those and take from `titles`; without one they fail.
    """

    url: str = ""
    key: str = "secret"
    scripts: deque[Script] = field(default_factory=deque)
    titles: deque[str] = field(default_factory=deque)
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)  # with their queries
    disconnects: int = 0
    keeps_requests: bool = True
    otherwise: Callable[[dict[str, Any]], Script] | None = None

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        body = await _body(receive)
        query = scope["query_string"].decode()
        self.addresses.append(scope["path"] + (query and f"?{query}"))
        given = {headers.get(name) for name in ("authorization", "x-api-key", "x-goog-api-key")}
        if not given & {f"Bearer {self.key}", self.key}:
            await _answer(send, fails(401, f"Incorrect API key provided: {headers.get('authorization')}"))
        elif scope["path"] == "/v1/models":
            await _json(send, 200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})
        elif scope["path"].startswith("/v1/models/"):
            await _json(send, 200, {"id": scope["path"].removeprefix("/v1/models/"), "object": "model"})
        elif scope["path"] == "/v1/embeddings":
            await _json(send, 200, {"data": [{"embedding": [1.0]}], "usage": {"total_tokens": 3}})
        elif scope["path"] == "/v1/messages/count_tokens":
            await _json(send, 200, {"input_tokens": 5})
        elif scope["path"] == "/v1/chat/completions":
            await self._complete(headers, body, receive, send)
        elif scope["path"] in OTHER_WIRES:
            await self._answer_otherwise(OTHER_WIRES[scope["path"]], headers, body, send)
        elif scope["path"].startswith("/v1beta/models/"):
            await self._answer_otherwise(Gemini(scope["path"]), headers, body, send)
        else:
            await _answer(send, fails(404, "Not found"))

    async def _complete(self, headers: dict[str, str], body: bytes, receive: Receive, send: Send) -> None:
        asked = json.loads(body)
        if str(asked["messages"][0].get("content")).startswith(ASKS_FOR_TITLE):
            script = says(self.titles.popleft()) if self.titles else fails(500, "No title.")
            await (_answer(send, script) if script.status != 200 else self._stream(script, asked, receive, send))
            return
        if self.keeps_requests:
            self.requests.append(asked)
            self.headers.append(headers)
            self.bodies.append(body)
        script = self._script(asked, _echo)
        if script.status != 200:
            await _answer(send, script)
        elif asked.get("stream"):
            await self._stream(script, asked, receive, send)
        else:
            await _json(send, 200, _completion(script, asked))

    async def _answer_otherwise(self, wire: "OtherWire", headers: dict[str, str], body: bytes, send: Send) -> None:
        asked = json.loads(body)
        self.requests.append(asked)
        self.headers.append(headers)
        self.bodies.append(body)
        script = self._script(asked, lambda _: says("Yes."))
        if script.status != 200:
            await _answer(send, script)
        elif asked.get("stream") or (isinstance(wire, Gemini) and wire.is_stream):
            await _start(send, 200, {"content-type": "text/event-stream"})
            await _send(send, wire.start())
            for step in script.steps:
                await _send(send, step.data if isinstance(step, Raw) else wire.events(step))
            await _send(send, wire.end(script) if script.has_end else b"")
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await _json(send, 200, wire.whole(script))

    def _script(self, asked: dict[str, Any], default: Callable[[dict[str, Any]], Script]) -> Script:
        return self.scripts.popleft() if self.scripts else (self.otherwise or default)(asked)

    async def _stream(self, script: Script, asked: dict[str, Any], receive: Receive, send: Send) -> None:
        writing = asyncio.create_task(_write_stream(script, asked, send))
        leaving = asyncio.create_task(_until_gone(receive))
        await asyncio.wait((writing, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not writing.done():
            self.disconnects += 1
            writing.cancel()
        leaving.cancel()
        if writing.done() and not writing.cancelled() and (error := writing.exception()):
            raise error


class ConnectionCut(Exception):
    """Makes the server close the connection in the middle of an answer."""


async def _write_stream(script: Script, asked: dict[str, Any], send: Send) -> None:
    await _start(send, 200, {"content-type": "text/event-stream", **script.headers})
    await _chunk(send, {"role": "assistant", "content": ""})
    for step in script.steps:
        await _perform(step, send)
    if script.has_end:
        called = any(isinstance(step, Call) for step in script.steps)
        await _chunk(send, {}, finish_reason="tool_calls" if called else "stop")
        await _send(send, b"data: [DONE]\n\n")
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _perform(step: Step, send: Send) -> None:
    match step:
        case Say(text):
            await _chunk(send, {"content": text})
        case Think(text):
            await _chunk(send, {"reasoning_content": text})
        case Call(name, arguments, id, index, piece):
            head = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
            await _chunk(send, {"tool_calls": [head]})
            for at in range(0, len(arguments), piece):
                part = {"index": index, "function": {"arguments": arguments[at : at + piece]}}
                await _chunk(send, {"tool_calls": [part]})
        case Raw(data):
            await _send(send, data)
        case Pause(seconds):
            await asyncio.sleep(seconds)
        case Hold(until):
            await _wait_for(until)
        case Cut():
            raise ConnectionCut


async def _wait_for(event: threading.Event) -> None:
    for _ in range(int(HOLD_LIMIT_S / 0.01)):
        if event.is_set():
            return
        await asyncio.sleep(0.01)


def _echo(asked: dict[str, Any]) -> Script:
    content = asked["messages"][-1].get("content") or ""
    text = content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)
    return says("You said: ", text[:200])


def _completion(script: Script, asked: dict[str, Any]) -> dict[str, Any]:
    text = "".join(step.text for step in script.steps if isinstance(step, Say))
    tool_calls = [
        {"id": step.id, "type": "function", "function": {"name": step.name, "arguments": step.arguments}}
        for step in script.steps
        if isinstance(step, Call)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if tool_calls:
        message["tool_calls"] = tool_calls
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if tool_calls else "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": asked.get("model", MODEL),
            "choices": [choice], "usage": usage}  # fmt: skip


async def _chunk(send: Send, delta: dict[str, Any], finish_reason: str | None = None) -> None:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}
    await _send(send, f"data: {json.dumps(chunk)}\n\n".encode())


async def _answer(send: Send, script: Script) -> None:
    await _json(send, script.status, dict(script.body), dict(script.headers))


async def _json(send: Send, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
    payload = json.dumps(body).encode()
    await _start(send, status, {"content-type": "application/json", **(headers or {})})
    await send({"type": "http.response.body", "body": payload, "more_body": False})


async def _start(send: Send, status: int, headers: Mapping[str, str]) -> None:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})


async def _send(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def _body(receive: Receive) -> bytes:
    pieces = []
    while True:
        message = await receive()
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _events(*events: dict[str, Any]) -> bytes:
    return b"".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events)


class Responses:
    """The Responses API: its events of a step and of the end, and its whole reply."""

    def __init__(self) -> None:
        self._count = 0

    def start(self) -> bytes:
        return _events({"type": "response.created", "response": {"id": f"resp_{self._count + 1}"}})

    def events(self, step: Step) -> bytes:
        match step:
            case Say(text):
                added = {"type": "response.output_item.added", "item": self._items((Say(""),))[0]}
                return _events(added, {"type": "response.output_text.delta", "delta": text})
            case Think(text):
                return _events({"type": "response.reasoning_summary_text.delta", "delta": text})
            case Call():
                return _events({"type": "response.output_item.done", "item": self._items((step,))[0]})
        raise AssertionError(step)

    def end(self, script: Script) -> bytes:
        said = tuple(step for step in script.steps if isinstance(step, Say))
        done = [{"type": "response.output_item.done", "item": item} for item in self._items(said)]
        return _events(*done, {"type": "response.completed", "response": self.whole(script)})

    def whole(self, script: Script) -> dict[str, Any]:
        self._count += 1
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        output = self._items(script.steps)
        return {"object": "response", "id": f"resp_{self._count}", "model": MODEL, "output": output, "usage": usage}

    def _items(self, steps: tuple[Step, ...]) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        for step in steps:
            match step:
                case Say(text):
                    content = [{"type": "output_text", "text": text, "annotations": []}]
                    items.append({"type": "message", "role": "assistant", "content": content})
                case Think(text):
                    items.append({"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]})
                case Call(name, arguments, id, namespace=namespace):
                    called = {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}
                    items.append(called | ({"namespace": namespace} if namespace else {}))
        return items


class Messages:
    """The same of Anthropic's Messages; each step is a block."""

    def start(self) -> bytes:
        # Unique as those of the API: Claude Code joins messages that have the same.
        return _events({"type": "message_start", "message": {**self.whole(Script()), "id": f"msg_{uuid4().hex}"}})

    def events(self, step: Step) -> bytes:
        start: dict[str, Any]
        match step:
            case Say(text):
                start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": text}
            case Think(text):
                start, delta = {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": text}
            case Call(name, arguments, id, index):
                start = {"type": "tool_use", "id": id, "name": name, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": arguments}
                return self._block(index, start, delta)
            case _:
                raise AssertionError(step)
        return self._block(0, start, delta)

    def _block(self, index: int, start: dict[str, Any], delta: dict[str, Any]) -> bytes:
        return _events(
            {"type": "content_block_start", "index": index, "content_block": start},
            {"type": "ping"},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        )

    def end(self, script: Script) -> bytes:
        usage = {"output_tokens": 1}
        called = any(isinstance(step, Call) for step in script.steps)
        delta = {"stop_reason": "tool_use" if called else "end_turn"}
        return _events({"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"})

    def whole(self, script: Script) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        for step in script.steps:
            match step:
                case Say(text):
                    content.append({"type": "text", "text": text})
                case Think(text):
                    content.append({"type": "thinking", "thinking": text, "signature": "x"})
                case Call(name, arguments, id):
                    content.append({"type": "tool_use", "id": id, "name": name, "input": json.loads(arguments)})
        usage = {"input_tokens": 1, "output_tokens": 1}
        return {"type": "message", "role": "assistant", "model": MODEL, "content": content, "usage": usage}


class Gemini:
    """The same of Gemini's generateContent, whose path says which model and method is meant."""

    def __init__(self, path: str) -> None:
        self.method = path.rpartition(":")[2]
        self.is_stream = self.method == "streamGenerateContent"

    def start(self) -> bytes:
        return b""

    def events(self, step: Step) -> bytes:
        return self._event({"content": {"role": "model", "parts": self._parts((step,))}, "index": 0})

    def end(self, script: Script) -> bytes:
        return self._event({"content": {"role": "model", "parts": []}, "finishReason": "STOP", "index": 0})

    def whole(self, script: Script) -> dict[str, Any]:
        if self.method == "countTokens":
            return {"totalTokens": 5}
        content = {"role": "model", "parts": self._parts(script.steps)}
        return self._response({"content": content, "finishReason": "STOP", "index": 0})

    def _event(self, candidate: dict[str, Any]) -> bytes:
        return f"data: {json.dumps(self._response(candidate))}\n\n".encode()

    def _response(self, candidate: dict[str, Any]) -> dict[str, Any]:
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": MODEL}

    def _parts(self, steps: tuple[Step, ...]) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        for step in steps:
            match step:
                case Say(text):
                    parts.append({"text": text})
                case Think(text):
                    parts.append({"text": text, "thought": True})
                case Call(name, arguments):
                    parts.append({"functionCall": {"name": name, "args": json.loads(arguments)}})
        return parts


OtherWire = Responses | Messages | Gemini
OTHER_WIRES: dict[str, OtherWire] = {"/v1/responses": Responses(), "/v1/messages": Messages()}


@contextmanager
def running_chat_server(**behaviour: Any) -> Iterator[ChatServer]:
    """A `ChatServer` on a free port for the time of the block; `url` ends in /v1."""
    server = ChatServer(**behaviour)
    with running_application(server, guarded=False) as address:
        server.url = f"{address}/v1"
        yield server


if __name__ == "__main__":
    import uvicorn

    fast = ChatServer(keeps_requests=False)
    uvicorn.run(fast, port=int(sys.argv[1]), lifespan="off", log_level="critical", access_log=False)
