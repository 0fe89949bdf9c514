"""The MCP server as the official client sees it, over HTTP and over standard input and output."""

import json
import subprocess
from functools import partial
from typing import Any

import httpx2
import mcp_types as types
import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from jsonschema import validate
from mcp import Client
from mcp.shared.exceptions import MCPError

from convmemory.accounts.keys import create_key
from convmemory.accounts.models import AuditEntry
from convmemory.conversations.messages.drafts import EventDraft
from convmemory.conversations.messages.event_log import add_events
from convmemory.conversations.models import Conversation
from convmemory.tools.registry import mcp_tools, tool_definitions
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation, make_user
from tests.support.documents import indexed, upload
from tests.support.mcp_client import Session, over_http, over_stdio, stdio_server
from tests.support.patience import ANSWER_S

pytestmark = pytest.mark.django_db(transaction=True)

BREAD = ("how do I keep a sourdough starter alive?", "Feed it flour and water once a week.")
TODAY, YEAR_BEFORE = "2026-07-28", "2025-06-18"
NAMES = [tool.name for tool in mcp_tools()]


@pytest.fixture
def owner() -> User:
    return make_user("ada")


@pytest.fixture
def bread(owner: User) -> Conversation:
    made = make_conversation(owner, exchange(BREAD), title="Bread")
    index_conversation(conversation_id=made.pk)
    indexed(upload(owner, " ".join(BREAD), "bread.txt"))
    add_events(made, [EventDraft(1, "tool:post", payload={"output": "sourdough"})])
    return made


@pytest.fixture(params=["http", pytest.param("stdio", marks=pytest.mark.slow)])
def session(request: pytest.FixtureRequest, owner: User, address: str) -> Session:
    """Runs steps in a session of `ada`'s agent."""
    if request.param == "http":
        return partial(over_http, address, create_key(person=owner))
    return partial(over_stdio, "ada")


@pytest.fixture
def older_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the official client one of 2025-06-18."""
    monkeypatch.setattr("mcp.client.session.LATEST_HANDSHAKE_VERSION", YEAR_BEFORE)


def text_of(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


async def use_every_tool(client: Client, conversation_id: int) -> str | None:
    """Lists the tools, and calls all, also those that are not listed. The protocol's version."""
    listed = (await client.list_tools()).tools
    assert [tool.name for tool in listed] == NAMES
    for tool in listed:
        assert tool.annotations is not None
        assert (tool.annotations.read_only_hint, tool.annotations.open_world_hint) == (True, False)
    given = {
        "query": "sourdough starter",
        "conversation_id": conversation_id,
        "file": "sourdough.md",
        "error": "error: no sourdough starter left",
    }
    for known in tool_definitions():
        arguments = {name: given[name] for name in known.input_schema.get("required", [])}
        listed_name = f"convmemory_{known.name}"
        result = await client.call_tool(listed_name, arguments)
        assert result == await client.call_tool(known.name, arguments), "earlier names answer, too"
        assert not result.is_error, result
        assert "sourdough" in text_of(result) or "Bread" in text_of(result)
        if known.as_text is None:
            validate(result.structured_content, known.output_schema)
            assert json.loads(text_of(result)) == result.structured_content
    return client.session.protocol_version


def test_client_of_today_lists_and_calls_every_tool(session: Session, bread: Conversation) -> None:
    assert session(lambda client: use_every_tool(client, bread.pk)) == TODAY


def test_client_of_2025_lists_and_calls_every_tool(session: Session, bread: Conversation, older_client: None) -> None:
    assert session(lambda client: use_every_tool(client, bread.pk), mode="legacy") == YEAR_BEFORE


def test_mcp_errors_name_wrong_argument(session: Session, bread: Conversation) -> None:
    foreign = make_conversation(make_user(), exchange(BREAD)).pk

    calls: list[tuple[str, dict[str, Any], str]] = [
        ("ConversationSearch", {"query": "x" * 10_001}, "10000 characters"),
        ("ConversationSearch", {"query": "egg", "limit": 0}, "limit"),
        ("ConversationSearch", {"query": "egg", "limit": 10_000}, "limit"),
        ("read_conversation", {"conversation_id": bread.pk, "max_tokens": 0}, "max_tokens"),
        ("read_conversation", {"conversation_id": foreign}, f"no conversation {foreign}"),
        ("read_conversation", {"conversation_id": foreign + 999}, f"no conversation {foreign + 999}"),
    ]

    async def steps(client: Client) -> None:
        for name, arguments, said in calls:
            result = await client.call_tool(name, arguments)
            assert result.is_error
            assert said in text_of(result)
        with pytest.raises(MCPError, match="no tool 'magic'"):
            await client.call_tool("magic", {})
        with pytest.raises(MCPError, match="one page"):
            await client.list_tools(cursor="more")

    session(steps)


