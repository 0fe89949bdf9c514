"""The tool that says why a file is as it is: the turns that edited it, and which one wrote a line."""

import re
from typing import Annotated, Any

from pydantic import BaseModel, Field

from convmemory.accounts.callers import Caller
from convmemory.conversations.files import FileTurn, why
from convmemory.conversations.messages.outcomes import Outcome
from convmemory.conversations.models import project_name
from convmemory.core.text import one_line
from convmemory.tools.definition import Optional, Text, Tool, ToolInput, ToolOutput, site
from convmemory.tools.searching import LABEL_CHARS, LINE_CHARS, Project, markdown_link

TURNS_SHOWN = 10
LINES_SHOWN = 20
MAX_PATH_CHARS, MAX_TEXT_CHARS = 4_000, 1_000_000
_LINE = re.compile(r"\d{1,7}")


class WhyInput(ToolInput):
    file: Annotated[Text, Field(description="path or path:LINE")]
    text: Annotated[Text, Field(description="the line as it is")] = ""
    project: Project = ""


class WhyTurn(BaseModel):
    conversation_id: int
    turn_number: int
    conversation_title: str
    url: str
    agent: str
    project: str
    created_at: str
    user_question: str
    outcome: dict[str, Any]


class WhyLine(BaseModel):
    text: str
    turn: WhyTurn | Optional = None


class WhyOutput(ToolOutput):
    file: str
    turns: list[WhyTurn]
    total: int
    lines: list[WhyLine] = []
    other_files: list[str] = []


def why_file(caller: Caller | None, arguments: WhyInput) -> WhyOutput:
    """Return the turns of the caller that edited a file; of the first archive of their key that has some."""
    file, line = arguments.file[:MAX_PATH_CHARS], None
    path, _, number = file.rpartition(":")
    if path and _LINE.fullmatch(number):
        file, line = path, int(number)
    if caller is None:
        return WhyOutput(file=file, turns=[], total=0, note="Nothing is archived for you.")
    for access in (caller.archive, *caller.spaces):
        with caller.in_(access) as there:
            answer = why(
                caller=there, file=file, project=arguments.project, line=line, text=arguments.text[:MAX_TEXT_CHARS]
            )
        if answer.history.turns:
            break
    return WhyOutput(
        file=answer.history.path,
        turns=[turn_out(turn) for turn in answer.history.turns[:TURNS_SHOWN]],
        total=len(answer.history.turns),
        lines=[
            WhyLine(text=each.text, turn=turn_out(each.turn) if each.turn else None)
            for each in answer.lines[:LINES_SHOWN]
        ],
        other_files=list(answer.history.others),
        note=answer.note or None,
    )


def turn_out(turn: FileTurn) -> WhyTurn:
    """Return a turn as answers have it."""
    return WhyTurn(
        conversation_id=turn.conversation_id,
        turn_number=turn.turn_number,
        conversation_title=turn.title,
        url=f"{site()}{turn.url}",
        agent=turn.agent,
        project=turn.project,
        created_at=turn.created_at.isoformat(),
        user_question=turn.question,
        outcome=turn.outcome.to_json(),
    )


def why_as_text(answer: dict[str, Any]) -> str:
    """Return the lines with the turns that wrote them, and a line of Markdown for each turn, newest first."""
    lines = [
        f"`{one_line(each['text'], LINE_CHARS)}`: {turn_line(each['turn']) if 'turn' in each else 'unknown'}"
        for each in answer["lines"]
    ]
    if answer["turns"]:
        total = answer["total"]
        lines.append(f"{answer['file']} was edited in {total} turn{'s' * (total != 1)}, newest first:")
    headed: set[int] = set()
    for turn in answer["turns"]:
        lines.append(f"- {turn_line(turn, is_headed=turn['conversation_id'] in headed)}")
        headed.add(turn["conversation_id"])
    if answer["other_files"]:
        lines.append(f"Other files of this name: {', '.join(answer['other_files'])}")
    return "\n".join([*lines, *([answer["note"]] if "note" in answer else [])])


def turn_line(turn: dict[str, Any], *, is_headed: bool = False) -> str:
    """Return the line of a turn: its link, when and where, question and answer.

    If an earlier line has the same conversation, its number and date replace the first two.
    """
    about = (turn["created_at"][:10], project_name(turn["project"]), turn["agent"])
    where = f"conversation_id {turn['conversation_id']}, turn {turn['turn_number']}"
    line = f"{markdown_link(turn['conversation_title'], turn['url'])} "
    line += f"({', '.join(one_line(each, LABEL_CHARS) for each in about if each)}; {where})"
    if is_headed:
        line = f"turn {turn['turn_number']} ({about[0]})"
    if asked := turn["user_question"]:
        line += f" asked: {one_line(asked, LINE_CHARS)}"
    conclusion = Outcome.from_json(turn["outcome"]).conclusion
    return f"{line} | answer: {one_line(conclusion, LINE_CHARS)}" if conclusion else line


WHY = Tool(
    name="why",
    description=("The turns that wrote a file or line. Use it before you change odd code; not for new files. 'a.py:7'"),
    input_model=WhyInput,
    output_model=WhyOutput,
    function=why_file,
    as_text=why_as_text,
)
