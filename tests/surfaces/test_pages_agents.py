"""The pages about agents: what one would recall, and how one is connected."""

import json
import re
import subprocess
import sys
import tomllib
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from convmemory.accounts.models import ApiKey
from convmemory.mcp_server.clients import commands, setups
from convmemory.mcp_server.views import SAID
from convmemory.push.application import modules_of, own_modules
from convmemory.tools.registry import mcp_tools
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation, make_user
from tests.support.api import signed_in

pytestmark = pytest.mark.django_db

BREAD = ("how do I keep a sourdough starter alive?", "Feed the starter flour and water once a week.")
RYE = ("is a rye sourdough starter different?", "A rye starter is livelier and more sour than wheat.")


@pytest.fixture
def owner() -> User:
    return make_user("ada")


@pytest.fixture
def archive(owner: User) -> None:
    for title, pair in (("Bread <b>", BREAD), ("Rye", RYE)):
        made = make_conversation(owner, exchange(pair), title=title)
        index_conversation(conversation_id=made.pk)


def page(client: Client, *, status: int = 200, **query: Any) -> str:
    response = client.get("/recall", query)
    assert response.status_code == status, response.content
    return unescape(response.content.decode())


def test_page_opens_with_tools_defaults(browser: Client) -> None:
    text = page(browser)
    assert 'name="max_tokens" value="2000"' in text
    assert 'name="top_k" value="5"' in text
    assert 'href="/recall"' in browser.get("/").content.decode()


def test_recall_page_shows_groups_budget_bar_and_text(browser: Client, archive: None) -> None:
    text = page(browser, query="how do I feed a sourdough starter?", threshold="0.3")
    assert re.search(r"<strong>\d+</strong> of 2000 tokens used", text)
    assert text.count('class="segment') >= 2
    assert BREAD[1] in text
    assert "/conversations/" in text
    assert "<recalled-memory" in text
    assert "Bread <b>" in text
    raw = browser.get("/recall", {"query": "sourdough starter"}).content.decode()
    assert "Bread <b>" not in raw
    assert "Bread &lt;b&gt;" in raw


def test_recall_page_says_what_was_left_out_and_why(browser: Client, archive: None) -> None:
    query: dict[str, Any] = {"query": "how do I feed a sourdough starter?", "threshold": "0"}
    text = page(browser, **query, max_tokens="100")  # two messages of four: the mark of the text takes 6 to 16
    assert re.search(r"left out: needs \d+ tokens, \d+ were left", text)
    assert re.search(r"<strong>(\d+)</strong> of 100 tokens", text)
    nothing = page(browser, **query, max_tokens="1")
    assert "<strong>0</strong> of 1 tokens used. 0 of" in nothing
    assert "The text that the agent gets" not in nothing
    assert "would have come with it" in nothing


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"query": "x"}, "at least 2 characters"),
        ({"query": "x" * 10_001}, "at most 10000 characters"),
        ({"query": "egg", "max_tokens": "0"}, "greater than or equal to 1"),
        ({"query": "egg", "top_k": "10000"}, "less than or equal to 50"),
        ({"query": "egg", "threshold": "2"}, "less than or equal to 1"),
        ({"query": "egg", "max_tokens": "many"}, "Enter a whole number"),
    ],
)
def test_recall_page_shows_input_errors(browser: Client, query: dict[str, str], said: str) -> None:
    assert said in page(browser, status=422, **query)


def test_empty_question_leaves_other_fields_as_they_are(browser: Client) -> None:
    text = page(browser, status=422, query="", top_k="7", threshold="")
    assert "This field is required" in text
    for field in ('name="max_tokens" value="2000"', 'name="top_k" value="7"', 'name="min_relevance" value="0'):
        assert field in text


def test_server_without_memory_says_so(browser: Client, settings: Any) -> None:
    settings.CONVERSATION_MEMORY_ENABLED = False
    assert "switched off on this server.<" in page(browser, status=403, query="sourdough")


def test_recall_page_without_matches_says_so(browser: Client) -> None:
    assert "Nothing is stored yet" in page(browser, query="sourdough starter")


def test_recall_page_shows_no_text_of_other_users(archive: None) -> None:
    stranger = signed_in(make_user())
    text = page(stranger, query="how do I feed a sourdough starter?", threshold="0")
    assert BREAD[1] not in text
    assert Client().get("/recall").status_code == 302


