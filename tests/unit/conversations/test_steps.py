"""Runs of tool calls as the page folds them: what is counted, what belongs together, what stays outside."""

from typing import Any

from convmemory.conversations.messages.outcomes import Outcome
from convmemory.conversations.messages.parts import (
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    part_to_json,
)
from convmemory.conversations.models import Message
from convmemory.conversations.pages.highlighting import MarkedPassage, MarkedSpan
from convmemory.conversations.pages.rendering import MessageBlock, Note, fold_steps, view_messages


def message(position: int, role: str, *parts: Part, **values: Any) -> Message:
    is_person = role == "user" and any(isinstance(part, TextPart) for part in parts)
    return Message(
        pk=position + 1, position=position, role=role, is_real_user=is_person, turn_number=0,
        parts=[part_to_json(part) for part in parts], **values,
    )  # fmt: skip


def call(number: int, name: str = "Bash") -> ToolCallPart:
    return ToolCallPart(f"c{number}", name, {"command": f"step {number}"})


def result(number: int, *, is_error: bool = False) -> ToolResultPart:
    return ToolResultPart(f"c{number}", f"printed {number}", is_error=is_error)


def folded(*messages: Message, **values: Any) -> list[MessageBlock]:
    return fold_steps(view_messages(messages, **values))


def test_calls_and_results_of_many_messages_are_one_run() -> None:
    names = ["Bash"] * 8 + ["Read"] * 3 + ["Edit"]
    messages = [message(0, "user", TextPart("go"))]
    for number, name in enumerate(names):
        messages.append(message(2 * number + 1, "assistant", call(number, name)))
        messages.append(message(2 * number + 2, "user", result(number)))
    messages.append(message(25, "assistant", TextPart("done")))
    blocks = folded(*messages)
    assert [block.view.kind for block in blocks] == ["user", "assistant", "assistant"]
    run = blocks[1].run
    assert run is not None
    assert (run.count, run.label, run.tools) == (12, "12 steps", "8 Bash, 3 Read, 1 Edit")
    assert run.is_folded
    assert all(step.result is not None and step.result.text.startswith("printed") for step in run.steps)
    assert [(step.position, step.result_position) for step in run.steps[:2]] == [(1, 2), (3, 4)]
    assert [block.last_position for block in blocks] == [0, 24, 25]


def test_remarks_between_calls_are_in_run_and_first_text_and_answer_outside() -> None:
    first, *rest = folded(
        message(0, "user", TextPart("go")),
        message(1, "assistant", TextPart("I look."), call(1), call(2)),
        message(2, "tool", result(1), result(2)),
        message(3, "assistant", TextPart("I change."), call(3)),
        message(4, "tool", result(3)),
        message(5, "assistant", TextPart("Done.")),
    )
    work, answer = rest
    assert [part.html for block in rest for part in block.view.parts] == ["<p>I look.</p>\n", "<p>Done.</p>\n"]
    assert work.run is not None
    assert [step.part.type for step in work.run.steps] == ["tool_call", "tool_call", "text", "tool_call"]
    assert (first.run, work.run.count, work.last_position, answer.run) == (None, 3, 4, None)


def test_long_text_between_calls_stays_outside_of_runs() -> None:
    report = "It is the lock. " * 20
    work, rest = folded(
        message(0, "assistant", call(1)),
        message(1, "tool", result(1)),
        message(2, "assistant", TextPart(report), call(2)),
    )
    assert work.run is not None
    assert rest.run is not None
    assert (work.run.count, rest.run.count, len(rest.view.parts)) == (1, 1, 1)


def test_passage_in_remark_opens_its_run() -> None:
    remark = MarkedPassage(3, 0, MarkedSpan(0, 6))
    (block,) = folded(
        message(0, "assistant", call(1)),
        message(1, "tool", result(1)),
        message(2, "assistant", TextPart("I look."), call(2)),
        passage=remark,
    )
    assert block.run is not None
    assert block.run.is_open


def test_run_tells_its_files_and_last_commands() -> None:
    edits = [ToolCallPart(f"e{name}", "Write", {"file_path": f"/p/{name}.py", "content": "x"}) for name in "ab"]
    (block,) = folded(
        message(0, "assistant", *edits, edits[0], call(1), call(2)),
        message(1, "tool", result(1), result(2, is_error=True)),
    )
    assert block.run is not None
    assert block.run.label == "5 steps, 2 files"
    assert (block.run.outcome.file_names, block.run.outcome.passed) == ("a.py, b.py", "step 1")
    assert block.run.outcome.failed == "step 2"


def test_outcome_is_at_last_block_of_its_turn() -> None:
    outcome = Outcome("Done.", passed="step 1")
    messages = message(0, "user", TextPart("go")), message(1, "assistant", call(1)), message(2, "tool", result(1))
    blocks = folded(*messages, outcomes={3: outcome})
    assert [block.outcome for block in blocks] == [Outcome(), outcome]


def test_thought_between_calls_is_in_run_and_not_counted() -> None:
    blocks = folded(
        message(0, "assistant", ThinkingPart("first"), call(1)),
        message(1, "tool", result(1)),
        message(2, "assistant", ThinkingPart("then"), call(2)),
    )
    (block,) = blocks
    assert block.run is not None
    assert [part.type for part in block.view.parts] == ["thinking"]
    assert [step.part.type for step in block.run.steps] == ["tool_call", "thinking", "tool_call"]
    assert block.run.tools == "2 Bash"


def test_results_without_calls_form_run() -> None:
    (block,) = folded(message(4, "tool", result(1), result(2, is_error=True)))
    assert block.run is not None
    assert [step.part.type for step in block.run.steps] == ["tool_result", "tool_result"]
    assert block.run.failed == 1


def test_run_ends_with_its_turn_and_with_another_speaker() -> None:
    one = message(0, "assistant", call(1), name="Ada")
    two = message(1, "assistant", call(2), name="Bob")
    assert len(folded(one, two)) == 2
    later = message(2, "assistant", call(3), name="Bob")
    later.turn_number = 1
    assert len(folded(two, later)) == 2


def test_superseded_calls_are_not_grouped() -> None:
    gone = message(0, "assistant", call(1), superseded=True)
    (block,) = folded(gone)
    assert block.run is None
    assert len(block.view.parts) == 1


def test_notes_and_positions_are_those_of_last_message() -> None:
    note = Note("The reply was stopped.")
    (block,) = folded(message(0, "assistant", call(1)), message(1, "tool", result(1)), notes={2: (note,)})
    assert block.view.notes == (note,)
    assert block.last_position == 1


def test_many_tools_are_named_by_most_used() -> None:
    calls = [call(number, f"tool{number % 6}") for number in range(13)]
    (block,) = folded(message(0, "assistant", *calls))
    assert block.run is not None
    assert block.run.tools == "3 tool0, 2 tool1, 2 tool2, 2 tool3, 4 others"
