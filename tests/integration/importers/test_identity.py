"""A conversation is its thread: the file's name and place say nothing about it, and no message replaces another's."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.detect import Walk
from convmemory.conversations.importing.runner import import_paths
from convmemory.conversations.messages.drafts import ConversationDraft
from convmemory.conversations.messages.ingest import sync_conversation
from convmemory.conversations.models import Conversation, Message
from tests.factories import assistant_says, make_user, user_says
from tests.unit.importers.helpers import FIXTURES, assistant_line, user_line

pytestmark = pytest.mark.django_db

UUID = "7d1f0a52-3c1b-4f6e-9a57-2f6b1c9d0e11"
PREPARED = sorted(
    path
    for path in FIXTURES.rglob("*")
    if path.suffix in (".json", ".jsonl", ".html", ".md", ".db") and ".meta" not in path.suffixes
)
DAY = "2026-02-03T10:00:0"
Turn = tuple[str, str]


def stored(owner: User) -> "Counter[str]":
    """The owner's messages: source, speaker and content."""
    rows = Message.objects.filter(archive_id=owner.pk).values_list("conversation__source", "role", "parts")
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def texts(owner: User) -> list[list[str]]:
    """The texts of each of the owner's conversations, in the order of their first messages."""
    by_conversation: dict[int, list[str]] = {}
    for number, parts in (
        Message.objects.filter(archive_id=owner.pk).order_by("pk").values_list("conversation", "parts")
    ):
        by_conversation.setdefault(number, []).extend(part["text"] for part in parts if part["type"] == "text")
    return sorted(by_conversation.values())


@pytest.mark.slow
def test_no_message_of_fixture_is_replaced_by_one_of_another_file_of_its_name(tmp_path: Path) -> None:
    paths, of_each = [], []
    for number, original in enumerate(PREPARED):
        path = tmp_path / str(number) / f"chat{original.suffix}"
        path.parent.mkdir()
        path.write_bytes(original.read_bytes())
        alone = make_user()
        import_paths(caller=Caller.of(alone), paths=[path])
        paths.append(path)
        of_each.append(stored(alone))
    assert sum(map(bool, of_each)) > 20
    for in_order in (paths, paths[::-1]):
        together = make_user()
        for path in in_order:
            import_paths(caller=Caller.of(together), paths=[path])
        of_all = stored(together)
        assert [path for path, messages in zip(paths, of_each, strict=True) if messages - of_all] == []


