"""Nobody ever gets another user's row: two to five users, random conversations, random questions, every surface.

`/v1/models` is left out: it passes on what the server's endpoint says and reads no row of anybody's.

Every text of a user holds the user's secret, a word that stands nowhere else and is never asked for. Answers are
searched as the bytes that the caller gets: another user's secret in them is a leak. Four worlds of two, three, four
and five users share one database and are indexed once; each example draws a caller, a question and other users' ids.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx2
import mcp_types as types
import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from convmemory.accounts.keys import create_key
from convmemory.chat.agents import create_agent
from convmemory.chat.models import Reply
from convmemory.conversations.models import Conversation, Message
from convmemory.core.errors import NotFound
from convmemory.tools.registry import run_tool, tool_definitions
from search.adapters.conversations import index_conversation
from summaries.models import ConversationSummary
from tests.factories import exchange, make_conversation, make_user
from tests.support import asgi_server

pytestmark = pytest.mark.django_db(transaction=True)

CASES = 2_000
SURFACES_AT_ONCE = 8
EXAMPLES = CASES // SURFACES_AT_ONCE + 1
NEVER_SHOW_TEXT = {
    "GET events", "GET index status", "GET memory stats", "POST memory embed", "POST summaries", "page account",
    "page connect", "page hits in", "page import", "page keys",
}  # fmt: skip
TOPICS = (
    "sourdough starter", "night train to Vienna", "billing deadlock", "queue worker memory leak", "JWT login",
    "balcony tomatoes", "half marathon plan", "nginx websocket proxy", "rental contract", "ukulele chords",
)  # fmt: skip
SIZES = (2, 3, 4, 5)
TAGS = (
    "agate", "basalt", "cobalt", "dolomite", "emerald", "feldspar", "garnet", "hematite", "iridium", "jasper",
    "kyanite", "lazurite", "malachite", "obsidian",
)  # fmt: skip
SECRETS = (
    "albatross", "bittern", "cormorant", "dunlin", "egret", "flamingo", "goshawk", "hornbill", "ibis", "jackdaw",
    "kestrel", "lapwing", "merganser", "nuthatch",
)  # fmt: skip
QUESTIONS = ("how do I fix the {}?", "what did we decide about the {}?", "{}", "tell me about the {} again")
YEAR_BEFORE, TODAY = "2025-06-18", "2026-07-28"


@dataclass
class Person:
    """A user, their ways in, what is theirs, and the words by which it is known.

    `tag` and `secret` stand in every text of theirs. Anybody may ask for a tag, so an answer may repeat
    it; nobody can ask for a secret.
    """

    user: User
    tag: str
    secret: str
    key: str
    program: Client
    browser: Client
    conversations: list[int] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)
    agents: list[int] = field(default_factory=list)
    summaries: list[tuple[int, int]] = field(default_factory=list)
    replies: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Town:
    """All users of all worlds."""

    worlds: list[list[Person]]
    http: httpx2.Client

    def others(self, caller: Person) -> list[Person]:
        return [person for world in self.worlds for person in world if person is not caller]


@pytest.fixture
def town(settings: Any) -> Iterator[Town]:
    settings.RECALL_THRESHOLD = 0.0  # recall brings as much as it can
    settings.CHAT_BASE_URL, settings.CHAT_MODEL = "http://127.0.0.1:9/v1", "some-model"  # for dry runs; never called
    draw = random.Random(20260101)
    names = zip(TAGS, SECRETS, strict=True)
    worlds = [[_settle(draw, *next(names)) for _ in range(size)] for size in SIZES]
    with asgi_server.serve() as address, httpx2.Client(base_url=address, timeout=60) as http:
        yield Town(worlds, http)


def _settle(draw: random.Random, tag: str, secret: str) -> Person:
    user = make_user()
    key, browser = create_key(owner=user), Client()
    browser.force_login(user)
    person = Person(user, tag, secret, key, Client(headers={"Authorization": f"Bearer {key}"}), browser)
    words = f"{tag} {secret}"
    for _ in range(draw.randint(1, 3)):
        pairs = [_pair(draw, words) for _ in range(draw.randint(1, 3))]
        made = make_conversation(
            user, exchange(*pairs), title=f"{words} {draw.choice(TOPICS)}", agent=f"agent-{tag}", project=secret
        )
        index_conversation(conversation_id=made.pk)
        person.conversations.append(made.pk)
        _talk(person, made, words)
    person.messages = list(Message.objects.filter(owner=user).values_list("pk", flat=True))
    return person


def _talk(person: Person, conversation: Conversation, words: str) -> None:
    """What chatting leaves behind: an agent, a summary, and a reply whose context was cut."""
    agent = create_agent(
        owner=person.user,
        values={
            "name": f"{words} {conversation.pk}",
            "system_prompt": f"Speak of {words}.",
            "context_strategies": ["summary_boundary", "resurrection"],
        },
    )
    person.agents.append(agent.pk)
    now = timezone.now()
    summary = ConversationSummary.objects.create(
        owner=person.user, conversation=conversation, from_position=0, to_position=0, status="completed",
        method="extractive", content=f"They spoke of {words}.", due_at=now, completed_at=now,
    )  # fmt: skip
    person.summaries.append((conversation.pk, summary.pk))
    steps = [{"name": words, "removed_ids": [], "shortened_ids": [], "tokens_before": 9, "tokens_after": 5}]
    reply = Reply.objects.create(
        owner=person.user, conversation=conversation, agent=agent, model=words, status="done", ended_at=now,
        question=conversation.messages.order_by("position")[0],
        context={"strategies": steps, "tokens_before": 9, "tokens_after": 5, "window": 10, "removed_ids": []},
    )  # fmt: skip
    person.replies.append((conversation.pk, reply.pk))


def _pair(draw: random.Random, words: str) -> tuple[str, str]:
    topic = draw.choice(TOPICS)
    question = draw.choice(QUESTIONS).format(topic)
    return f"{words} {question}", f"{words} about the {topic}: step {draw.randrange(100)} is the one that matters."


@dataclass(frozen=True)
class Ask:
    """What one caller asks one surface, drawn at random; ids are as often another user's as the caller's own."""

    caller: Person
    question: str
    conversation: int
    message: int
    turn: int
    agent: str
    agent_id: int
    summary: str
    reply: str
    mode: str


Answer = tuple[int, bytes]
Surface = Callable[[Town, Ask], Answer]


def _ask(town: Town, draw: st.DataObject) -> Ask:
    world = draw.draw(st.sampled_from(town.worlds))
    caller, victim = (draw.draw(st.sampled_from(world)) for _ in range(2))
    tag = draw.draw(st.sampled_from(["", "", f" {victim.tag}", f' "{victim.tag}"']))
    question = draw.draw(st.sampled_from(QUESTIONS)).format(draw.draw(st.sampled_from(TOPICS)))
    return Ask(
        caller=caller,
        question=question + tag,
        conversation=draw.draw(st.sampled_from(victim.conversations)),
        message=draw.draw(st.sampled_from(victim.messages)),
        turn=draw.draw(st.integers(0, 3)),
        agent=draw.draw(st.sampled_from(["", f"agent-{victim.tag}"])),
        agent_id=draw.draw(st.sampled_from(victim.agents)),
        summary="/conversations/{}/summaries/{}".format(*draw.draw(st.sampled_from(victim.summaries))),
        reply="/conversations/{}/replies/{}".format(*draw.draw(st.sampled_from(victim.replies))),
        mode=draw.draw(st.sampled_from(["hybrid", "semantic", "full_text"])),
    )


# --- the surfaces ---------------------------------------------------------------------------------


def _arguments(tool: str, ask: Ask) -> dict[str, Any]:
    by_tool: dict[str, dict[str, Any]] = {
        "ConversationSearch": {"query": ask.question, "limit": 50},
        "search_chat_history": {"query": ask.question, "limit": 20},
        "conversation_recall": {"query": ask.question, "top_k": 20, "max_tokens": 20_000},
        "read_conversation": {"conversation_id": ask.conversation, "from_turn": ask.turn},
        "list_conversations": {"limit": 100, "agent": ask.agent},
    }
    return by_tool[tool]


def _tool(name: str) -> Surface:
    def call(town: Town, ask: Ask) -> Answer:
        try:
            return 200, json.dumps(run_tool(name, _arguments(name, ask), ask.caller.user)).encode()
        except NotFound as error:
            return 404, str(error).encode()

    return call


def _tool_route(name: str) -> Surface:
    def call(town: Town, ask: Ask) -> Answer:
        return _api(ask, "POST", f"/tools/{name}", _arguments(name, ask))

    return call


def _mcp(name: str, version: str) -> Surface:
    def call(town: Town, ask: Ask) -> Answer:
        params: dict[str, Any] = {"name": name, "arguments": _arguments(name, ask)}
        headers = {"Authorization": f"Bearer {ask.caller.key}", "Accept": "application/json"}
        headers["Mcp-Protocol-Version"] = version
        if version == TODAY:
            params["_meta"] = {types.PROTOCOL_VERSION_META_KEY: version, types.CLIENT_CAPABILITIES_META_KEY: {}}
            headers |= {"Mcp-Method": "tools/call", "Mcp-Name": name}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        response = town.http.post("/mcp", json=body, headers=headers)
        assert "result" in response.json(), response.text
        return response.status_code, response.content

    return call


def _api(ask: Ask, method: str, path: str, body: Any = "", **query: Any) -> Answer:
    data = json.dumps(body) if body else ""
    address = f"/api/v1{path}?{urlencode(query)}"
    response = ask.caller.program.generic(method, address, data, content_type="application/json")
    return response.status_code, response.content


def _page(ask: Ask, path: str, **query: Any) -> Answer:
    response = ask.caller.browser.get(path, query)
    return response.status_code, response.content


ROUTES: dict[str, Surface] = {
    "GET search": lambda _, ask: _api(
        ask, "GET", "/conversations/search", query=ask.question, limit=50, mode=ask.mode, agent=ask.agent
    ),
    "GET conversations": lambda _, ask: _api(ask, "GET", "/conversations", limit=100, agent=ask.agent),
    "GET conversation": lambda _, ask: _api(ask, "GET", f"/conversations/{ask.conversation}"),
    "GET messages": lambda _, ask: _api(ask, "GET", f"/conversations/{ask.conversation}/messages", turn=ask.turn),
    "PATCH conversation": lambda _, ask: _api(ask, "PATCH", f"/conversations/{ask.conversation}", {"archived": False}),
    "GET memory stats": lambda _, ask: _api(ask, "GET", f"/conversations/{ask.conversation}/memory/stats"),
    "POST memory embed": lambda _, ask: _api(
        ask, "POST", f"/conversations/{ask.conversation}/memory/embed", {"message_ids": [ask.message]}
    ),
    "POST recall": lambda _, ask: _api(ask, "POST", "/memory/recall", {"query": ask.question, "top_k": 20}),
    "POST recall in conversation": lambda _, ask: _api(
        ask, "POST", f"/conversations/{ask.conversation}/memory/recall", {"query": ask.question}
    ),
    "GET summaries": lambda _, ask: _api(ask, "GET", f"/conversations/{ask.conversation}/summaries"),
    "GET summary": lambda _, ask: _api(ask, "GET", ask.summary),
    "POST summaries": lambda _, ask: _api(
        ask, "POST", f"/conversations/{ask.conversation}/summaries", {"method": "extractive"}
    ),
    "POST summary again": lambda _, ask: _api(ask, "POST", f"{ask.summary}/regenerate"),
    "GET agents": lambda _, ask: _api(ask, "GET", "/agents"),
    "GET agent": lambda _, ask: _api(ask, "GET", f"/agents/{ask.agent_id}"),
    "PATCH agent": lambda _, ask: _api(ask, "PATCH", f"/agents/{ask.agent_id}", {"temperature": 0.5}),
    "GET replies": lambda _, ask: _api(ask, "GET", f"/conversations/{ask.conversation}/replies"),
    "GET context": lambda _, ask: _api(ask, "GET", f"/conversations/{ask.conversation}/context"),
    "GET context of agent": lambda _, ask: _api(
        ask, "GET", f"/conversations/{ask.conversation}/context", agent_id=ask.agent_id
    ),
    "GET events": lambda _, ask: _api(ask, "GET", "/events", conversation_id=ask.conversation),
    "GET index status": lambda _, ask: _api(ask, "GET", "/index/status"),
    "page search": lambda _, ask: _page(ask, "/search", q=ask.question, mode=ask.mode),
    "page home": lambda _, ask: _page(ask, "/"),
    "page filters": lambda _, ask: _page(ask, "/search/filters"),
    "page conversation": lambda _, ask: _page(ask, f"/conversations/{ask.conversation}", turn=ask.turn, q=ask.question),
    "page passage": lambda _, ask: _page(
        ask, f"/conversations/{ask.conversation}", turn=ask.turn, m=ask.message, part=0, **{"from": 0, "to": 9}
    ),
    "page part": lambda _, ask: _page(ask, f"/conversations/{ask.conversation}/messages/{ask.turn}/parts/0"),
    "page hits in": lambda _, ask: _page(ask, "/search/hits-in", q=ask.question, conversation=ask.conversation),
    "page delete": lambda _, ask: _page(ask, f"/conversations/{ask.conversation}/delete"),
    "page summaries": lambda _, ask: _page(ask, f"/conversations/{ask.conversation}/summaries"),
    "page summary": lambda _, ask: _page(ask, ask.summary),
    "page agents": lambda _, ask: _page(ask, "/agents"),
    "page agent": lambda _, ask: _page(ask, f"/agents/{ask.agent_id}"),
    "page new chat": lambda _, ask: _page(ask, "/chat"),
    "page reply": lambda _, ask: _page(ask, ask.reply),
    "page context": lambda _, ask: _page(ask, f"/conversations/{ask.conversation}/context", agent=ask.agent_id),
    "page import": lambda _, ask: _page(ask, "/import"),
    "page account": lambda _, ask: _page(ask, "/settings/account/delete"),
    "page keys": lambda _, ask: _page(ask, "/settings/keys"),
    "page connect": lambda _, ask: _page(ask, "/settings/connect"),
    "page recall": lambda _, ask: _page(ask, "/recall", query=ask.question, top_k=20, max_tokens=20_000),
}
NAMES = [tool.name for tool in tool_definitions()]
SURFACES: dict[str, Surface] = (
    ROUTES
    | {f"tool {name}": _tool(name) for name in NAMES}
    | {f"POST tool {name}": _tool_route(name) for name in NAMES}
    | {f"MCP {name} {version}": _mcp(name, version) for name in NAMES for version in (YEAR_BEFORE, TODAY)}
)


SOME_SURFACES = st.lists(
    st.sampled_from(sorted(SURFACES)), min_size=SURFACES_AT_ONCE, max_size=SURFACES_AT_ONCE, unique=True
)


def test_nobody_ever_sees_another_users_row(town: Town) -> None:
    cases: Counter[str] = Counter()
    own: Counter[str] = Counter()

    @hypothesis_settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.data())
    def ask_around(draw: st.DataObject) -> None:
        ask = _ask(town, draw)
        for name in draw.draw(SOME_SURFACES):
            status, body = SURFACES[name](town, ask)
            assert status < 500, (name, ask, body)
            leaked = [person.secret for person in town.others(ask.caller) if person.secret.encode() in body]
            assert not leaked, (name, leaked, ask)
            cases[name] += 1
            own[name] += ask.caller.secret.encode() in body

    ask_around()
    assert cases.total() >= CASES
    assert set(cases) == set(SURFACES)
    silent = {name for name in SURFACES if not own[name]} - NEVER_SHOW_TEXT
    assert not silent, "these surfaces never showed even the caller's own text, so they were not tested"
