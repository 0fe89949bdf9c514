import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmemory.conversations.importers.base import FileReport, Source
from convmemory.conversations.importers.claude_code import ClaudeCodeImporter
from convmemory.conversations.importers.claude_prompts import _typed_command, _without_wrappers
from convmemory.conversations.messages.parts import AttachmentPart, TextPart, ToolCallPart, ToolResultPart, spoken_text
from tests.unit.importers.helpers import FIXTURES, Read, assistant_line, is_real, read, user_line, write_lines

FOLDER = FIXTURES / "claude-code"
SESSION = "7d1f0a52-3c1b-4f6e-9a57-2f6b1c9d0e11"
HARNESS = "b2a9c7e0-51d4-4c0e-8f0a-64d2a1f3c988"

importer = ClaudeCodeImporter()


@pytest.fixture
def session() -> Read:
    (conversation,) = read(importer, FOLDER / f"{SESSION}.jsonl")
    return conversation


def read_lines(path: Path, *lines: dict[str, Any] | str) -> Read:
    (conversation,) = read(importer, write_lines(path / "session.jsonl", lines))
    return conversation


def test_session_and_its_headers(session: Read) -> None:
    draft = session.draft
    assert (draft.source, draft.source_id, draft.agent) == ("claude-code", SESSION, "claude-code")
    assert (draft.title, draft.project) == ("Vent threshold", "/home/mira/greenhouse")
    assert draft.created_at == datetime(2026, 2, 3, 10, 0, 1, tzinfo=UTC)


def test_roles_and_keys_in_file_order(session: Read) -> None:
    *told, unknown = [(message.role, message.source_key) for message in session.messages]
    assert unknown[0] == "system"
    assert unknown[1].startswith("unknown:")
    assert told == [
        ("user", "u-1"),
        ("assistant", "a-1"),
        ("tool", "r-1"),
        ("assistant", "a-4"),
        ("user", "u-2"),
        ("assistant", "a-5"),
        ("tool", "r-2"),
        ("user", "r-2:text"),
        ("assistant", "a-6"),
        ("user", "u-3"),
        ("assistant", "a-7"),
    ]
    assert session.turns == 4


def test_lines_of_one_message_id_are_joined(session: Read) -> None:
    answer = session.messages[1]
    assert answer.parts == (
        TextPart("Let me look at the controller settings."),
        ToolCallPart("toolu_1", "Grep", {"pattern": "vent_open", "path": "controller/"}),
    )
    assert answer.model == "claude-sonnet-4-5"
    assert [json.loads(line)["uuid"] for line in answer.raw.splitlines()] == ["a-1", "a-2", "a-3"]


def test_tool_results_carry_tools_name_and_no_payload(session: Read) -> None:
    assert session.messages[2].parts == (ToolResultPart("toolu_1", "controller/limits.toml:4:vent_open = 31", "Grep"),)
    assert session.messages[6].parts == (ToolResultPart("toolu_2", "updated\n[image/png, 70 bytes]", "Edit"),)


def test_images_become_attachments_and_stay_in_raw_line(session: Read) -> None:
    message = session.messages[4]
    assert message.parts == (
        TextPart("Yes, and the plot shows a second bump at night"),
        AttachmentPart("image", "image/png", 70),
    )
    assert b"iVBORw0KGgo" in message.raw


def test_two_objects_on_one_line_and_repeated_uuids(session: Read) -> None:
    assert session.draft.title == "Vent threshold"  # the second object of the line
    assert session.prompts[-1] == "Why did it open at night at all?"
    assert len(session.keys) == len(set(session.keys))


def test_unknown_types_are_counted() -> None:
    report = FileReport(path="x")
    read(importer, FOLDER / f"{SESSION}.jsonl", report)
    assert report.unknown_types == {"moon-phase": 1}
    assert report.skipped == 0


