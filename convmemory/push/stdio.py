"""`convmemory-push mcp`: MCP on standard input and output, passed on to `/mcp` of the server: agents hold no key.

Each line is one JSON-RPC message and one request. What cannot be passed on is answered with a JSON-RPC error that says
what to do.
"""

import json
import sys
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TextIO

from .sending import PushError, Server, detail_of, request

AT_ONCE = 4
PARSE_ERROR, INTERNAL_ERROR = -32700, -32603
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"


class Bridge:
    """Passes messages on to a server and writes its answers."""

    def __init__(self, server: Server, output: TextIO) -> None:
        self._server, self._output = server, output
        self._writing = threading.Lock()
        self._version = ""

    def serve(self, lines: Iterable[str]) -> None:
        """Answer each line. The first messages are answered in order, later calls at the same time."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for line in filter(str.strip, lines):
                try:
                    message = json.loads(line)
                except ValueError:
                    self._write(_error(None, PARSE_ERROR, "The line is not JSON: send one message a line."))
                    continue
                if isinstance(message, dict) and message.get("method") == "tools/call":
                    pool.submit(self._pass_on, message)
                else:
                    self._pass_on(message)

    def _pass_on(self, message: Any) -> None:
        fields = message if isinstance(message, dict) else {}
        parameters = fields.get("params")
        parameters = parameters if isinstance(parameters, dict) else {}
        meta = parameters.get("_meta")
        declared = meta.get(VERSION_KEY) if isinstance(meta, dict) else None
        named = {  # the server checks that they agree with the message
            "Mcp-Protocol-Version": declared or self._version,
            "Mcp-Method": fields.get("method") if declared else "",
            "Mcp-Name": (parameters.get("name") or parameters.get("uri")) if declared else "",
        }
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        headers |= {name: text for name, text in named.items() if isinstance(text, str) and text.isprintable() and text}
        try:
            status, body = request(self._server, "POST", "/mcp", json.dumps(message).encode(), headers)
        except PushError as error:
            self._refuse(fields, f"{error}. Start it, or run `convmemory-push connect --check`.")
            return
        answer = _object(body)
        if answer is not None and "jsonrpc" in answer:
            if fields.get("method") == "initialize":
                self._version = str(answer.get("result", {}).get("protocolVersion", ""))
            self._write(answer)
        elif status >= 400:
            self._refuse(fields, f"{detail_of(body)} (status {status}; run `convmemory-push connect --check`)")

    def _refuse(self, message: Mapping[str, Any], reason: str) -> None:
        if message.get("id") is not None:  # a notification has no answer
            self._write(_error(message["id"], INTERNAL_ERROR, reason))

    def _write(self, message: Mapping[str, Any]) -> None:
        with self._writing:
            self._output.write(json.dumps(message, ensure_ascii=False) + "\n")
            self._output.flush()


def call_tool(server: Server, name: str, arguments: Mapping[str, Any]) -> str:
    """Return the text that a tool answers. Raises: PushError with what it says is wrong."""
    params = {"name": name, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    status, body = request(server, "POST", "/mcp", json.dumps(message).encode(), headers)
    result = (_object(body) or {}).get("result")
    if status != 200 or result is None:
        raise PushError(f"{detail_of(body)} (status {status}; run `convmemory-push connect --check`)")
    text = "\n".join(str(block.get("text", "")) for block in result["content"])
    if result.get("isError"):
        raise PushError(text)
    return text


def serve(server: Server) -> None:
    """Serve the agent that started this process until it closes its end."""
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    Bridge(server, sys.stdout).serve(sys.stdin)


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _error(message_id: Any, code: int, reason: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message_id, "error": {"code": code, "message": reason}}
