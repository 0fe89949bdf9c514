"""Messages on the wire: OpenAI's shape, results right after their calls, and no less counted than sent."""

from hypothesis import given

from convmemory.context.values import ContextMessage
from convmemory.context.wire import NO_RESULT, definition_tokens, measured, wire_messages
from convmemory.conversations.messages.parts import AttachmentPart, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from tests.unit.context.helpers import assistant, tool, user, words
from tests.unit.context.test_pipeline import conversations


def test_texts_calls_and_results_take_openais_shape() -> None:
    sent = wire_messages("Be brief.", [user(0, "list it"), assistant(1, "I look.", "c1"), tool(2, "c1", "a.txt")])
    function = {"name": "bash", "arguments": '{"command": "ls"}'}
    assert sent == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "list it"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
    ]


def test_definition_of_tool_is_counted_once() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return 5

    look, find = {"name": "look"}, {"name": "find"}
    assert definition_tokens([look, find], count) == 10
    assert definition_tokens([find, look, {"name": "look"}], count) == 15
    assert len(counted) == 2


def test_thinking_is_not_sent_and_costs_nothing() -> None:
    thought = ContextMessage(1, 0, "assistant", (ThinkingPart("hm " * 100),))
    assert wire_messages("", [thought]) == []
    assert measured(thought, words).tokens < 10


def test_attachments_are_named_and_their_text_is_sent() -> None:
    message = ContextMessage(1, 0, "user", (TextPart("see"), AttachmentPart("a.txt", text="hello")))
    assert wire_messages("", [message]) == [{"role": "user", "content": "see\n\n[Attachment: a.txt]\nhello"}]


def test_result_that_comes_late_moves_to_its_call() -> None:
    sent = wire_messages("", [assistant(0, "x", "a", "b"), user(1, "wait"), tool(2, "b", "B"), tool(3, "a", "A")])
    assert [(m["role"], m["content"]) for m in sent] == [
        ("assistant", "x"), ("tool", "A"), ("tool", "B"), ("user", "wait"),
    ]  # fmt: skip


def test_call_without_result_gets_one_and_result_without_call_becomes_text() -> None:
    sent = wire_messages("", [tool(0, "gone", "left over"), assistant(1, "x", "a")])
    assert sent[0] == {"role": "user", "content": "[Result of a tool]\nleft over"}
    assert sent[2] == {"role": "tool", "tool_call_id": "a", "content": NO_RESULT}


def test_results_that_anthropic_user_message_carries_are_tool_messages() -> None:
    mixed = ContextMessage(3, 2, "user", (ToolResultPart("a", "boom", is_error=True), TextPart("go on")))
    sent = wire_messages("", [assistant(1, "x", "a"), mixed])
    assert sent[1:] == [
        {"role": "tool", "tool_call_id": "a", "content": "Error: boom"},
        {"role": "user", "content": "go on"},
    ]


def test_ids_used_again_are_made_unique() -> None:
    messages = [assistant(0, "x", "call_0"), tool(1, "call_0", "one"), assistant(2, "y", "call_0"), tool(3, "call_0")]
    calls = [m["tool_calls"][0]["id"] for m in wire_messages("", messages) if m["role"] == "assistant"]
    assert len(set(calls)) == 2


def test_tool_call_in_user_message_is_sent_as_text() -> None:
    message = ContextMessage(1, 0, "user", (ToolCallPart("a", "bash", {"command": "ls"}), TextPart("I typed that")))
    assert wire_messages("", [message]) == [{"role": "user", "content": "bash command:ls\n\nI typed that"}]


@given(conversations())
def test_any_history_becomes_valid_openai_history(messages: list[ContextMessage]) -> None:
    waiting: list[str] = []
    seen: set[str] = set()
    for sent in wire_messages("", messages):
        if sent["role"] == "tool":
            assert waiting.pop(0) == sent["tool_call_id"]
        else:
            assert waiting == []
            assert sent["content"] or sent.get("tool_calls")
            waiting = [call["id"] for call in sent.get("tool_calls", [])]
            assert not seen & set(waiting)
            seen.update(waiting)
    assert waiting == []


@given(conversations())
def test_sent_tokens_never_exceed_counted_tokens(messages: list[ContextMessage]) -> None:
    counted = sum(measured(message, words).tokens for message in messages)
    sent = wire_messages("", messages)
    texts = [str(m["content"] or "") for m in sent]
    texts += [call["function"]["arguments"] for m in sent for call in m.get("tool_calls", [])]
    assert sum(map(words, texts)) <= counted