def test_records_of_requests_to_model_are_no_messages(tmp_path: Path) -> None:
    sent = {"role": "user", "content": "the whole prompt once more"}
    lines = [
        user_line("u1", "Which vent?"),
        {"type": "api-request-blob", "sessionId": "s", "hash": "h", "message": sent},
        {"type": "api-request-shape", "sessionId": "s", "shape": {"system": [{"type": "text", "text": "Be brief."}]}},
        {"type": "api-request", "sessionId": "s", "id": "r1", "params": {"model": "m"}},
        {"type": "tools-used", "sessionId": "s"},
        assistant_line("a1", "The upper one.", parentUuid="u1"),
        {"type": "cost-state", "sessionId": "s", "totalCostUSD": 0.1},
    ]
    report = FileReport(path="x")
    [conversation] = read(importer, write_lines(tmp_path / "s.jsonl", lines), report)
    assert conversation.texts == ["Which vent?", "The upper one."]
    assert report.unknown_types == {}


def test_harness_lines_are_injected_system_messages() -> None:
    (conversation,) = read(importer, FOLDER / f"{HARNESS}.jsonl")
    assert conversation.prompts == [
        "Which bed has the leak?",
        "/plan replace the valve of the north bed",
        "Order the valve now",
        "[Request interrupted by user] is what I saw, what does it mean?",
    ]
    harness = [message.source_key for message in conversation.messages if message.role == "system"]
    expected = ["h-1", "h-2", "h-3", "h-4", "h-5", "h-8", "h-10", "h-12", "h-15", "h-17", "h-18"]
    assert harness == expected
    assert all(message.injected for message in conversation.messages if message.role == "system")
    assert not any(is_real(message) for message in conversation.messages if message.role == "system")
    assert conversation.turns == 4


@pytest.mark.parametrize(
    "text",
    [
        "[Request interrupted by user for tool use]",
        "<task-notification>\n<task-id>1</task-id>",
        "<local-command-stdout>done</local-command-stdout>",
        "<command-name>/clear</command-name>\n<command-message>clear</command-message>\n<command-args></command-args>",
        "<command-message>brainstorm</command-message>\n<command-name>/brainstorm</command-name>",
        "<bash-input>ls</bash-input>",
        "<bash-stdout>a</bash-stdout>",
        "<ide_selection>line 3</ide_selection>",
        "<system-reminder>do not tell</system-reminder>",
        "Caveat: The messages below were generated by the user while running local commands. Do not respond.",
        "This session is being continued from a previous conversation that ran out of context.",
        'Operation stopped by hook: Another session is active: "x"',
    ],
)
def test_injected_text_in_old_lines_is_known_by_its_beginning(tmp_path: Path, text: str) -> None:
    for content in (text, [{"type": "text", "text": text}]):
        conversation = read_lines(tmp_path, user_line("u", content), assistant_line("a", "x"))
        assert conversation.prompts == []
        assert [message.role for message in conversation.messages] == ["system", "assistant"]


@pytest.mark.parametrize(
    "marks",
    [
        {"isMeta": True},
        {"isCompactSummary": True},
        {"isVisibleInTranscriptOnly": True},
        {"origin": {"kind": "task-notification"}},
        {"promptSource": "system"},
        {"toolUseResult": "a tool said so"},
    ],
)
def test_newer_lines_say_that_no_person_wrote_them(tmp_path: Path, marks: dict[str, Any]) -> None:
    conversation = read_lines(tmp_path, user_line("u", "looks human", **marks), assistant_line("a", "x"))
    assert conversation.prompts == []


@pytest.mark.parametrize("marks", [{"origin": {"kind": "human"}}, {"promptSource": "sdk"}, {"isMeta": False}])
def test_lines_marked_as_written_by_person_are_prompts(tmp_path: Path, marks: dict[str, Any]) -> None:
    conversation = read_lines(tmp_path, user_line("u", "human", **marks), assistant_line("a", "x"))
    assert conversation.prompts == ["human"]


def test_clis_own_answers_are_no_assistants(tmp_path: Path) -> None:
    synthetic = assistant_line("s", "API Error: 529")
    synthetic["message"]["model"] = "<synthetic>"
    flagged = assistant_line("f", "You've hit your session limit", isApiErrorMessage=True)
    conversation = read_lines(tmp_path, user_line("u", "hello?"), synthetic, flagged)
    assert [message.role for message in conversation.messages] == ["user", "system", "system"]
    assert conversation.turns == 0


