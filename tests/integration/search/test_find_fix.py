"""An error leads to the turn after which it stopped appearing, with what changed."""

import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation
from convmemory.tools.registry import run_tool
from search.adapters.conversations import index_conversation
from tests.factories import assistant_says, make_conversation, make_user, user_says

pytestmark = pytest.mark.django_db
ERROR = (
    'Traceback\n  File "/home/ada/well/pump.py", line 3\nValueError: valve 12 cannot be opened while the pump runs\n'
)


def ran(id: str, output: str, *, fails: bool) -> list[MessageDraft]:
    call = ToolCallPart(id, "Bash", {"command": "make water"})
    return [
        MessageDraft(role="assistant", parts=(call,)),
        MessageDraft(role="tool", parts=(ToolResultPart(id, output, is_error=fails),)),
    ]


@pytest.fixture
def fixed(owner: User) -> Conversation:
    change = {"file_path": "pump.py", "old_string": "open(valve)", "new_string": "stop(pump)\nopen(valve)"}
    messages = [
        user_says("Water the garden."), *ran("1", ERROR, fails=True), assistant_says("It fails."),
        user_says("Then mend it."), MessageDraft(role="assistant", parts=(ToolCallPart("2", "Edit", change),)),
        *ran("3", "ok", fails=False), assistant_says("The pump stops before the valve opens."),
    ]  # fmt: skip
    made = make_conversation(owner, messages, title="Garden", project="/home/ada/well")
    index_conversation(conversation_id=made.pk)
    return made


PASTED = "make: ***\nValueError: valve 7 cannot be opened while the pump runs"


def test_error_leads_to_the_turn_that_fixed_it_with_what_changed(owner: User, fixed: Conversation) -> None:
    answer = run_tool("find_fix", {"error": PASTED}, Caller.of(owner))
    (fix,) = answer["fixes"]
    assert (fix["turn"]["conversation_id"], fix["turn"]["turn_number"], fix["passed"]) == (fixed.pk, 1, "make water")
    assert fix["changes"] == [{"file": "pump.py", "removed": "open(valve)", "added": "stop(pump) open(valve)"}]
    assert "The pump stops before the valve opens." in answer["text"]


def test_search_recognises_a_pasted_error(owner: User, fixed: Conversation) -> None:
    assert "find_fix" in run_tool("search", {"query": PASTED}, Caller.of(owner))["note"]
    question = {"query": "why can the valve not be opened while the pump runs without an error?"}
    assert "find_fix" not in run_tool("search", question, Caller.of(owner)).get("note", "")


def test_unknown_errors_and_texts_without_one_have_no_fix(owner: User, fixed: Conversation) -> None:
    unknown = run_tool("find_fix", {"error": "OSError: the tank has no water left in it"}, Caller.of(owner))
    assert unknown["fixes"] == []
    assert run_tool("find_fix", {"error": "all is well"}, Caller.of(owner))["signature"] == ""


def test_fixes_of_other_owners_are_not_found(fixed: Conversation) -> None:
    assert run_tool("find_fix", {"error": PASTED}, Caller.of(make_user()))["fixes"] == []