def lines(entries: list[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(entry)}\n" for entry in entries)


def plain(turns: list[Turn]) -> str:
    return lines([{"role": role, "content": text} for role, text in turns])


def listed(turns: list[Turn]) -> str:
    return json.dumps([{"id": 3, "messages": [{"role": role, "content": text} for role, text in turns]}], indent=1)


def vscode(turns: list[Turn]) -> str:
    asked = [{"message": {"text": text}, "response": []} for role, text in turns if role == "user"]
    for request, answer in zip(asked, [text for role, text in turns if role == "assistant"], strict=False):
        request["response"] = [{"value": answer}]  # type: ignore[list-item]
    return json.dumps({"responderUsername": "Helper", "requesterUsername": "ada", "requests": asked})


def goose(turns: list[Turn]) -> str:
    header = {"working_dir": "/home/ada", "description": "", "message_count": len(turns), "total_tokens": 1}
    return lines([header, *({"role": role, "content": [{"type": "text", "text": text}]} for role, text in turns)])


def cursor(turns: list[Turn]) -> str:
    return lines([{"role": role, "message": {"content": [{"type": "text", "text": text}]}} for role, text in turns])


def pi(turns: list[Turn]) -> str:
    messages = ({"type": "message", "message": {"role": role, "content": text}} for role, text in turns)
    return lines([{"type": "session", "cwd": "/home/ada", "timestamp": f"{DAY}0Z"}, *messages])


def gemini(turns: list[Turn]) -> str:
    names = {"user": "user", "assistant": "model"}
    return json.dumps({"history": [{"role": names[role], "parts": [{"text": text}]} for role, text in turns]})


def claude(turns: list[Turn]) -> str:
    makers = (user_line if role == "user" else assistant_line for role, _ in turns)
    entries = [make(f"u{number}", text) for number, (make, (_, text)) in enumerate(zip(makers, turns, strict=True))]
    return lines([{key: value for key, value in entry.items() if key != "sessionId"} for entry in entries])


def claude_ai(turns: list[Turn]) -> str:
    names = {"user": "human", "assistant": "assistant"}
    messages = [{"sender": names[role], "text": text} for role, text in turns]
    return json.dumps([{"name": "", "chat_messages": messages}])


def chatgpt(turns: list[Turn]) -> str:
    nodes = {
        f"n{number}": {
            "parent": f"n{number - 1}" if number else None,
            "message": {"author": {"role": role}, "content": {"content_type": "text", "parts": [text]}},
        }
        for number, (role, text) in enumerate(turns)
    }
    return json.dumps([{"title": "Chat", "mapping": nodes}])


def librechat(turns: list[Turn]) -> str:
    messages = [{"isCreatedByUser": role == "user", "text": text, "sender": role} for role, text in turns]
    return json.dumps({"conversationId": "", "options": {}, "recursive": False, "messages": messages})


def cline(turns: list[Turn]) -> str:
    return json.dumps([{"role": role, "content": [{"type": "text", "text": text}]} for role, text in turns])


# Producers whose files have no id, or may have none, and the usual name of their files.
WITHOUT_IDS: dict[str, tuple[Callable[[list[Turn]], str], str]] = {
    "plain": (plain, "conversation.jsonl"),
    "plain list": (listed, "conversations.json"),
    "vscode-copilot": (vscode, "chat.json"),
    "goose": (goose, "session.jsonl"),
    "cursor": (cursor, "transcript.jsonl"),
    "cursor chat": (cursor, "c0ffee00-0000-4000-8000-00000000abcd.jsonl"),
    "pi": (pi, "session.jsonl"),
    "gemini-cli": (gemini, "session.json"),
    "claude-code": (claude, "full.jsonl"),
    "claude-ai": (claude_ai, "conversations.json"),
    "chatgpt": (chatgpt, "conversations.json"),
    "librechat": (librechat, "export.json"),
    "cline": (cline, "api_conversation_history.json"),
}
GREETING: list[Turn] = [("user", "hello"), ("assistant", "Hello! How can I help?")]
FIRST: list[Turn] = [*GREETING, ("user", "What is a wherry?"), ("assistant", "A barge.")]
SECOND: list[Turn] = [*GREETING, ("user", "What is a ketch?"), ("assistant", "A yacht.")]
THIRD: list[Turn] = [("user", "hello"), ("assistant", "Good day.")]


@pytest.fixture(params=WITHOUT_IDS, ids=str)
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Path]:
    make, usual = WITHOUT_IDS[request.param]
    folders = count()

    def write_file(turns: list[Turn], *, is_renamed: bool = False) -> Path:
        name = usual if not is_renamed or request.param == "cline" else f"kept{Path(usual).suffix}"
        path = tmp_path / f"folder{'abcdefghij'[next(folders)]}" / "task" / name
        path.parent.mkdir(parents=True)
        path.write_text(make(turns), encoding="utf-8")
        return path

    return write_file


def sorted_texts(*conversations: list[Turn]) -> list[list[str]]:
    return sorted([text for _, text in turns] for turns in conversations)


def imported(owner: User, *paths: Path) -> list[list[str]]:
    for path in paths:
        (file,) = import_paths(caller=Caller.of(owner), paths=[path]).files
        assert not file.errors
    return texts(owner)


def test_conversations_that_differ_anywhere_are_kept_apart(write: Callable[..., Path]) -> None:
    paths = [write(turns) for turns in (FIRST, SECOND, THIRD)]
    owner = make_user()
    assert imported(owner, *paths) == sorted_texts(FIRST, SECOND, THIRD)
    before = Message.objects.filter(archive_id=owner.pk).count()
    assert imported(owner, *reversed(paths)) == sorted_texts(FIRST, SECOND, THIRD)
    assert Message.objects.filter(archive_id=owner.pk).count() == before
    assert imported(make_user(), *reversed(paths)) == sorted_texts(FIRST, SECOND, THIRD)