def test_message_id_split_by_tool_result_is_neither_lost_nor_doubled(tmp_path: Path) -> None:
    def line(uuid: str, block: dict[str, Any]) -> dict[str, Any]:
        return {**assistant_line(uuid, ""), "message": {"id": "m", "role": "assistant", "content": [block]}}

    conversation = read_lines(
        tmp_path,
        user_line("u", "go"),
        line("a1", {"type": "tool_use", "id": "t1", "name": "x", "input": {}}),
        user_line("r1", [{"type": "tool_result", "tool_use_id": "t1", "content": "1"}]),
        line("a2", {"type": "tool_use", "id": "t2", "name": "y", "input": {}}),
        line("a3", {"type": "text", "text": "end"}),
    )
    assert [(message.source_key, len(message.parts)) for message in conversation.messages] == [
        ("u", 1),
        ("a1", 1),
        ("r1", 1),
        ("a2", 2),
    ]


def test_growing_file_keeps_its_keys(tmp_path: Path) -> None:
    lines = (FOLDER / f"{SESSION}.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    path = tmp_path / f"{SESSION}.jsonl"
    previous: list[str] = []
    for count in range(4, len(lines) + 1):
        path.write_text("".join(lines[:count]), encoding="utf-8")
        for conversation in read(importer, path):
            assert conversation.keys[: len(previous)] == previous
            previous = conversation.keys


def test_inline_sidechains_become_linked_children() -> None:
    main, beds, pumps = read(importer, FOLDER / "sidechain.jsonl")
    assert main.draft.source_id == "5e5e5e5e-0000-4000-8000-000000000001"
    assert main.prompts == ["Survey the beds and the pumps."]
    assert main.keys == ["m-1", "m-2", "m-3", "m-4"]
    for child, prompt, keys in (
        (beds, "Survey the beds.", ["x-1", "x-2"]),
        (pumps, "Survey the pumps.", ["y-1", "y-2"]),
    ):
        assert child.draft.parent_source_id == main.draft.source_id
        assert child.draft.source_id == f"{main.draft.source_id}:{keys[0]}"
        assert (child.prompts, child.keys, child.turns) == ([prompt], keys, 1)
        assert child.draft.title == prompt


def test_sidechains_with_agent_id_are_named_by_it_and_loops_in_chain_end(tmp_path: Path) -> None:
    conversations = read(
        importer,
        write_lines(
            tmp_path / "s.jsonl",
            [
                user_line("a", "one", isSidechain=True, agentId="77", parentUuid="b"),
                assistant_line("b", "two", isSidechain=True, agentId="77", parentUuid="a"),
                user_line("c", "three", isSidechain=True, parentUuid="d"),
                assistant_line("d", "four", isSidechain=True, parentUuid="c"),
            ],
        ),
    )
    assert {item.draft.source_id for item in conversations} >= {"s:agent-77"}
    assert sorted(key for item in conversations for key in item.keys) == ["a", "b", "c", "d"]


def test_subagents_file_is_linked_to_its_session() -> None:
    (conversation,) = read(importer, FOLDER / SESSION / "subagents" / "agent-b1c2d3.jsonl")
    assert conversation.draft.parent_source_id == SESSION
    assert conversation.draft.source_id == f"{SESSION}:agent-b1c2d3"
    assert (conversation.prompts, conversation.turns) == (["Find every place that reads the humidity sensor."], 1)


def test_older_subagent_file_is_linked_to_its_session(tmp_path: Path) -> None:
    line = user_line("u", "look", isSidechain=True, agentId="9", sessionId=SESSION)
    (conversation,) = read(
        importer, write_lines(tmp_path / "agent-9.jsonl", [line, assistant_line("a", "x", isSidechain=True)])
    )
    assert conversation.draft.parent_source_id == SESSION
    assert conversation.draft.source_id == f"{SESSION}:agent-9"


def test_renamed_session_is_named_by_id_in_its_lines(tmp_path: Path) -> None:
    parent = write_lines(tmp_path / "full.jsonl", [user_line("u", "hi", sessionId="abc")])
    child = write_lines(tmp_path / "full" / "subagents" / "agent-1.jsonl", [user_line("c", "hi", sessionId="agent-1")])
    assert read(importer, parent)[0].draft.source_id == "abc"
    assert read(importer, parent)[0].draft.former_ids == ("full:abc",)
    assert read(importer, child)[0].draft.parent_source_id == "abc"
    resumed = [user_line("u0", "hi", sessionId="old"), user_line("u", "again", sessionId="abc")]
    assert read(importer, write_lines(tmp_path / "copy.jsonl", resumed))[0].draft.source_id == "abc"
    streamed = {**user_line("u", "hi"), "session_id": "xyz"}
    del streamed["sessionId"]
    assert read(importer, write_lines(tmp_path / "ci.jsonl", [streamed]))[0].draft.source_id == "xyz"


def test_title_prefers_custom_then_generated_then_summary(tmp_path: Path) -> None:
    question = user_line("u", "A question " * 20)
    other, named = ({"type": "summary", "summary": f"{leaf} summary", "leafUuid": leaf} for leaf in ("elsewhere", "u"))
    generated = {"type": "ai-title", "aiTitle": "By a model"}
    custom = {"type": "custom-title", "customTitle": "By the user"}
    first = read_lines(tmp_path, other, question).draft.title
    assert first.startswith("A question A question")
    assert len(first) <= 80
    assert read_lines(tmp_path, other, named, question).draft.title == "u summary"
    assert read_lines(tmp_path, named, generated, question).draft.title == "By a model"
    assert read_lines(tmp_path, custom, generated, question).draft.title == "By the user"


def test_file_without_messages_is_empty_and_says_so() -> None:
    report = FileReport(path="x")
    assert read(importer, FOLDER / "snapshots-only.jsonl", report) == []
    assert report.notes == ["a session without any message"]
    assert (report.skipped, report.errors) == (0, [])


def test_damaged_file_gives_what_can_be_read_and_names_rest() -> None:
    report = FileReport(path="damaged.jsonl")
    (conversation,) = read(importer, FOLDER / "damaged.jsonl", report)
    assert conversation.prompts == ["Is the pump on?", "Turn it off \ufffd\ufffd"]
    assert conversation.turns == 2
    places = [(issue.place, issue.kept) for issue in report.issues]
    assert places == [(f"damaged.jsonl:{number}", number == 7) for number in (2, 4, 5, 6, 7, 8, 10)]
    assert report.skipped == 6
    assert "cut off" in report.issues[-1].reason


def test_lines_with_unexpected_shapes_are_skipped_with_their_place(tmp_path: Path) -> None:
    report = FileReport(path="f")
    lines: list[dict[str, Any] | str] = [
        user_line("u1", "hello"),
        {**user_line("u2", ""), "message": "error"},
        {**user_line("u3", ""), "message": {"role": "user", "contents": []}},
        {**assistant_line("a1", ""), "message": None},
        {"type": ["user"]},
        {"type": {"a": 1}, "uuid": 3},
        {"type": "queue-operation", "operation": ["enqueue"], "content": 5},
        {"type": "attachment", "attachment": "queued_command"},
        {"type": "summary", "leafUuid": ["x"], "summary": 3},
        user_line("u4", ["a string", 5, None, {"type": "text"}, {"type": 9}]),
        assistant_line("a2", "fine"),
    ]
    (conversation,) = read(importer, write_lines(tmp_path / "f.jsonl", lines), report)
    assert conversation.prompts == ["hello", "a string"]
    assert [issue.place for issue in report.issues] == ["f:2", "f:3", "f:4"]
    assert report.unknown_types["(no type)"] >= 2


def test_lines_without_uuid_are_named_by_their_place(tmp_path: Path) -> None:
    line = {key: value for key, value in user_line("", "one").items() if key != "uuid"}
    conversation = read_lines(tmp_path, json.dumps(line) + json.dumps(line), line)
    assert conversation.keys == ["line:1", "line:1.1", "line:2"]


@pytest.mark.parametrize(
    ("lines", "claimed"),
    [
        ([user_line("u", "x")], True),
        ([{"type": "summary", "summary": "s", "leafUuid": "x"}], True),
        (["// a comment", "not json", user_line("u", "x")], True),
        ([{"role": "user", "content": "x"}], False),
        ([{"type": "session_meta", "payload": {}}], False),
        ([{"type": "message", "message": {"role": "user"}}], False),
        (["# Title", "some prose"], False),
    ],
)
def test_session_files_are_claimed_by_their_first_lines(
    tmp_path: Path, lines: list[dict[str, Any] | str], claimed: bool
) -> None:
    assert bool(importer.sniff(Source(write_lines(tmp_path / "f.jsonl", lines)))) is claimed


def test_first_line_longer_than_head_is_recognised(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "f.jsonl", [{"parentUuid": None, **user_line("u", "x" * 100_000)}])
    assert importer.sniff(Source(path))
    assert importer.sniff(Source(tmp_path)) is None


# What wrappers and commands are, as expressions that take quadratic and cubic time.
WRAPPER = re.compile(r"\s*<(system-reminder|ide_selection)\b[^>]*>.*?</\1>\s*", re.DOTALL)
NAME = re.compile(r"<command-name>\s*/?(.*?)\s*</command-name>", re.DOTALL)
ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
PIECES = (
    *(
        "<system-reminder>",
        "</system-reminder>",
        "<ide_selection>",
        "</ide_selection>",
        "<command-name>",
        "/",
        " ",
        "\n",
    ),
    *("</command-name>", "<command-args>", "</command-args>", "x"),
)


def plainly_without_wrappers(text: str) -> tuple[str, str]:
    wrapped = []
    while match := WRAPPER.match(text):
        wrapped.append(match[0].strip())
        text = text[match.end() :]
    while text.rstrip().endswith("</system-reminder>") and (start := text.rfind("<system-reminder>")) > 0:
        wrapped.append(text[start:].strip())
        text = text[:start].rstrip()
    return (text if text.strip() else ""), "\n\n".join(wrapped)


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_wrappers_and_commands_are_those_of_plain_expressions(text: str) -> None:
    assert _without_wrappers(text) == plainly_without_wrappers(text)
    command = f"<command-message>{text}"
    name, arguments = NAME.search(command), ARGUMENTS.search(command)
    words = arguments[1].strip() if arguments else ""
    assert _typed_command(command) == (f"/{name[1]} {words}" if name and words else "")


def test_newer_claude_code_version_is_warning(tmp_path: Path) -> None:
    report = FileReport(path="")
    lines = [user_line("u", "x", version="2.9.0"), assistant_line("a", "y", version="2.9.0")]
    read(ClaudeCodeImporter(), write_lines(tmp_path / "s.jsonl", lines), report)
    assert "Claude Code 2.9.0, which is newer" in report.warnings[0]


def test_content_of_unknown_shape_is_kept(tmp_path: Path) -> None:
    odd = assistant_line("a2", "") | {"message": {"role": "assistant", "content": {"x": "fox"}}}
    lines = [user_line("u1", "begin"), assistant_line("a1", "yes"), odd, user_line("u2", {"y": "owl"})]
    report = FileReport(path="s")
    (conversation,) = read(importer, write_lines(tmp_path / "s.jsonl", lines), report)
    assert [spoken_text(message.parts) for message in conversation.messages[2:]] == ['{"x": "fox"}', '{"y": "owl"}']
    assert conversation.messages[3].role == "system"
    assert all(message.raw for message in conversation.messages)
    assert report.unknown_types == {"(no type)": 2}


def chained(*lines: dict[str, Any]) -> list[dict[str, Any]]:
    """Each line behind the one before, but for those that say behind which they stand."""
    parents = [None, *(line["uuid"] for line in lines)]
    return [{"parentUuid": parent, **line} for line, parent in zip(lines, parents, strict=False)]


TAKEN_BACK = (
    user_line("u1", "Which glaze?"),
    assistant_line("a1", "A blue one."),
    user_line("u2", "How hot?"),
    assistant_line("a2", "At 900 degrees."),
)


def test_messages_before_rewind_are_superseded(tmp_path: Path) -> None:
    again = user_line("u3", "How long?", parentUuid="a1")
    conversation = read_lines(tmp_path, *chained(*TAKEN_BACK, again, assistant_line("a3", "Ten hours.")))
    assert conversation.texts == [
        "Which glaze?",
        "A blue one.",
        "(How hot?)",
        "(At 900 degrees.)",
        "How long?",
        "Ten hours.",
    ]
    assert conversation.turns == 2


def test_lines_of_harness_do_not_hide_rewind(tmp_path: Path) -> None:
    beside = {"type": "attachment", "uuid": "x1", "sessionId": "s", "attachment": {"type": "hook"}, "parentUuid": "a1"}
    again = user_line("u3", "How long?", parentUuid="x1")
    conversation = read_lines(tmp_path, *chained(*TAKEN_BACK, beside, again, assistant_line("a3", "Ten hours.")))
    assert [text for text in conversation.texts if text.startswith("(")] == ["(How hot?)", "(At 900 degrees.)"]


def test_rewind_that_was_given_up_is_one_that_is_superseded(tmp_path: Path) -> None:
    again = user_line("u3", "How long?", parentUuid="a1")
    lines = chained(*TAKEN_BACK, again, assistant_line("a3", "Ten hours."), user_line("u4", "Why?", parentUuid="a2"))
    conversation = read_lines(tmp_path, *lines, assistant_line("a4", "To melt.", parentUuid="u4"))
    assert [text for text in conversation.texts if text.startswith("(")] == ["(How long?)", "(Ten hours.)"]


def test_parallel_answers_and_unanswered_prompts_are_not_superseded(tmp_path: Path) -> None:
    call = {"type": "tool_result", "tool_use_id": "t", "content": "done"}
    lines = chained(
        *TAKEN_BACK[:2],
        user_line("q1", "And the kiln?"),
        user_line("q2", "And the clay?", parentUuid="a1"),
        assistant_line("a5", "First the kiln.", parentUuid="q2"),
        user_line("r1", [call], parentUuid="a5"),
        assistant_line("a6", "Then the clay.", parentUuid="a5"),
    )
    assert not any(message.superseded for message in read_lines(tmp_path, *lines).messages)


def test_rewind_in_second_half_of_file_supersedes_what_first_half_held(tmp_path: Path) -> None:
    first = read_lines(tmp_path, *chained(*TAKEN_BACK))
    assert not any(message.superseded for message in first.messages)
    test_messages_before_rewind_are_superseded(tmp_path)


def test_loops_among_parents_end(tmp_path: Path) -> None:
    lines = [user_line("u1", "One?", parentUuid="a1"), assistant_line("a1", "1", parentUuid="u1")]
    lines += [user_line("u2", "Two?", parentUuid="u2"), assistant_line("a2", "2", parentUuid="u2")]
    assert read_lines(tmp_path, *lines).turns == 2


def test_lines_of_unknown_type_are_kept_as_text_and_part_no_answer(tmp_path: Path) -> None:
    report = FileReport(path="x")
    halves = [assistant_line(uuid, text) for uuid, text in (("a1", "One half"), ("a2", "and another."))]
    for line in halves:
        line["message"]["id"] = "m1"
    unheard = {"type": "from-the-future", "uuid": "f1", "sessionId": "s", "note": "the kiln is hot"}
    path = write_lines(tmp_path / "session.jsonl", [user_line("u1", "Say it."), halves[0], unheard, halves[1]])
    (conversation,) = read(importer, path, report)
    assert conversation.texts == ["Say it.", "One half and another.", '{"note": "the kiln is hot"}']
    assert (conversation.messages[2].role, conversation.messages[2].source_key) == ("system", "f1")
    assert report.unknown_types == {"from-the-future": 1}
    assert conversation.turns == 1


@pytest.mark.parametrize(
    ("values", "is_automated"),
    [
        ({"entrypoint": "cli"}, False),
        ({"entrypoint": "sdk-ts"}, True),
        ({"cwd": "/home/ada/.claude-mem/observer-sessions"}, True),
        ({"cwd": "C:\\Users\\ada\\.claude-mem\\observer-sessions\\7"}, True),
        ({"cwd": "/home/ada/claude-mem/observer-sessions"}, False),
    ],
)
def test_sessions_that_programs_start_are_marked(tmp_path: Path, values: dict[str, str], is_automated: bool) -> None:
    assert read_lines(tmp_path, user_line("u", "hi", **values)).draft.is_automated is is_automated


@pytest.mark.parametrize("tag", ["cross-session-message", "channel", 'channel source="radio"', "teammate-message"])
def test_messages_of_other_sessions_are_no_prompts(tmp_path: Path, tag: str) -> None:
    text = f"<{tag}>the build is red</{tag.split(maxsplit=1)[0]}>"
    assert read_lines(tmp_path, user_line("u1", "hi"), user_line("u2", text)).prompts == ["hi"]
