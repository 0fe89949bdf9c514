"""Records of coding agents that hold a text in every place where a person, a model or a tool can have put it."""

from pathlib import Path
from typing import Any

from convmemory.conversations.importers.aider import AiderImporter
from convmemory.conversations.importers.base import Importer
from convmemory.conversations.importers.claude_stream import ClaudeStreamImporter
from convmemory.conversations.importers.cline import HISTORY, ClineImporter
from convmemory.conversations.importers.copilot_cli import CopilotCliImporter
from convmemory.conversations.importers.cursor import CursorImporter
from convmemory.conversations.importers.detect import IMPORTERS
from convmemory.conversations.importers.gemini_cli import GeminiCliImporter
from convmemory.conversations.importers.goose import GooseImporter
from convmemory.conversations.importers.markdown_chat import MarkdownImporter
from convmemory.conversations.importers.pi import PiImporter
from convmemory.conversations.importers.vscode_copilot import VSCodeCopilotImporter

Record = dict[str, Any]


def aider(text: str) -> tuple[Importer, str, str]:
    return AiderImporter(), ".aider.chat.history.md", f"# aider chat started at {text}\n#### {text}\n> {text}\n{text}"


def cline(text: str) -> tuple[Importer, str, list[Record]]:
    texts = [text, f"<task>{text}</task>", f"[bash for '{text}'] Result:{text}", f"<environment_details>{text}"]
    blocks = [{"type": "text", "text": item} for item in texts]
    return ClineImporter(), HISTORY, [{"role": "user", "content": blocks}, {"role": "assistant", "content": text}]


def copilot_cli(text: str) -> tuple[Importer, str, list[Record]]:
    call = {"toolCallId": text, "name": text, "arguments": text}
    data = {"content": text, "reasoningText": text, "toolRequests": [call], "result": {"content": text}}
    kinds = ("session.start", "user.message", "assistant.message", "tool.execution_complete")
    return CopilotCliImporter(), "events.jsonl", [{"type": kind, "id": f"{kind}{text}", "data": data} for kind in kinds]


def cursor(text: str) -> tuple[Importer, str, list[Record]]:
    content = [{"type": "text", "text": f"<user_query>{text}</user_query>{text}<user_query>"}]
    return CursorImporter(), "a.jsonl", [{"role": "user", "message": {"content": content}}]


def gemini_cli(text: str) -> tuple[Importer, str, list[Record]]:
    call = {"id": text, "name": text, "args": {text: text}, "resultDisplay": text}
    message = {"id": text, "type": "gemini", "content": [text], "thoughts": [{"subject": text}], "toolCalls": [call]}
    return GeminiCliImporter(), "a.jsonl", [{"sessionId": text}, message, {"$rewindTo": text}, message]


def goose(text: str) -> tuple[Importer, str, list[Record]]:
    call = {"type": "toolRequest", "id": text, "toolCall": {"value": {"name": text, "arguments": text}}}
    content = [{"type": "text", "text": text}, call, {"type": "toolResponse", "id": text, "toolResult": text}]
    return GooseImporter(), "a.jsonl", [{"description": text}, {"role": "assistant", "content": content}]


def pi(text: str) -> tuple[Importer, str, list[Record]]:
    content = [{"type": "text", "text": text}, {"type": "toolCall", "id": text, "name": text, "arguments": text}]
    message = {"role": "assistant", "content": content, "errorMessage": text}
    header = {"type": "session", "id": text, "cwd": text, "parentSession": text}
    return PiImporter(), "a.jsonl", [header, {"type": "message", "id": text, "parentId": text, "message": message}]


def vscode_copilot(text: str) -> tuple[Importer, str, list[Record]]:
    response = [
        {"value": text},
        {"kind": "thinking", "value": text},
        {"kind": "toolInvocationSerialized", "toolId": text},
    ]
    request = {"requestId": text, "message": {"text": text}, "response": response}
    deep = {"kind": 1, "k": [*text][:1_000], "v": text}
    return VSCodeCopilotImporter(), "a.jsonl", [{"kind": 0, "v": {"requests": [request]}}, deep]


def declared(text: str) -> tuple[Importer, str, list[Record]]:
    parts = [{"text": text}, {"text": f"<think>{text}"}, {"functionCall": {"id": text, "name": text, "args": text}}]
    parts += [{"text": f"<system-reminder>{text}"}, {"functionResponse": {"id": text, "response": {"output": text}}}]
    return (
        IMPORTERS["qwen-code"],
        "a.jsonl",
        [
            {"uuid": f"{kind}{text}", "parentUuid": text, "sessionId": text, "type": kind, "message": {"parts": parts}}
            for kind in ("user", "assistant")
        ],
    )


def claude_stream(text: str) -> tuple[Importer, str, list[Record]]:
    message = {"content": [{"type": "text", "text": text}, {"type": "tool_use", "id": text, "name": text}]}
    kinds = ("user", "assistant", "result")
    return ClaudeStreamImporter(), "a.jsonl", [{"type": kind, "session_id": text, "message": message} for kind in kinds]


def markdown_chat(text: str) -> tuple[Importer, str, str]:
    lines = (f"<!-- {text} Session {text} -->", f"**You:** {text}", f"**{text}**", f"## {text}", f"**Claude ({text})**")
    return MarkdownImporter(), "a.md", "\n".join((*lines, f"<think>{text}", text))


RECORDS = (
    aider,
    claude_stream,
    cline,
    copilot_cli,
    cursor,
    declared,
    gemini_cli,
    goose,
    markdown_chat,
    pi,
    vscode_copilot,
)


def written(folder: Path, name: str, content: str | list[Record]) -> Path:
    """The records as their agent keeps them: text, one JSON document, or a line each."""
    import json

    path = folder / name
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8", errors="replace")
    elif name.endswith(".jsonl"):
        path.write_text("\n".join(map(json.dumps, content)), encoding="utf-8")
    else:
        path.write_text(json.dumps(content), encoding="utf-8")
    return path
