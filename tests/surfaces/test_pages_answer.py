"""The answer above the results of a question: which passage it is, what it names, and when there is none."""

import json
import re
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils.html import strip_tags

from convmemory.accounts.callers import Caller
from convmemory.conversations.marking import set_mark
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import TextPart, ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation
from convmemory.core.marks import Mark
from convmemory.tools.asking import ASK_A_QUESTION
from convmemory.tools.registry import run_tool
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation, make_user
from tests.support.api import signed_in
from tests.support.stored_rows import stored_for_file
from tests.surfaces.test_no_answer import NONSENSE, ONLY_NEAREST, PAIRS

pytestmark = pytest.mark.django_db

QUESTION = "which paint for the rusty gate of the garden?"
NEAREST = "Nearest:"


def store_archive() -> User:
    owner = make_user()
    conversation = make_conversation(owner, exchange(*PAIRS), title="House", project="/home/ada/house")
    index_conversation(conversation_id=conversation.pk)
    return owner


stored_archive = stored_for_file(store_archive)


@pytest.fixture
def archive(stored_archive: User, settings: Any) -> User:
    settings.SEARCH_MIN_RELEVANCE = 0.37
    return stored_archive


def answer_on_page(user: User, **query: Any) -> str:
    """Return the HTML of the answer on the page of a search, "" if there is none."""
    client = signed_in(user)
    response = client.get("/search", query)
    assert response.status_code == 200
    found = re.search(r'<section class="answer".*?</section>', response.content.decode(), re.DOTALL)
    return found[0] if found else ""


def text_of(html: str) -> str:
    return " ".join(unescape(strip_tags(html)).split())


def test_question_gets_passage_with_its_date_place_and_link(archive: User) -> None:
    html = answer_on_page(archive, q=QUESTION)
    text = text_of(html)
    for piece in ("House, turn 4", "house", "1 Jan 2026"):
        assert piece in text, text
    assert re.search(r'<a href="/conversations/\d+\?turn=3&amp;', html)
    assert "metal primer" in text or "rusty, which paint holds" in text
    assert "data-nearest hidden" in html


@pytest.mark.parametrize(
    "query", ["rusty gate paint", f'"rusty" {QUESTION}', f"{QUESTION[:-1]} -bread", "what is this?", "what now"]
)
def test_words_operators_and_steering_get_no_answer(archive: User, query: str) -> None:
    assert "<blockquote" not in answer_on_page(archive, q=query)


def test_empty_archive_gets_no_answer() -> None:
    assert answer_on_page(make_user(), q=QUESTION) == ""


def test_unanswerable_question_gets_one_sentence_and_the_nearest_passage(archive: User) -> None:
    html = answer_on_page(archive, q=f"what is {NONSENSE}?")
    text = text_of(html)
    assert text.count("Nothing here seems to answer") == 1
    assert NEAREST in text
    assert "House, turn" in text
    client = signed_in(archive)
    page = client.get("/search", {"q": f"what is {NONSENSE}?"}).content.decode()
    assert page.count("Nothing here seems to answer") == 1


def test_silenced_words_name_no_nearest_passage(archive: User) -> None:
    assert NEAREST not in text_of(answer_on_page(archive, q=NONSENSE))


def test_answer_of_an_agents_turn_names_files_and_the_command_that_passed(owner: User, settings: Any) -> None:
    settings.SEARCH_MIN_RELEVANCE = 0.37
    question = "why is the login token refused as not yet valid?"
    said = "The clocks differ: I added a leeway of thirty seconds where the login token is decoded."
    edit = ToolCallPart(id="a", name="Edit", input={"file_path": "/repo/auth/verify.py"})
    test = ToolCallPart(id="b", name="Bash", input={"command": "pytest tests/auth"})
    messages = (
        MessageDraft(role="user", parts=(TextPart(question),)),
        MessageDraft(role="assistant", parts=(edit, test)),
        MessageDraft(role="tool", parts=(ToolResultPart(call_id="a", name="Edit", text="ok"),)),
        MessageDraft(role="tool", parts=(ToolResultPart(call_id="b", name="Bash", text="12 passed"),)),
        MessageDraft(role="assistant", parts=(TextPart(said),)),
    )
    draft = ConversationDraft(messages=messages, source="test", title="Portal", project="/repo")
    conversation = ingest.create_conversation(caller=Caller.of(owner), draft=draft)
    index_conversation(conversation_id=conversation.pk)
    text = text_of(answer_on_page(owner, q=question))
    assert "verify.py" in text
    assert "pytest tests/auth passed" in text