def test_grown_and_renamed_file_is_same_conversation(write: Callable[..., Path]) -> None:
    owner = make_user()
    states = [FIRST[:1], FIRST[:2], FIRST]
    assert imported(owner, *(write(turns) for turns in states)) == sorted_texts(FIRST)
    assert imported(owner, write([*FIRST, *THIRD], is_renamed=True)) == sorted_texts([*FIRST, *THIRD])
    other = make_user()
    assert imported(other, write(FIRST, is_renamed=True), write(FIRST)) == sorted_texts(FIRST)


def test_conversation_stored_under_its_former_id_is_found_again_if_its_messages_agree(
    write: Callable[..., Path],
) -> None:
    owner = make_user()
    imported(owner, write(FIRST))
    conversation = Conversation.objects.get(archive_id=owner.pk)
    former = next(iter(former_ids(write(FIRST))))
    Conversation.objects.filter(pk=conversation.pk).update(source_id=former)
    assert imported(owner, write([*FIRST, *THIRD])) == sorted_texts([*FIRST, *THIRD])
    Conversation.objects.filter(archive_id=owner.pk).update(source_id=former)
    assert imported(owner, write(SECOND)) == sorted_texts([*FIRST, *THIRD], SECOND)


def former_ids(path: Path) -> Iterator[str]:
    """The ids that earlier versions of the importers gave to the conversation, which named it by its file."""
    for detected in Walk().over([path]):
        assert detected.importer
        for draft in detected.importer.parse(detected.source, FileReport(path="")):
            stem = path.stem if path.name != "api_conversation_history.json" else path.parent.name
            yield from (name for name in draft.former_ids if name.startswith(stem))
            if draft.source_id == stem:
                yield stem


def test_strong_id_may_change_its_messages_and_weak_one_may_not(tmp_path: Path) -> None:
    owner = make_user()
    for id, expected in ((UUID, 1), ("conversation-1", 2)):
        for number, answer in enumerate(("A barge.", "A boat.")):
            path = tmp_path / f"{id}{number}" / "chat.json"
            path.parent.mkdir()
            messages = [{"role": role, "content": text} for role, text in (GREETING[0], ("assistant", answer))]
            path.write_text(json.dumps([{"id": id, "messages": messages}]))
            import_paths(caller=Caller.of(owner), paths=[path])
        assert Conversation.objects.filter(archive_id=owner.pk, source_id__startswith=id).count() == expected


def test_answer_that_was_stored_with_its_thinking_is_split_when_it_comes_again(tmp_path: Path) -> None:
    owner, path = make_user(), tmp_path / "chat.jsonl"
    path.write_text(plain([("user", "Is it evergreen?"), ("assistant", "<think>\nhm\n</think>\n\nYes.")]))
    import_paths(caller=Caller.of(owner), paths=[path])
    answer = Message.objects.get(archive_id=owner.pk, role="assistant")
    assert answer.parts == [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "Yes."}]
    before = [{"type": "text", "text": "<think>\nhm\n</think>\n\nYes."}]
    Message.objects.filter(pk=answer.pk).update(parts=before, content_hash=b"0" * 32)
    assert import_paths(caller=Caller.of(owner), paths=[path]).total("updated") == 1
    assert Message.objects.get(pk=answer.pk).parts == answer.parts
    assert Conversation.objects.filter(archive_id=owner.pk).count() == 1


@pytest.mark.parametrize(("id", "key", "expected"), [("7", "message:", 2), ("7", "u", 1), (UUID, "message:", 1)])
def test_messages_named_by_their_places_replace_none_under_short_id(id: str, key: str, expected: int) -> None:
    owner = make_user()
    for words in ("A barge.", "A boat."):
        messages = (user_says("What is a wherry?", source_key=f"{key}1"), assistant_says(words, source_key=f"{key}2"))
        sync_conversation(
            caller=Caller.of(owner), draft=ConversationDraft(messages=messages, source="novel", source_id=id)
        )
    assert Conversation.objects.filter(archive_id=owner.pk).count() == expected
