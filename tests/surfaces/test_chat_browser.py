"""Chatting in a real Chromium: a reply streams in, a tool call is shown, the turn is found and linked to."""

import re
import threading
from collections.abc import Callable
from functools import partial

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.conversations.models import Conversation
from convmemory.documents.library import attached_documents
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation
from tests.support.chat_server import ChatServer, Hold, Say, Script, Think, calls, fails, says
from tests.support.documents import read, upload
from tests.surfaces.browser import (
    NARROW,
    ONE_PANE,
    PHONE,
    SETTLED,
    WIDE,
    WIDTHS,
    Chromium,
    at_every_width,
    held,
    is_deferred_script,
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    # Whitenoise gives files as synchronous iterators.
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume synchronous iterators:Warning"),
]


@pytest.fixture
def visit(chromium: Chromium, site: str, owner: User) -> Callable[..., None]:
    """Runs steps on a page of a server whose chats are answered, where the owner is signed in."""
    return partial(chromium.visit, site, visitor=owner)


RULES = "# Rules of the bakery\n\nThe ovens are cleaned. Every Monday at noon.\n"


def send(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Message").fill(text)
    page.get_by_role("button", name="Send").click()


@pytest.mark.essential
def test_new_chat_streams_calls_tool_and_is_found(
    visit: Callable[..., None], endpoint: ChatServer, owner: User
) -> None:
    old = make_conversation(owner, exchange(("how do I feed a sourdough starter?", "Once a week.")), title="Bread")
    index_conversation(conversation_id=old.pk)
    release = threading.Event()
    answer = Script((Think("Bread it is."), Say("Feed it **once"), Hold(release), Say("** a week.")))
    endpoint.scripts.extend([calls("ConversationSearch", {"query": "feeding the sourdough starter"}), answer])

    def steps(page: Page) -> None:
        page.get_by_role("link", name="New chat").click()
        composer = page.get_by_role("textbox", name="Message")
        expect(composer).to_be_focused()
        send(page, "How often do I feed the starter?")
        expect(page.locator(".is-draft.is-assistant")).to_be_visible()
        docked = composer.bounding_box()
        expect(page.locator(".message.is-user")).to_contain_text("How often do I feed")
        expect(page.locator(".is-draft .call .fold-label")).to_have_text("ConversationSearch")
        expect(page.locator(".is-draft .result .fold-label")).to_have_text("Result of ConversationSearch")
        expect(page.locator(".is-draft.is-assistant")).to_contain_text("Feed it **once")
        assert composer.bounding_box() == docked
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
        release.set()
        expect(page.locator(".message.is-assistant strong")).to_have_text("once")
        expect(page.locator(".is-draft")).to_have_count(0)
        expect(page.locator(".call .fold-label")).to_have_text("ConversationSearch")
        assert page.url.split("/")[-2] == "conversations"

    visit(steps)
    chat = Conversation.objects.exclude(pk=old.pk).get()
    assert (chat.status, chat.turn_count, chat.source) == ("idle", 1, "chat")
    index_conversation(conversation_id=chat.pk)

    def find(page: Page) -> None:
        page.goto("/search?q=how+often+do+I+feed+the+starter")
        page.locator(f'.hit[data-conversation="{chat.pk}"]').first.click()
        page.wait_for_url(f"**/conversations/{chat.pk}?turn=0*")
        expect(page.locator('[data-turn="0"]').first).to_be_in_viewport()

    visit(find)


def stop_reply_and_go_on(page: Page, address: str) -> None:
    page.goto(address)
    speakers = page.locator(".message.is-assistant .speaker")
    page.get_by_role("textbox", name="Message").fill("Tell me a story")
    page.keyboard.press("Enter")
    expect(page.locator(".is-draft.is-assistant")).to_contain_text("Once")
    expect(speakers.last).to_have_text("Assistant")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".message-note")).to_contain_text("The reply was stopped.")
    expect(page.locator(".is-draft")).to_have_count(0)
    expect(speakers.last).to_have_text("Assistant")
    expect(page.locator(".message-note, .notice:visible, #toast:not(:empty)")).to_have_count(1)
    send(page, "Go on")
    expect(page.locator(".message.is-assistant").last).to_contain_text("Second answer.")
    expect(page.locator(".is-draft")).to_have_count(0)
    assert page.locator(".message.is-user").count() == 3


