"""Conversations as Markdown: headings for conversations and speakers, tool calls and their output in code fences."""

import json

from convmemory.conversations.exports.selection import ExportedMessage
from convmemory.conversations.messages.parts import AttachmentPart, Part, TextPart, ThinkingPart, ToolCallPart
from convmemory.conversations.models import Conversation
from convmemory.conversations.pages.rendering import message_kind, speaker_name
from convmemory.core.text import one_line

SHORTEST_FENCE = 3


class MarkdownWriter:
    """Writes one Markdown document."""

    def __init__(self) -> None:
        self._speaker = ""

    def begin(self) -> str:
        return ""

    def conversation(self, conversation: Conversation) -> str:
        self._speaker = ""
        facts = [f"{conversation.created_at:%Y-%m-%d}", conversation.agent, conversation.project]
        title = one_line(conversation.title, 300) or "Untitled conversation"
        return f"# {title}\n\n{' · '.join(filter(None, facts))}\n\n"

    def message(self, message: ExportedMessage) -> str:
        speaker = speaker_name(message.row, message_kind(message.row, message.parts))
        gone = ", superseded" if message.row.superseded else ""
        marked = f"*{one_line(str(message.mark), 400)}*\n\n" if message.mark else ""
        at = f", {message.row.created_at:%Y-%m-%d %H:%M} UTC" if message.row.created_at else ""
        heading = "" if speaker == self._speaker and not gone else f"## {one_line(speaker, 200)}{at}{gone}\n\n"
        self._speaker = "" if gone else speaker
        texts = [text for part in message.parts if (text := part_as_markdown(part))]
        return heading + marked + "".join(f"{text}\n\n" for text in texts)

    def end_of_conversation(self) -> str:
        return ""

    def end(self) -> str:
        return ""


def part_as_markdown(part: Part) -> str:
    """Return a part as Markdown: spoken text stays unchanged, other content is fenced."""
    if isinstance(part, TextPart):
        return part.text.strip("\n")
    if isinstance(part, ThinkingPart):
        return "\n".join(f"> {line}" for line in part.text.strip("\n").split("\n"))
    if isinstance(part, ToolCallPart):
        parameters = json.dumps(dict(part.input), ensure_ascii=False, indent=2, default=str)
        return f"**Calls {one_line(part.name, 200)}**\n\n{_fenced(parameters, 'json')}"
    if isinstance(part, AttachmentPart):
        return f"**Attached: {one_line(part.name, 200)}**" + (f"\n\n{_fenced(part.text)}" if part.text else "")
    return f"**{'Error' if part.is_error else 'Output'}**\n\n{_fenced(part.text)}"


def _fenced(text: str, language: str = "") -> str:
    """Return the text in a fence that is longer than any run of backticks in it."""
    longest = run = 0
    if "```" in text:
        for char in text:
            run = run + 1 if char == "`" else 0
            longest = max(longest, run)
    fence = "`" * max(SHORTEST_FENCE, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
