"""Reading evaluation sets from files of their published formats, written here in small."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets import read_dataset
from benchmarks.datasets.haystacks import Haystack
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import TextPart, ToolCallPart
from convmemory.core.errors import InvalidInput

SAMPLES = Path(__file__).parents[2] / "retrieval"


def written(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def only(haystacks: list[Haystack]) -> tuple[Haystack, list[tuple[ConversationDraft, list[MessageDraft]]]]:
    (haystack,) = haystacks
    return haystack, [(draft, list(draft.messages)) for draft in haystack.drafts()]


def test_locomo_sessions_are_conversations_and_evidence_names_messages(tmp_path: Path) -> None:
    conversation = {
        "speaker_a": "Ann",
        "speaker_b": "Bob",
        "session_2": [{"speaker": "Bob", "dia_id": "D2:1", "text": "Hello", "blip_caption": "a cat"}],
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [{"speaker": "Ann", "dia_id": "D1:1", "text": "Hi"}],
        "session_1_date_time": "9:00 am on 1 May, 2023",
        "session_3": [],
        "session_3_date_time": "",
    }
    asked = [
        {"question": "Who?", "evidence": ["D1:1; D2:1"], "category": 2},
        {"question": "No answer", "evidence": [], "category": 5},
    ]
    path = written(tmp_path / "locomo.json", [{"sample_id": "c1", "conversation": conversation, "qa": asked}])
    haystack, stored = only(list(read_dataset("locomo", path)))
    assert [draft.source_id for draft, _ in stored] == ["c1/1", "c1/2"]
    (message,) = stored[1][1]
    assert (message.role, message.name, message.parts) == ("assistant", "Bob", (TextPart("Hello [image: a cat]"),))
    assert message.created_at is not None
    assert message.created_at.isoformat() == "2023-05-08T13:56:00+00:00"
    (question,) = haystack.questions
    assert question.messages == {("c1/1", "D1:1"), ("c1/2", "D2:1")}
    assert (question.category, question.fold) == ("temporal", "c1")
    (adversarial,) = haystack.without_answer
    assert (adversarial.text, adversarial.category, adversarial.fold) == ("No answer", "adversarial", "c1")


def test_coding_runs_keep_what_was_spoken_and_called(tmp_path: Path) -> None:
    base = {"repo": "org/tool", "session": "s1", "ts": "2026-01-02T03:04:05Z"}
    lines = [
        base | {"uuid": "u1", "role": "user", "kind": "human", "text": "Fix it"},
        base | {"uuid": "u2", "role": "assistant", "kind": "tool_call", "text": "Bash ls -l"},
        base | {"uuid": "u3", "role": "user", "kind": "tool_result", "text": "total 0"},
    ]
    with gzip.open(tmp_path / "messages.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    query = {"repo": "org/tool", "query": "fix", "type": "commit", "gold_uuids": ["u2", "elsewhere"]}
    (tmp_path / "queries.jsonl").write_text(json.dumps(query) + "\n")
    haystack, stored = only(list(read_dataset("coding", tmp_path)))
    assert haystack.name == "tool"
    assert [message.source_key for message in stored[0][1]] == ["u1", "u2"]
    assert stored[0][1][1].parts == (ToolCallPart(id="u2", name="Bash", input={"arguments": "ls -l"}),)
    assert haystack.questions[0].messages == {("s1", "u2")}


def test_coding_query_gold_is_limited_to_named_session(tmp_path: Path) -> None:
    line = {"repo": "org/tool", "uuid": "L2", "role": "user", "kind": "human", "text": "Fix it", "ts": None}
    with gzip.open(tmp_path / "messages.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(line | {"session": session}) + "\n" for session in ("s1", "s2", "s3"))
    query = {"repo": "org/tool", "query": "fix", "type": "commit", "gold_session": "s2", "gold_uuids": ["L2"]}
    (tmp_path / "queries.jsonl").write_text(json.dumps(query) + "\n")
    (haystack,) = read_dataset("coding", tmp_path)
    assert haystack.questions[0].messages == {("s2", "L2")}


def haystack(question_id: str, *, marked: bool) -> dict[str, Any]:
    answer = {"role": "user", "content": "I moved to Oslo.", "has_answer": True}
    return {
        "question_id": question_id,
        "question_type": "single-session-user",
        "question": "Where do I live?",
        "haystack_session_ids": ["other", "right"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 10:00"],
        "haystack_sessions": [
            [{"role": "user", "content": "Hi"}],
            [answer if marked else {"role": "user", "content": "Oslo"}, {"role": "assistant", "content": "Nice"}],
        ],
        "answer_session_ids": ["right"],
    }


def test_longmemeval_questions_have_their_own_haystacks(tmp_path: Path) -> None:
    entries = [haystack("q1", marked=True), haystack("q2", marked=False), haystack("q3_abs", marked=True)]
    path = written(tmp_path / "longmemeval_s.json", entries)
    first, second = read_dataset("longmemeval", path)
    assert [one.name for one in read_dataset("longmemeval", path, limit=1)] == ["q1"]
    assert first.questions[0].messages == {("q1/1", "0")}
    assert second.questions[0].messages == {("q2/1", "0"), ("q2/1", "1")}
    draft = list(first.drafts())[1]
    assert (draft.title, str(draft.created_at)) == ("right", "2023-05-21 10:00:00+00:00")


def test_beam_batches_are_conversations_and_unclear_ids_are_left_out(tmp_path: Path) -> None:
    def message(number: int, text: str, **more: str) -> dict[str, Any]:
        return {"role": "user" if number % 2 == 0 else "assistant", "id": number, "content": text, **more}

    batches = [
        {
            "batch_number": 1,
            "turns": [[message(0, "Plan it ->-> 1,1", time_anchor="March-15-2024"), message(1, "Done")]],
        },
        {"batch_number": 2, "turns": [[message(2, "More"), message(3, "Yes")], [message(3, "Again")]]},
    ]
    asked = {
        "knowledge_update": [{"question": "When?", "source_chat_ids": {"original": [0], "updated": [2]}}],
        "summarization": [{"question": "Which?", "source_chat_ids": [3]}],
        "abstention": [{"question": "Nothing?"}],
    }
    written(tmp_path / "7" / "chat.json", [{"plan-1": batches}])
    written(tmp_path / "7" / "probing_questions" / "probing_questions.json", asked)
    haystack, stored = only(list(read_dataset("beam", tmp_path)))
    assert [len(messages) for _, messages in stored] == [2, 3]
    assert stored[0][1][0].parts == (TextPart("Plan it"),)
    assert str(stored[0][0].created_at) == "2024-03-15 00:00:00+00:00"
    assert [question.text for question in haystack.questions] == ["When?"]
    assert haystack.questions[0].messages == {("7/0", "0"), ("7/1", "0")}


def test_our_own_questions_name_turns_of_samples() -> None:
    haystack, stored = only(list(read_dataset("samples", SAMPLES)))
    names = {draft.source_id for draft, _ in stored}
    assert len(haystack.questions) > 100
    assert {source_id for question in haystack.questions for source_id, _ in question.turns} <= names


@pytest.mark.parametrize("name", ["locomo", "longmemeval", "beam", "coding", "samples"])
def test_missing_or_foreign_dataset_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="no file"):
        list(read_dataset(name, tmp_path / "missing"))
    other = written(tmp_path / "other.json", [{"title": "something else"}])
    with pytest.raises(InvalidInput):
        list(read_dataset(name, other if name in {"locomo", "longmemeval"} else tmp_path))
