"""Exports of chat services and of self-hosted chat programs."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from convmemory.conversations.importers.base import FileReport, Source
from convmemory.conversations.importers.chatgpt import ChatGPTImporter
from convmemory.conversations.importers.claude_ai import ClaudeAIImporter
from convmemory.conversations.importers.detect import Walk
from convmemory.conversations.importers.librechat import LibreChatImporter
from convmemory.conversations.importers.markdown_chat import MarkdownImporter
from convmemory.conversations.importers.openwebui import OpenWebUIImporter
from convmemory.conversations.importers.takeout import TakeoutImporter
from convmemory.conversations.messages.parts import AttachmentPart, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from tests.unit.importers.helpers import FIXTURES, Read, read


def write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


@pytest.fixture
def beetroot() -> Read:
    return read(ChatGPTImporter(), FIXTURES / "chatgpt" / "conversations-000.json")[0]


def test_chatgpt_shows_current_branch_and_keeps_others(beetroot: Read) -> None:
    assert beetroot.prompts == ["When do I sow beetroot?", "What is wrong with this bed?"]
    assert beetroot.turns == 2
    assert [text for text in beetroot.texts if text.startswith("(")] == ["(In March.)"]


def test_chatgpt_thoughts_tools_and_hidden_context(beetroot: Read) -> None:
    context, *_ = beetroot.messages
    assert (context.role, context.injected) == ("system", True)
    parts = [part for message in beetroot.messages for part in message.parts]
    assert any(isinstance(part, ThinkingPart) and "bolts" in part.text for part in parts)
    assert any(isinstance(part, ToolCallPart) and part.name == "web" for part in parts)
    assert any(isinstance(part, ToolResultPart) and part.text == "Sow from mid-April." for part in parts)
    assert [part.name for part in parts if isinstance(part, AttachmentPart)] == ["file-service://file-bed", "bed.jpg"]


def test_chatgpt_reads_as_page_does(beetroot: Read) -> None:
    assert "From mid-April, once nights stay mild. In Leeds a little later." in beetroot.texts
    models = {message.source_key: message.model for message in beetroot.messages if message.role == "assistant"}
    assert models["old-answer"] == "gpt-5-mini"
    assert models["answer-2"] == "gpt-5"
    assert beetroot.draft.title == "Beetroot"


def test_chatgpt_damaged_conversation_is_skipped_and_others_read() -> None:
    report = FileReport(path="")
    conversations = read(ChatGPTImporter(), FIXTURES / "chatgpt" / "conversations-000.json", report)
    assert [item.draft.source_id[-4:] for item in conversations] == ["beet", "deep"]
    assert conversations[1].prompts == ["How deep?"]
    assert conversations[1].draft.archived
    assert report.skipped == 1


def test_chatgpt_other_files_of_export_are_no_errors() -> None:
    report = FileReport(path="")
    assert read(ChatGPTImporter(), FIXTURES / "chatgpt" / "user.json", report) == []
    assert "holds no conversation" in report.notes[0]


def test_chatgpt_page_holds_conversations_too(tmp_path: Path) -> None:
    data = (FIXTURES / "chatgpt" / "conversations-000.json").read_text(encoding="utf-8")
    page = tmp_path / "chat.html"
    page.write_text(f"<html><script>\n var jsonData = {data};\n var x = 1;</script></html>", encoding="utf-8")
    (item,) = Walk().over([page])
    assert item.importer is not None
    of_page, of_json = (
        [(conversation.draft.source_id, conversation.texts) for conversation in read(item.importer, path)]
        for path in (page, FIXTURES / "chatgpt" / "conversations-000.json")
    )
    assert of_page == of_json
    (tmp_path / "conversations.json").write_text(data, encoding="utf-8")
    assert [item.source.path.name for item in Walk().over([tmp_path])] == ["conversations.json"]


def test_chatgpt_canvases_and_group_chats(tmp_path: Path) -> None:
    (tmp_path / "textdocs").mkdir()
    path = write(tmp_path / "textdocs" / "doc-1.json", {"id": "d1", "title": "Plan", "content": "# Plan"})
    (canvas,) = read(ChatGPTImporter(), path)
    assert (canvas.draft.title, canvas.texts) == ("Canvas: Plan", ["# Plan"])
    assert [message.injected for message in canvas.messages] == [True]
    report = FileReport(path="")
    assert read(ChatGPTImporter(), write(tmp_path / "group_chats.json", {"chats": [{"room": 1}]}), report) == []
    assert report.unknown_types == {"group chat": 1}
    report = FileReport(path="")
    assert read(ChatGPTImporter(), write(tmp_path / "group_chats.json", {"chats": []}), report) == []
    assert report.unknown_types == {}


def test_chatgpt_file_of_one_conversation_without_ids(tmp_path: Path) -> None:
    mapping = {
        "late": {
            "parent": "early",
            "message": {"author": {"role": "assistant"}, "create_time": 1756000002, "content": {}},
        },
        "early": {"parent": None, "message": {"author": {"role": "user"}, "content": {"parts": ["Hi"]}}},
        "odd": {"parent": "early", "message": {"author": {"role": "narrator"}}},
        "none": "no node",
    }
    report = FileReport(path="")
    (conversation,) = read(ChatGPTImporter(), write(tmp_path / "one.json", {"title": "x", "mapping": mapping}), report)
    assert conversation.prompts == ["Hi"]
    assert [name.partition(":")[0] for name in conversation.draft.former_ids] == ["one"]
    assert report.unknown_types == {"text": 1, "role narrator": 1}


def test_claude_ai_content_precedes_text_and_attachments_keep_their_text() -> None:
    lease, empty = read(ClaudeAIImporter(), FIXTURES / "claude-ai" / "conversations.json")
    assert lease.prompts == ["Summarise the lease.", "Voice note\n\nAnd the notice period?"]
    assert lease.turns == 2
    files = [part for part in lease.messages[0].parts if isinstance(part, AttachmentPart)]
    assert [(file.name, file.text) for file in files] == [
        ("lease.txt", "The lease ends on 30 June 2027."),
        ("plan.png", ""),
    ]
    kinds = [part.type for part in lease.messages[1].parts]
    assert kinds == ["thinking", "tool_call", "tool_result", "text"]
    assert lease.messages[3].role == "assistant"
    assert empty.messages == []


def test_claude_ai_dump_has_branches() -> None:
    (boat,) = read(ClaudeAIImporter(), FIXTURES / "claude-ai" / "dump.json")
    assert boat.texts == ["A name for a boat?", "(Heron.)", "Kittiwake.", "Kittiwake it is."]
    assert boat.messages[2].model == "claude-sonnet-5"


def test_claude_ai_projects_and_memories_are_conversations_of_their_own() -> None:
    (project,) = read(ClaudeAIImporter(), FIXTURES / "claude-ai" / "projects.json")
    assert project.draft.title == "Project: Boat"
    assert project.texts == ["Everything on the boat", "Answer as a boatbuilder.", "# Survey\nThe hull is sound."]
    assert project.prompts == []
    (memories,) = read(ClaudeAIImporter(), FIXTURES / "claude-ai" / "memories.json")
    assert memories.texts == ["The user restores a boat."]


def test_claude_ai_manifest_says_what_to_download(tmp_path: Path) -> None:
    files = [{"name": f"projects-{number:03}.zip", "url": "https://example.org/x"} for number in range(2)]
    (detected,) = Walk().over([write(tmp_path / "manifest-1.json", {"files": files})])
    assert detected.importer is None
    assert "Download the zip files that it lists" in detected.reason


def test_librechat_trees_flat_lists_and_chatbot_ui() -> None:
    (tree,) = read(LibreChatImporter(), FIXTURES / "librechat" / "tree.json")
    assert tree.texts[:2] == ["Why is it flat?", "(Too warm.)"]
    assert [part.type for part in tree.messages[2].parts] == ["thinking", "tool_call", "tool_result", "text"]
    assert tree.prompts == ["Why is it flat?", "Thanks."]
    (flat,) = read(LibreChatImporter(), FIXTURES / "librechat" / "flat.json")
    assert (flat.texts, flat.messages[1].model) == (["How much rye?", "A third."], "gpt-4o")
    (other,) = read(LibreChatImporter(), FIXTURES / "librechat" / "chatbotui.json")
    assert (other.texts, other.draft.title) == (["How much salt?", "Two per cent."], "Salt")


def test_open_webui_output_and_details() -> None:
    (chat,) = read(OpenWebUIImporter(), FIXTURES / "open-webui" / "chats.json")
    assert chat.prompts[:2] == ["What is 15 * 17?", "Never mind."]
    assert chat.turns == 2
    old, new = chat.messages[1], chat.messages[-1]
    assert old.parts == (ThinkingPart("> 15 * 17 = 255"), TextPart("It is 255."))
    assert [part.type for part in new.parts] == ["thinking", "tool_call", "tool_result", "text"]


def test_open_webui_database_is_read_like_its_export() -> None:
    report = FileReport(path="webui.db")
    (chat,) = read(OpenWebUIImporter(), FIXTURES / "open-webui" / "webui.db", report)
    assert (chat.texts, chat.draft.title) == (
        ["How long do I soak dried chickpeas?", "Twelve hours, in the fridge."],
        "Chickpeas",
    )
    assert chat.draft.archived
    assert (len(report.issues), len(report.notes)) == (1, 1)  # a chat without messages, another user's chat


@pytest.mark.parametrize(
    "name",
    ["ChatGPT-Chickpeas.md", "cursor_chickpeas.md", "pasted.md", ".specstory/history/2026-02-01_09-00Z-chickpeas.md"],
)
def test_markdown_speakers_are_read(name: str) -> None:
    (chat,) = read(MarkdownImporter(), FIXTURES / "markdown" / name)
    assert chat.prompts == ["How long do I soak dried chickpeas?"]
    assert chat.turns == 1
    assert isinstance(chat.messages[1].parts[-1], TextPart)
    assert chat.messages[1].parts[-1].text.startswith("Twelve hours, in the fridge.")
    assert chat.draft.title == ("Chickpeas" if "hickpeas.md" in name and "history" not in name else "")


def test_specstory_session_names_its_conversation_model_and_thinking() -> None:
    (path,) = (FIXTURES / "markdown/.specstory").rglob("*.md")
    (chat,) = read(MarkdownImporter(), path)
    assert chat.draft.source_id == "3c1a0000-0001-4000-8000-00000000000f"
    answer = chat.messages[1]
    assert (answer.model, answer.parts[0]) == ("claude-sonnet-5", ThinkingPart("Room or fridge?"))
    assert answer.created_at == datetime(2026, 2, 1, 9, 0, 4, tzinfo=UTC)


def test_markdown_walk_finds_hidden_folder_of_specstory() -> None:
    names = [item.source.path.name for item in Walk().over([FIXTURES / "markdown"]) if item.importer]
    assert len(names) == 4


@pytest.mark.parametrize("text", ["# Read me\n\n## User\n\nSet up.\n", "**Note** this.\n", "", "## Claude\n## You\n"])
def test_markdown_without_question_and_answer_is_declined(text: str, tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(text)
    assert MarkdownImporter().sniff(Source(path)) is None


@pytest.mark.parametrize(
    ("name", "header", "person", "model"),
    [
        ("a.md", "**User:** Ada\n**Exported:** 5/13/2026 21:00\n", "## Prompt:\n5/1/2026, 9:00 AM\n", "## Response:"),
        ("b.md", "# Quince\n", "## Message From You:", "## Message From ChatGPT:"),
        ("c.md", "# Quince\n", "## 🧑 用户", "## 🤖 助手"),
        ("d.txt", "", "### USER", "### ASSISTANT"),
    ],
)  # fmt: skip
def test_markdown_of_exporters_names_speakers_in_its_own_way(
    name: str, header: str, person: str, model: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(f"{header}\n{person}\nHow do I prune a quince?\n\n{model}\nIn late winter.\n", encoding="utf-8")
    [item] = Walk().over([tmp_path])
    assert item.importer is not None
    [chat] = read(item.importer, path)
    assert chat.texts == ["How do I prune a quince?", "In late winter."]
    asked = chat.messages[0].created_at
    assert asked == (datetime(2026, 5, 1, 9, tzinfo=UTC) if "Exported" in header else None)


def test_questions_of_perplexity_s_markdown_are_headings(tmp_path: Path) -> None:
    path = tmp_path / "quince.md"
    logo = '<img src="https://r2cdn.perplexity.ai/pplx-full-logo-primary-dark.png"/>'
    path.write_text(f"{logo}\n\n# How do I prune?\n\nIn winter.\n\n## Tools\nA saw.\n\n---\n\n# How often?\n\nOnce.\n")
    [chat] = read(MarkdownImporter(), path)
    assert chat.texts == ["How do I prune?", "In winter.\n\n## Tools\nA saw.", "How often?", "Once."]
    assert chat.turns == 2


def test_takeout_prompts_day_by_day() -> None:
    first, second = read(TakeoutImporter(), FIXTURES / "gemini-takeout" / "MyActivity.html")
    assert first.prompts == ["Which oil for a <chain>?"]
    assert first.messages[0].created_at == datetime(2025, 11, 5, 15, 14, 15, tzinfo=UTC)
    assert second.prompts == ["And how often?"]
    (day,) = read(TakeoutImporter(), FIXTURES / "gemini-takeout" / "MyActivity.json")
    assert day.texts == ["Which tyre pressure?", "About 3 bar."]


def test_other_html_pages_are_not_recognised_as_takeout(tmp_path: Path) -> None:
    (tmp_path / "chat.html").write_text("<html><body>chat</body></html>")
    assert TakeoutImporter().sniff(Source(tmp_path / "chat.html")) is None
    walk = Walk()
    assert list(walk.over([tmp_path])) == []
    assert walk.ignored == {".html": 1}
