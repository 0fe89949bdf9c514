from pathlib import Path

from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.claude_history import ClaudeHistoryImporter
from convmemory.conversations.messages.parts import AttachmentPart
from tests.unit.importers.helpers import FIXTURES, read, write_lines

importer = ClaudeHistoryImporter()
HISTORY = FIXTURES / "claude-history" / "history.jsonl"
SESSION = "7d1f0a52-0000-4f6e-9a57-000000000001"


def test_prompts_of_session_are_conversation() -> None:
    barn, roof = read(importer, HISTORY)
    assert barn.draft.source_id == SESSION
    assert barn.prompts == ["Why does the build hang? [Pasted text #1]", "yes", "yes"]
    assert len(set(barn.keys)) == 6
    assert barn.turns == 3
    assert [part.text for part in barn.messages[0].parts if isinstance(part, AttachmentPart)] == ["waiting for lock"]
    assert barn.draft.project == "/home/ada/barn"
    assert roof.draft.source_id == "/home/ada/roof:2025-08-25"


def test_history_skips_sessions_with_transcripts(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_bytes(HISTORY.read_bytes())
    write_lines(tmp_path / "projects" / "-home-ada-barn" / f"{SESSION}.jsonl", [{}])
    report = FileReport(path="")
    assert [item.prompts for item in read(importer, tmp_path / "history.jsonl", report)] == [["Draw the roof"]]
    assert "sessions still have their transcripts in projects" in report.notes[0]