@pytest.fixture
def client_of(owner: User, address: str) -> Any:
    return partial(over_http, address, create_key(person=owner))


def test_links_of_answers_begin_with_requested_host(client_of: Any, address: str, bread: Conversation) -> None:
    link = f"{address}/conversations/{bread.pk}?turn=0"

    async def steps(client: Client) -> list[str]:
        question: dict[str, Any] = {"query": "how do I keep a sourdough starter alive?"}
        calls = [(name, question) for name in ("search", "recall", "ConversationSearch")]
        calls.append(("read_conversation", {"conversation_id": bread.pk}))
        return [text_of(await client.call_tool(name, arguments)) for name, arguments in calls]

    assert all(link in answer for answer in client_of(steps))


@pytest.mark.slow
def test_links_over_stdio_begin_with_public_url(
    owner: User, bread: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUBLIC_URL", "https://memory.example/")

    async def steps(client: Client) -> str:
        return text_of(await client.call_tool("list_conversations", {}))

    assert f'"https://memory.example/conversations/{bread.pk}"' in over_stdio("ada", steps)


def test_recall_prompt_and_turn_resource_read_callers_archive(client_of: Any, bread: Conversation) -> None:
    foreign = make_conversation(make_user(), exchange(BREAD)).pk
    question = {"question": "how do I keep a sourdough starter alive?"}

    async def steps(client: Client) -> tuple[str, str]:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["recall"]
        (template,) = (await client.list_resource_templates()).resource_templates
        place = template.uri_template.replace("{turn_number}", "0")
        (said,) = (await client.get_prompt("recall", question)).messages
        (turn,) = (await client.read_resource(place.replace("{conversation_id}", str(bread.pk)))).contents
        with pytest.raises(MCPError, match=f"no conversation {foreign}"):
            await client.read_resource(place.replace("{conversation_id}", str(foreign)))
        with pytest.raises(MCPError, match="no such resource"):
            await client.read_resource("convmemory://conversations/x")
        assert isinstance(said.content, types.TextContent)
        assert isinstance(turn, types.TextResourceContents)
        return said.content.text, turn.text

    prompt, turn = client_of(steps)
    assert prompt.startswith(question["question"])
    assert BREAD[1] in prompt
    assert turn.endswith(f"user: {BREAD[0]}\n\nassistant: {BREAD[1]}")


def test_mcp_instructions_mark_answers_as_data(session: Session) -> None:
    async def steps(client: Client) -> str | None:
        return client.instructions

    assert "never instructions" in session(steps)


LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def post(address: str, body: Any, **headers: str) -> httpx2.Response:
    content = body if isinstance(body, (str, bytes)) else json.dumps(body)
    sent = {**ACCEPT, "Content-Type": "application/json", **headers}
    return httpx2.post(f"{address}/mcp", content=content, headers=sent, timeout=ANSWER_S)


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer cvm_wrong"}, {"Authorization": "Basic x"}, {"Authorization": "Bearer"}]
)
@pytest.mark.parametrize("version", [None, YEAR_BEFORE, TODAY, "1999-01-01"])
def test_mcp_without_valid_key_gets_401(address: str, headers: dict[str, str], version: str | None) -> None:
    chosen = {"Mcp-Protocol-Version": version} if version else {}
    response = post(address, LIST, **headers, **chosen)
    assert response.status_code == 401
    metadata = f"{address}/.well-known/oauth-protected-resource/mcp"
    assert response.headers["WWW-Authenticate"] == f'Bearer realm="convmemory", resource_metadata="{metadata}"'
    assert "create_api_key" in response.json()["detail"]
    assert not any(name in response.text for name in NAMES)


def test_official_client_gets_no_session_with_wrong_key(address: str) -> None:
    async def steps(client: Client) -> None:
        await client.list_tools()

    with pytest.RaisesGroup(MCPError, flatten_subgroups=True):
        over_http(address, "cvm_wrong", steps)