def read_failure_below_question(page: Page, address: str) -> None:
    page.goto(address)
    send(page, "Hello?")
    expect(page.locator(".message-note.is-warning")).to_contain_text("answered 500: try later.")
    expect(page.get_by_text("out of memory")).to_have_count(1)
    expect(page.get_by_text("out of memory")).to_be_hidden()
    page.get_by_text("What the other server answered").click()
    expect(page.get_by_text("out of memory")).to_be_visible()
    send(page, "Again")
    expect(page.locator(".message.is-assistant").last).to_contain_text("You said: Again")


def open_page_meanwhile(page: Page, release: threading.Event) -> None:
    page.goto("/chat")
    send(page, "Tell me a story")
    expect(page.locator(".is-draft.is-assistant")).to_contain_text("Once upon")
    page.reload()
    expect(page.locator("[data-running] .message")).to_contain_text("Once upon")
    release.set()
    expect(page.locator(".message.is-assistant[data-turn]")).to_contain_text("Once upon a time.")
    expect(page.locator("[data-running]")).to_have_count(0)


def leave_while_reply_is_written(page: Page, address: str, release: threading.Event) -> None:
    page.goto("/chat")
    send(page, "Tell me another story")
    expect(page.locator(".is-draft.is-assistant")).to_contain_text("Once more")
    page.locator("#results .item", has=page.get_by_text("Story", exact=True)).click()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text("Story")
    page.evaluate("document.addEventListener('convmemory:changed', () => (document.body.dataset.ended = ''))")
    release.set()
    expect(page.locator("body[data-ended]")).to_have_count(1)
    page.evaluate(SETTLED)
    expect(heading).to_have_text("Story")
    expect(page).to_have_url(re.compile(address))


def see_new_chat_in_list(page: Page, width: int, release: threading.Event) -> None:
    page.goto("/chat")
    send(page, f"Which flour for {width} loaves?")
    expect(page.locator("#results .item-title").first).to_have_text(f"Which flour for {width} loaves?")
    expect(page.locator(".is-draft.is-assistant")).to_contain_text("The first")
    composer = page.get_by_role("textbox", name="Message")
    composer.fill("And for rolls?")
    release.set()
    expect(page.locator(".message.is-assistant[data-turn]")).to_contain_text("The first answer.")
    expect(composer).to_have_value("And for rolls?")
    foot, rail = page.locator("[data-composer]").bounding_box(), page.locator(".rail").bounding_box()
    assert foot
    assert rail
    below = rail["y"] if width <= ONE_PANE else PHONE["height"]
    assert 0 <= below - foot["y"] - foot["height"] <= 24, "the composer stands at the foot of the pane"


def get_title(page: Page) -> None:
    page.goto("/chat")
    send(page, "Which flour do I take for a loaf of rye bread, please?")
    expect(page.get_by_role("heading", level=1)).to_have_text("Flour for “rye” bread")
    expect(page).to_have_title("Flour for “rye” bread · convmemory")
    expect(page.locator("#results .item-title").first).to_have_text("Flour for “rye” bread")


def test_person_stops_a_reply_and_comes_back_to_others(
    visit: Callable[..., None], endpoint: ChatServer, owner: User
) -> None:
    story = make_conversation(owner, exchange(("first", "one")), title="Story")
    held_back, meanwhile, elsewhere = threading.Event(), threading.Event(), threading.Event()
    told = Script((Say("Once"), Hold(held_back)))
    endpoint.scripts.extend([told, says("Second answer."), fails(500, "out of memory"), says("You said: Again")])
    address = story.get_absolute_url()

    visit(lambda page: stop_reply_and_go_on(page, address), **PHONE)
    held_back.set()
    story.refresh_from_db()
    assert story.turn_count == 3
    visit(lambda page: read_failure_below_question(page, address), **PHONE)
    endpoint.scripts.append(Script((Say("Once more"), Hold(elsewhere), Say(" upon a time."))))
    visit(lambda page: leave_while_reply_is_written(page, address, elsewhere))
    releases = {width: threading.Event() for width in WIDTHS}
    for release in releases.values():
        endpoint.scripts.append(Script((Say("The first"), Hold(release), Say(" answer."))))
    endpoint.scripts.extend(says("Rye, mostly.") for _ in WIDE)
    endpoint.scripts.append(Script((Say("Once upon"), Hold(meanwhile), Say(" a time."))))

    at_every_width(visit, lambda page, width: see_new_chat_in_list(page, width, releases[width]))
    endpoint.titles.extend("**Flour for “rye” bread.**\nIt is about flour" for _ in WIDE)
    at_every_width(visit, lambda page, _: get_title(page), widths=WIDE)
    visit(lambda page: open_page_meanwhile(page, meanwhile))