def test_number_of_queries_does_not_grow_with_what_is_found(
    browser: Client, archive: None, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_max_num_queries(23):  # four for the page, one for turns that sessions share, others as recall
        page(browser, query="how do I feed a sourdough starter?", threshold="0", top_k="50")


def test_connect_page_names_this_server_and_user(browser: Client, owner: User) -> None:
    assert "manage.py" not in browser.get("/settings/connect").content.decode()
    User.objects.filter(pk=owner.pk).update(is_staff=True)
    text = unescape(browser.get("/settings/connect").content.decode())
    for name in ("Claude Code", "Codex", "Claude Desktop", "Cursor", "VS Code"):
        assert name in text
    assert text.count("http://testserver/mcp") >= 5
    assert re.search(r'"--user",\s+"ada"', text)
    for tool in mcp_tools():
        assert tool.name in text
        assert tool.description in text
    assert "/settings/connect" in browser.get("/settings/keys").content.decode()
    assert Client().get("/settings/connect").status_code == 302


def test_client_config_snippets_parse() -> None:
    given: dict[str, Any] = {"server": "http://127.0.0.1:8000", "command": ["/opt/my venv/python", "/opt/manage.py"]}
    lines = {setup.slug: setup.lines for setup in setups(**given, user='a"da', key="cvm_k")}
    codex = tomllib.loads(lines["codex"])["mcp_servers"]["convmemory"]
    assert codex == {"url": "http://127.0.0.1:8000/mcp", "http_headers": {"Authorization": "Bearer cvm_k"}}
    desktop = json.loads(lines["claude-desktop"])["mcpServers"]["convmemory"]
    assert [desktop["command"], *desktop["args"]] == [*given["command"], "mcp", "--user", 'a"da']
    assert json.loads(lines["cursor"])["mcpServers"]["convmemory"]["headers"]["Authorization"] == "Bearer cvm_k"
    assert json.loads(lines["vs-code"])["servers"]["convmemory"]["type"] == "http"
    assert lines["other"].startswith("'/opt/my venv/python' /opt/manage.py mcp --user")


def test_texts_of_instructions_can_be_translated_and_lead_to_no_file_of_server() -> None:
    given: dict[str, Any] = {"server": "http://127.0.0.1:8000", "command": ["python", "manage.py"], "user": "ada"}
    made, by_hand = commands(**given), setups(**given)
    texts = {text for setup in made for text in (setup.name, setup.where, setup.note)}
    assert texts | {setup.note for setup in by_hand if setup.note} <= set(SAID)
    assert "docs/" not in " ".join(texts)


def test_connect_page_shows_command_for_all_agents_first(browser: Client, owner: User) -> None:
    User.objects.filter(pk=owner.pk).update(is_staff=True)
    text = unescape(browser.get("/settings/connect").content.decode())
    assert text.index("manage.py connect --user ada") < text.index(
        "python3 client.pyz connect --server http://testserver"
    )
    assert text.index("python3 client.pyz connect --server http://testserver") < text.index("~/.claude.json")


@pytest.mark.parametrize("marks", [True, False])
def test_pages_say_that_agents_only_read_unless_they_mark_turns(
    browser: Client, settings: Settings, marks: bool
) -> None:
    settings.MCP_MARKING = marks
    text = unescape(browser.get("/settings/connect").content.decode())
    assert ("changes nothing" in text) is not marks
    assert ("also mark turns as wrong or outdated" in text) is marks
    keys = unescape(browser.get("/settings/keys").content.decode())
    assert ("which is all that MCP and the tools need." in keys) is not marks


@pytest.mark.parametrize("imports", [True, False])
def test_key_of_connect_page_imports_only_if_chosen(browser: Client, owner: User, imports: bool) -> None:
    browser.post("/settings/connect", {"imports": "on"} if imports else {})
    assert ApiKey.objects.get(person_id=owner.pk).read_only is not imports


def test_anonymous_request_gets_client_of_this_version(client: Client, tmp_path: Path) -> None:
    answer = client.get("/client.pyz")
    (tmp_path / "client.pyz").write_bytes(answer.content)
    assert modules_of(tmp_path / "client.pyz") == own_modules()
    command = [sys.executable, "client.pyz", "connect", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "--server" in done.stdout
    older = "import runpy, sys; sys.version_info = (3, 10, 0); runpy.run_path('client.pyz', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", older], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr.startswith("convmemory-push needs Python 3.11 or newer; this is 3.10 (")
    again = client.get("/client.pyz", headers={"If-None-Match": answer["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