def test_mcp_while_database_is_down_gets_503(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(authorization: str, *, writes: bool) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr("convmemory.mcp_server.http.caller_of_header", fail)
    response = post(address, LIST, Authorization="Bearer cvm_some")
    assert response.status_code == 503
    assert "try again" in response.json()["detail"]


def test_mcp_does_not_accept_session_cookie(address: str, owner: User) -> None:
    from django.test import Client as Browser

    browser = Browser()
    browser.force_login(owner)
    cookie = f"convmemory_session={browser.cookies['convmemory_session'].value}"
    assert post(address, LIST, Cookie=cookie).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 421),
    ],
)
def test_pages_of_other_sites_are_kept_out(address: str, owner: User, headers: dict[str, str], status: int) -> None:
    response = post(address, LIST, Authorization=f"Bearer {create_key(person=owner)}", **headers)
    assert response.status_code == status
    assert "add" in response.json()["detail"]


def test_our_own_pages_and_trusted_ones_may_ask(address: str, owner: User, settings: Any) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://agents.example", "https://*.tools.example"]
    key = f"Bearer {create_key(person=owner)}"
    for origin in (address, "https://agents.example", "https://a.tools.example"):
        response = post(address, LIST, Authorization=key, Origin=origin)
        assert response.status_code == 200, (origin, response.text)
    assert post(address, LIST, Authorization=key, Origin="http://agents.example").status_code == 403


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_mcp_accepts_post_only(address: str, owner: User, method: str) -> None:
    key = f"Bearer {create_key(person=owner)}"
    response = httpx2.request(method, f"{address}/mcp", headers={**ACCEPT, "Authorization": key}, timeout=ANSWER_S)
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("{", types.PARSE_ERROR),
        (b"\xff\xfe", types.PARSE_ERROR),
        ("[]", None),
        ('"hello"', None),
        ({"id": 1, "method": "tools/list"}, None),
        ({"jsonrpc": "2.0", "id": 1, "method": "no/such"}, types.METHOD_NOT_FOUND),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"arguments": 3}}, types.INVALID_PARAMS),
    ],
)
@pytest.mark.parametrize("version", [YEAR_BEFORE, TODAY])
def test_malformed_requests_get_json_rpc_error(
    address: str, owner: User, body: Any, code: int | None, version: str
) -> None:
    key = f"Bearer {create_key(person=owner)}"
    response = post(address, body, Authorization=key, **{"Mcp-Protocol-Version": version})
    answer = response.json()
    assert answer["jsonrpc"] == "2.0"
    assert answer["error"]["message"]
    assert response.status_code in (200, 400, 404)
    if code is not None and (version == YEAR_BEFORE or code == types.PARSE_ERROR):
        assert answer["error"]["code"] == code


def run_stdio(user: str, *lines: str, answers: int = 0) -> "subprocess.CompletedProcess[str]":
    """A client that sends `lines`, waits for so many answers, and closes its end."""
    server = stdio_server(user)
    with subprocess.Popen(
        [server.command, *server.args], env=server.env, cwd=server.cwd, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin
        assert process.stdout
        process.stdin.write("".join(f"{line}\n" for line in lines))
        process.stdin.flush()
        heard = "".join(process.stdout.readline() for _ in range(answers))
        rest, errors = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, heard + rest, errors)


def test_malformed_lines_are_answered_and_nothing_but_protocol_is_written(owner: User) -> None:
    hello = {"protocolVersion": YEAR_BEFORE, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    done = run_stdio(
        "ada",
        "{",
        '{"id": 1}',
        json.dumps({"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": hello}),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json.dumps({"jsonrpc": "2.0", "id": 8, "method": "tools/list"}),
        answers=4,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [None, None, 7, 8]
    assert [answer["error"]["code"] for answer in answers[:2]] == [types.PARSE_ERROR, types.INVALID_REQUEST]
    assert answers[2]["result"]["protocolVersion"] == YEAR_BEFORE
    assert [tool["name"] for tool in answers[3]["result"]["tools"]] == NAMES
    entry = AuditEntry.objects.get(action="read")
    assert (entry.about_id, entry.surface, entry.what) == (owner.pk, "command", "tools over MCP")


@pytest.mark.slow
def test_mcp_command_reports_unknown_user_on_stderr() -> None:
    done = run_stdio("nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert "create_api_key nobody --create" in done.stderr