def send_before_scripts(page: Page, address: str) -> None:
    for question, answer in (("And in summer?", "Twice, then."), ("Where?", "By the oven.")):
        with held(page, is_deferred_script):
            page.goto(address, wait_until="commit")
            page.get_by_role("textbox", name="Message").press_sequentially(question)
            page.keyboard.press("Enter")
            expect(page.locator(".message.is-assistant").last).to_contain_text(answer)
            expect(page.locator(".message.is-user").last).to_have_text(re.compile(rf"{re.escape(question)}\s*$"))


def test_typed_text_survives_missing_scripts_editing_reload_and_ended_session(
    visit: Callable[..., None], endpoint: ChatServer, owner: User, settings: Settings
) -> None:
    owner.set_password("correct horse")
    owner.save()
    conversation = make_conversation(owner, exchange(("first", "one")), title="Story")
    address = f"/conversations/{conversation.pk}"
    endpoint.scripts.extend([says("Two."), says("Three.")])

    def steps(page: Page) -> None:
        def sign_out() -> None:
            page.evaluate("document.querySelector('#progress')?.remove()")  # its request would find out first
            page.wait_for_load_state("networkidle")
            page.context.clear_cookies(name=settings.SESSION_COOKIE_NAME)

        def sign_in() -> None:
            expect(page.get_by_text("Your session has ended")).to_be_visible()
            page.get_by_label("Name").fill(owner.username)
            page.get_by_label("Password").fill("correct horse")
            page.get_by_role("button", name="Sign in").click()

        message = page.get_by_role("textbox", name="Message")
        message.fill("And then?")
        page.keyboard.press("Enter")
        expect(page.locator(".message.is-assistant").last).to_contain_text("Two.")
        message.press_sequentially("half a thou")
        page.locator("[data-edit-question]").last.click()
        expect(message).to_have_value("And then?")
        page.get_by_role("link", name="Cancel").click()
        expect(message).to_have_value("half a thou")
        page.goto("/library")
        page.goto(address)
        expect(message).to_have_value("half a thou")
        sign_out()
        message.press_sequentially("ght")
        page.keyboard.press("Enter")
        sign_in()
        expect(page).to_have_url(re.compile(f"{address}$"))
        expect(message).to_have_value("half a thought")
        page.get_by_role("button", name="Change the title").click()
        page.get_by_role("textbox", name="Title").fill("A longer story")
        sign_out()
        page.keyboard.press("Enter")
        sign_in()
        expect(page.get_by_role("textbox", name="Title")).to_have_value("A longer story")
        page.get_by_role("button", name="Send").click()
        expect(page.locator(".message.is-assistant").last).to_contain_text("Three.")
        page.reload()
        expect(message).to_have_value("")

    visit(steps, at=address)
    endpoint.scripts.extend([says("Twice, then."), says("By the oven.")])
    visit(lambda page: send_before_scripts(page, address))


def ask_failed_question_again(page: Page, width: int) -> None:
    page.goto("/chat")
    send(page, "Hello?")
    expect(page.get_by_text("out of memory")).to_have_count(1)
    expect(page.get_by_role("button", name="Retry")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".message.is-assistant").last).to_contain_text("Now it works.")
    expect(page.get_by_role("textbox", name="Message")).to_be_in_viewport()


QUESTIONS, LIVE = (f"[data-messages] > .message.is-{kind}" for kind in ("user", "assistant"))


