"""Telling by its history which conversation a request continues."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from convmemory.chat.histories import history_hashes, messages_after
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import TextPart, ThinkingPart, ToolCallPart

drafts = st.lists(
    st.builds(
        lambda role, text: MessageDraft(role=role, parts=(TextPart(text),)),
        st.sampled_from(("user", "assistant")),
        st.sampled_from(("a", "b", "c")),
    ),
    min_size=1,
    max_size=8,
)
SYSTEM = MessageDraft(role="system", parts=(TextPart("It is 12:01."),))


@given(drafts, drafts)
def test_history_is_recognised_in_every_longer_one_and_gives_what_is_new(
    old: list[MessageDraft], new: list[MessageDraft]
) -> None:
    known = history_hashes(old)[-1]
    longer = [SYSTEM, *old, *new]
    hashes = history_hashes(longer)
    assert hashes.index(known) == len(old)
    assert messages_after(longer, hashes, known) == new
    assert history_hashes(new, start=known)[-1] == hashes[-1]


@given(drafts, drafts)
def test_different_histories_have_different_hashes(one: list[MessageDraft], other: list[MessageDraft]) -> None:
    assert (history_hashes(one)[-1] == history_hashes(other)[-1]) == (one == other)


def test_history_hash_ignores_changes_that_clients_make() -> None:
    call = ToolCallPart("id-1", "search", {"query": "x"})
    said = MessageDraft(role="assistant", parts=(ThinkingPart("hm"), TextPart("Yes.\n"), call))
    echoed = replace(said, parts=(TextPart("Yes."), replace(call, id="other")), name="bot")
    assert history_hashes([said]) == history_hashes([echoed])
    assert history_hashes([SYSTEM, said])[-1] == history_hashes([said])[-1]