def test_passage_of_another_owner_is_no_answer(archive: User) -> None:
    other = make_user()
    conversation = make_conversation(other, exchange(("which bird sings?", "The wren.")))
    index_conversation(conversation_id=conversation.pk)
    assert "gate" not in text_of(answer_on_page(other, q=QUESTION)).replace(QUESTION, "")


def test_markup_in_a_passage_is_shown_as_text(owner: User, settings: Any) -> None:
    settings.SEARCH_MIN_RELEVANCE = 0.0
    pair = ("how do I bold the glacier?", "Write <b onclick=alert(1)>glacier</b> and <script>x</script>.")
    index_conversation(conversation_id=make_conversation(owner, exchange(pair)).pk)
    html = answer_on_page(owner, q="how do I bold the glacier?")
    assert html
    assert "<script" not in html
    assert "<b " not in html


def test_tool_returns_what_answers_or_the_nearest_with_a_note(archive: User) -> None:
    caller = Caller.of(archive)
    answer = run_tool("conversation_ask", {"query": QUESTION}, caller)
    assert answer["results"][0]["turn_number"] == 3
    assert answer["results"][0]["outcome"]["conclusion"].startswith("Use a metal primer")
    silent = run_tool("conversation_ask", {"query": f"what is {NONSENSE}?"}, caller)
    assert (silent["results"], silent["reason"], silent["note"]) == ([], "below_bar", ONLY_NEAREST)
    assert silent["nearest"]["url"].startswith("/conversations/")
    words = run_tool("conversation_ask", {"query": "rusty gate paint"}, caller)
    assert (words["results"], words["note"], words["nearest"]["turn_number"]) == ([], ASK_A_QUESTION, 3)
    assert run_tool("conversation_ask", {"query": QUESTION}, Caller.of(make_user()))["results"] == []


def test_turn_marked_as_wrong_is_neither_answer_nor_nearest(archive: User) -> None:
    conversation = Conversation.objects.get()
    for turn in range(len(PAIRS)):
        mark = Mark("wrong" if turn == 3 else "outdated", "")
        set_mark(caller=Caller.of(archive), conversation_id=conversation.pk, turn_number=turn, mark=mark)
    assert "turn 4" not in text_of(answer_on_page(archive, q=QUESTION))
    silent = text_of(answer_on_page(archive, q=f"what is {NONSENSE}?"))
    assert "turn 4" not in silent
    assert "marked as outdated" in silent


def test_request_of_the_model_has_the_filters_of_the_page(archive: User, settings: Any) -> None:
    def body_of(**query: Any) -> dict[str, Any] | None:
        found = re.search(r'data-ask="([^"]*)"', answer_on_page(archive, q=QUESTION, **query))
        return json.loads(unescape(found[1])) if found else None

    assert body_of() is None
    settings.CHAT_BASE_URL, settings.CHAT_MODEL = "http://127.0.0.1:9/v1", "some-model"
    plain = {"question": QUESTION, "mode": "hybrid", "scope": "user,assistant", "kind": "", "when": "", "space": "",
             "archived": False, "agent": "", "project": "", "source": ""}  # fmt: skip
    assert body_of() == plain
    chosen = body_of(project="/home/ada/house", after="2025-01-01", before="2027-01-01", space="mine")
    assert chosen == plain | {"project": "/home/ada/house", "after": "2025-01-01T00:00:00",
                              "before": "2027-01-01T23:59:59.999999", "space": "mine"}  # fmt: skip
    assert body_of(project=["/home/ada/house", "/home/ada/barn"]) is None