def walk_versions(page: Page) -> None:
    page.goto("/chat")

    def step(name: str, number: str, answer: str) -> None:
        page.get_by_role("button", name=name).click()
        expect(page.locator(".versions")).to_contain_text(number)
        expect(page.locator(LIVE)).to_have_text(re.compile(rf"{answer} flour\.\s*$"))

    send(page, "Which flour for bread?")
    expect(page.locator(LIVE)).to_contain_text("Some flour.")
    expect(page.locator(".versions")).to_have_count(0)
    step("Retry", "2/2", "Rye")
    expect(page.locator(".is-draft")).to_have_count(0)
    page.locator(".again").get_by_text("Edit").click()
    box = page.get_by_role("textbox", name="Message")
    expect(box).to_have_value("Which flour for bread?")
    expect(page.locator("[data-editing]")).to_be_visible()
    expect(page.locator("[data-messages] > [data-chat]")).to_be_visible()  # under the question
    send(page, "Which flour for cakes?")
    expect(page.locator(LIVE)).to_contain_text("Wheat flour.")
    expect(page.locator(QUESTIONS)).to_contain_text("Which flour for cakes?")
    expect(page.locator("[data-editing]")).to_be_hidden()
    expect(page.locator("[data-messages] > [data-chat]")).to_have_count(0)
    page.reload()
    step("Retry", "4/4", "Oat")
    expect(page.locator(".is-draft")).to_have_count(0)
    step("Previous version", "3/4", "Wheat")
    step("Previous version", "2/4", "Rye")
    expect(page.locator(QUESTIONS)).to_contain_text("Which flour for bread?")
    expect(page.get_by_role("button", name="Next version")).to_be_enabled()
    send(page, "And more?")
    expect(page.locator(LIVE).last).to_contain_text("More rye flour.")
    expect(page.locator(".is-draft")).to_have_count(0)
    page.get_by_role("button", name="Next version").click()
    expect(page.locator(LIVE)).to_have_count(1)
    page.get_by_role("button", name="Previous version").click()
    expect(page.locator(LIVE)).to_have_count(2)
    expect(page.locator(".superseded")).to_have_count(0)


def press_edit_of_two_questions(page: Page) -> None:
    page.goto("/chat")
    send(page, "first question")
    expect(page.locator(".message.is-assistant[data-turn]")).to_have_count(1)
    send(page, "second question")
    expect(page.locator(".message.is-assistant[data-turn]")).to_have_count(2)
    page.reload()
    first, second = (page.locator(f"#turn-{turn}") for turn in (0, 1))
    box = page.get_by_role("textbox", name="Message")
    address = str(first.locator("[data-copy-text]").get_attribute("href"))
    with held(page, lambda url: url.endswith(address)) as waiting:
        first.get_by_label("Edit this message").click()
        second.get_by_label("Edit this message").click()
        expect(box).to_have_value("second question")
    waiting[0].request.response()
    page.evaluate(SETTLED)
    expect(box).to_have_value("second question")


def edit_earlier_question_without_scripts(page: Page) -> None:
    page.goto("/chat")
    send(page, "first question")
    send(page, "second question")
    expect(page.locator(".message.is-assistant").last).to_contain_text("Two.")
    page.locator("#turn-0").get_by_label("Edit this message").click()
    expect(page.get_by_role("heading", name="Edit your message")).to_be_visible()
    send(page, "another first question")
    expect(page.locator("#turn-0")).to_contain_text("another first question")
    expect(page.locator("[data-turn]")).to_have_count(2)
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".message.is-assistant[data-turn]")).to_contain_text("Four.")


def test_person_asks_again_and_walks_versions_of_questions(visit: Callable[..., None], endpoint: ChatServer) -> None:
    for _ in NARROW:
        endpoint.scripts.extend(says(f"{flour} flour.") for flour in ("Some", "Rye", "Wheat", "Oat", "More rye"))
    at_every_width(visit, lambda page, _: walk_versions(page), widths=NARROW)
    assert list(Conversation.objects.values_list("turn_count", "message_count")) == [(2, 10)] * len(NARROW)
    assert [len(request["messages"]) for request in endpoint.requests] == [1, 1, 1, 1, 3] * len(NARROW)
    for _ in NARROW:
        endpoint.scripts.extend([fails(500, "out of memory"), says("Now it works.")])
    at_every_width(visit, ask_failed_question_again, widths=NARROW)
    visit(press_edit_of_two_questions)
    endpoint.scripts.extend([says("One."), says("Two."), says("Three."), says("Four.")])
    visit(edit_earlier_question_without_scripts, javascript=False)
    assert Conversation.objects.latest("pk").turn_count == 1


