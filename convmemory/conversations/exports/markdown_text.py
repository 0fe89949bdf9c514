"""Conversations as Markdown: headings for conversations and speakers, and work folded as on the conversation page.

Tool calls and their output are in code fences; a run of steps is a `<details>`, whose summary is the page's line.
"""

import json
import re
from collections.abc import Iterator, Mapping
from html import escape

from markdown_it import MarkdownIt

from convmemory.conversations.exports.selection import ExportedMessage
from convmemory.conversations.exports.turns import TurnPart, TurnParts
from convmemory.conversations.messages.outcomes import Outcome
from convmemory.conversations.messages.parts import AttachmentPart, Part, TextPart, ThinkingPart, ToolCallPart
from convmemory.conversations.models import Conversation
from convmemory.conversations.pages.markdown_html import PageWork
from convmemory.conversations.pages.rendering import MessageBlock, StepRun
from convmemory.conversations.templatetags.outcomes import commands
from convmemory.core.text import one_line

SHORTEST_FENCE = 3
_BLOCKS = MarkdownIt("commonmark").disable("inline")
_SIGN = re.compile(r"[\\`*_~\[\]<>&]")


class MarkdownWriter:
    """Writes one Markdown document."""

    def __init__(self) -> None:
        self._speaker = ""
        self._turns = TurnParts()

    def begin(self) -> str:
        return ""

    def conversation(self, conversation: Conversation) -> str:
        self._speaker, self._turns = "", TurnParts()
        facts = [f"{conversation.created_at:%Y-%m-%d}", conversation.agent, conversation.project]
        title = one_line(conversation.title, 300) or "Untitled conversation"
        return f"# {title}\n\n{' · '.join(filter(None, facts))}\n\n"

    def message(self, message: ExportedMessage) -> Iterator[str]:
        for part in self._turns.take(message):
            yield from self._written(part)

    def end_of_conversation(self) -> Iterator[str]:
        for part in self._turns.rest():
            yield from self._written(part)

    def end(self) -> str:
        return ""

    def _written(self, part: TurnPart) -> Iterator[str]:
        texts = {index: part_as_markdown(each) for index, each in part.parts().items()}
        for block in part.blocks(work=PageWork(left=0)):  # no HTML is needed
            view = block.view
            paragraphs = [self._heading(block), f"*{_escaped(one_line(str(view.mark), 400))}*" if view.mark else ""]
            paragraphs += [texts[view.position, each.index] for each in view.parts]
            if block.run:
                paragraphs.append(_folded(block.run, texts))
            if block.outcome.is_work:
                paragraphs.append(f"*{_escaped(_outcome_line(block.outcome))}*")
            yield "".join(f"{paragraph}\n\n" for paragraph in paragraphs if paragraph)

    def _heading(self, block: MessageBlock) -> str:
        """Return the speaker's heading, where the speaker has changed or a superseded message begins."""
        view = block.view
        gone = ", superseded" if view.superseded else ""
        if not gone and (view.speaker == self._speaker or (not view.headed and self._speaker)):
            return ""
        self._speaker = "" if gone else view.speaker
        at = f", {view.created_at:%Y-%m-%d %H:%M} UTC" if view.created_at else ""
        return f"## {one_line(view.speaker, 200)}{at}{gone}"


def _folded(run: StepRun, texts: Mapping[tuple[int, int], str]) -> str:
    """Return steps as one line that opens; a single step as it is."""
    pieces = []
    for step in run.steps:
        pieces.append(texts[step.position, step.part.index])
        if step.result:
            pieces.append(texts[step.result_position, step.result.index])
    inner = "\n\n".join(filter(None, pieces))
    if not run.is_folded:
        return inner
    about = run.tools if run.is_all_work or not run.outcome.is_work else _outcome_line(run.outcome)
    return f"<details><summary>{escape(f'{run.label} · {about}')}</summary>\n\n{inner}\n\n</details>"


def _outcome_line(outcome: Outcome) -> str:
    """Return changed files and last commands in one line, as the page shows them."""
    return " · ".join(filter(None, [outcome.file_names, *(sentence for sentence, _ in commands(outcome))]))


def _escaped(text: str) -> str:
    """Return the text with its signs of Markdown and HTML escaped: the names of files and commands are full of them."""
    return _SIGN.sub(r"\\\g<0>", text)


def part_as_markdown(part: Part) -> str:
    """Return a part as Markdown: spoken text stays as it is, with its last fence closed; other content is fenced."""
    if isinstance(part, TextPart):
        return _with_closed_fence(part.text.strip("\n"))
    if isinstance(part, ThinkingPart):
        return "\n".join(f"> {line}" for line in part.text.strip("\n").split("\n"))
    if isinstance(part, ToolCallPart):
        parameters = json.dumps(dict(part.input), ensure_ascii=False, indent=2, default=str)
        return f"**Calls {one_line(part.name, 200)}**\n\n{_fenced(parameters, 'json')}"
    if isinstance(part, AttachmentPart):
        return f"**Attached: {one_line(part.name, 200)}**" + (f"\n\n{_fenced(part.text)}" if part.text else "")
    return f"**{'Error' if part.is_error else 'Output'}**\n\n{_fenced(part.text)}"


def _with_closed_fence(text: str) -> str:
    """Return the text with the end of a fence that it leaves open: what follows it would be code."""
    if "```" not in text and "~~~" not in text:
        return text
    last = next(iter(_BLOCKS.parse(f"{text}\n")[-1:]), None)
    if last is None or last.type != "fence" or last.map is None:
        return text  # a fence in a list or a quotation ends with it
    is_open = last.content.count("\n") == last.map[1] - last.map[0] - 1
    return f"{text}\n{last.markup}" if is_open else text


def _fenced(text: str, language: str = "") -> str:
    """Return the text in a fence that is longer than any run of backticks in it."""
    longest = run = 0
    if "```" in text:
        for char in text:
            run = run + 1 if char == "`" else 0
            longest = max(longest, run)
    fence = "`" * max(SHORTEST_FENCE, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