def make_and_choose_agent(page: Page, width: int) -> None:
    page.goto("/agents/new")
    page.get_by_label("Name").fill(f"Baker {width}")
    page.get_by_label("System prompt").fill("You bake.")
    expect(page.get_by_label("Context window")).to_be_hidden()
    page.get_by_text("Advanced").click()
    page.get_by_label("Leave the oldest messages out").check()
    page.get_by_label("Shorten the output of tools").check()
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".notice")).to_contain_text("is saved")
    page.goto("/chat")
    baker = page.get_by_role("option", name=f"Baker {width}").get_attribute("value")
    page.get_by_label("Who answers").select_option(baker)
    send(page, "Hello")
    expect(page.locator(".message.is-assistant[data-turn]")).to_contain_text("You said: Hello")


def choose_model_from_menu(page: Page) -> None:
    page.goto("/agents/new")
    model = page.get_by_label("Model", exact=True)
    expect(model.locator("option", has_text="test-model")).to_have_count(1)
    model.select_option("test-model")
    page.get_by_role("button", name="Ask the endpoint").click()
    expect(model).to_have_value("test-model")
    model.select_option(label="Type another name…")
    expect(model).to_be_focused()
    model.fill("unlisted")
    page.get_by_role("button", name="Ask the endpoint").click()
    expect(page.locator("#model-field")).to_contain_text("unlisted is not among its models")
    expect(model).to_have_value("unlisted")
    page.get_by_label("Endpoint", exact=True).fill("http://192.0.2.1/v1")
    page.get_by_role("button", name="Ask the endpoint").click()
    expect(page.locator("#model-field .error")).to_contain_text("Your account may not use the endpoint")
    expect(model).to_have_value("unlisted")


def chat_without_endpoint(page: Page) -> None:
    page.goto("/chat")
    expect(page.locator(".chat")).to_contain_text("ask who runs this server.")
    expect(page.get_by_role("button", name="Send")).to_have_count(0)


def set_up_first_endpoint(page: Page, endpoint: ChatServer) -> None:
    page.goto("/agents")
    expect(page.get_by_text("No chat model is set up")).to_be_visible()
    page.get_by_role("link", name="New agent").click()
    page.get_by_label("Name").fill("Baker")
    with held(page, lambda url: url.endswith("/agents/check")):
        page.get_by_label("Endpoint", exact=True).fill(endpoint.url)
        page.get_by_label("Key of the endpoint").fill(endpoint.key)
        with page.expect_request(lambda request: f"api_key={endpoint.key}" in (request.post_data or "")):
            page.get_by_label("Name").focus()
        expect(page.locator("#id_model")).to_be_disabled()
    page.locator("select[name=model]").select_option("test-model")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".notice")).to_contain_text("is saved")
    expect(page.get_by_text("No chat model is set up")).to_have_count(0)
    page.goto("/chat")
    expect(page.get_by_text("No chat model is set up")).to_have_count(0)
    send(page, "Hello")
    expect(page.locator(".message.is-assistant[data-turn]")).to_contain_text("You said: Hello")


def test_person_sets_up_agents_and_endpoints(
    visit: Callable[..., None], endpoint: ChatServer, owner: User, settings: Settings
) -> None:
    def steps(page: Page, width: int) -> None:
        make_and_choose_agent(page, width)
        choose_model_from_menu(page)

    at_every_width(visit, steps, widths=NARROW)
    assert len(endpoint.requests) == len(NARROW)
    for request in endpoint.requests:
        assert request["messages"][0] == {"role": "system", "content": "You bake."}
        assert [tool["function"]["name"] for tool in request["tools"]] == ["ConversationSearch", "document_search"]
    settings.CHAT_MODEL = ""
    visit(chat_without_endpoint)
    settings.CHAT_BASE_URL = ""
    owner.is_staff = owner.is_superuser = True  # as `create_user --admin` makes the first account
    owner.save()
    visit(lambda page: set_up_first_endpoint(page, endpoint))


def follow_citation(page: Page, turn: str, release: threading.Event) -> None:
    page.goto("/chat")
    send(page, "How often do I feed the starter?")
    citation = page.locator("a.citation")
    expect(page.locator(".is-draft a.citation")).to_have_attribute("href", turn)
    release.set()
    expect(page.locator(".is-draft")).to_have_count(0)
    expect(citation).to_have_text("1")
    citation.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Bread")
    expect(page.locator("#turn-0")).to_be_in_viewport()


def read_markdown_while_it_comes(page: Page, release: threading.Event) -> None:
    page.goto("/chat")
    send(page, "A plan?")
    draft = page.locator(".is-draft.is-assistant")
    expect(draft.get_by_role("heading", name="Plan")).to_be_visible()
    expect(draft.locator(".math-display mfrac")).to_be_visible()
    expect(draft.locator("p:has(.math)")).to_have_text("for $5 or x1")
    expect(draft.locator("li strong")).to_have_text("one")
    expect(draft.locator("li").last).to_have_text("two <b>")
    expect(draft.locator("td").first).to_have_text("1")
    expect(draft.locator(".code pre span").first).to_have_text("print")
    expect(page.get_by_role("textbox", name="Message")).to_be_in_viewport()
    release.set()
    expect(page.locator(".is-draft")).to_have_count(0)
    expect(page.locator(".message.is-assistant .code pre")).to_contain_text("print(1)")


DROP = """([selector, name, text]) => {
    const data = new DataTransfer();
    data.items.add(new File([text], name));
    for (const kind of ["dragenter", "dragover", "drop"])
        document.querySelector(selector).dispatchEvent(
            new DragEvent(kind, {bubbles: true, cancelable: true, dataTransfer: data}));
}"""


def attach_files_and_send_once_read(page: Page, width: int, endpoint: ChatServer) -> None:
    page.goto("/chat")
    chips = page.locator("[data-attached]")
    page.get_by_label("Attach files").set_input_files({"name": "rules.md", "mimeType": "", "buffer": RULES.encode()})
    expect(chips).to_have_text(re.compile("Rules of the bakery"))
    page.evaluate(DROP, ["[data-composer] textarea", f"list-{width}.md", f"# List {width}\n\nFlour."])
    expect(chips).to_have_count(2)
    expect(chips.last).to_contain_text("is being read")
    expect(page.locator("body.is-dropping, .import")).to_have_count(0)
    send(page, "When are the ovens cleaned?")
    expect(page.get_by_role("alert").filter(has_text="still being read")).to_be_visible()
    assert len(endpoint.requests) == 0
    chips.last.get_by_role("button").click()
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".message.is-user .attachment-name")).to_have_text("rules.md")
    expect(page.locator(".is-draft")).to_have_count(0)
    expect(chips).to_have_count(0)
    expect(page.locator(".message.is-assistant .result, .message.is-assistant .call").first).to_be_attached()


@pytest.mark.usefixtures("documents_here")
def test_person_attaches_files_reads_markdown_while_it_comes_and_follows_citation(
    visit: Callable[..., None], endpoint: ChatServer, owner: User
) -> None:
    read(upload(owner, RULES, "rules.md"))
    endpoint.scripts.append(calls("document_search", {"query": "when are the ovens cleaned?"}))
    at_every_width(
        visit, lambda page, width: attach_files_and_send_once_read(page, width, endpoint), widths=WIDTHS[-1:]
    )
    asked, answered = endpoint.requests
    assert "rules.md" in str(asked["messages"][-1])
    assert "Every Monday at noon" in str(answered["messages"][-1])
    chat = Conversation.objects.get()
    rows = attached_documents(caller=Caller.of(owner), conversation_id=chat.pk)
    assert [row.name for row in rows] == ["rules.md"]
    old = make_conversation(owner, exchange(("how do I feed a sourdough starter?", "Once a week.")), title="Bread")
    index_conversation(conversation_id=old.pk)
    turn = f"/conversations/{old.pk}?turn=0"
    releases = {width: (threading.Event(), threading.Event()) for width in WIDTHS}
    text = "# Plan\n\n$$\n\\frac{a}{b}\n= c\n$$\n\nfor $5 or $x_1$\n\n"
    text += "- **one**\n- `two` <b>\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nprint(1)"
    for number, (plan, citation) in enumerate(releases.values()):
        cited = ("Feed it once a week [1].", f"Feed it once a week [1]({turn}).")[number % 2]
        answer = Script((Say(cited), Hold(citation), Say(" Or `x[1]`.")))
        search = calls("ConversationSearch", {"query": "feeding the sourdough starter"})
        endpoint.scripts.extend([Script((Say(text), Hold(plan), Say("\n```\n"))), search, answer])

    def steps(page: Page, width: int) -> None:
        plan, citation = releases[width]
        read_markdown_while_it_comes(page, plan)
        follow_citation(page, turn, citation)

    at_every_width(visit, steps)
