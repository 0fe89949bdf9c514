"""Every way in which a caller can ask for something, as functions from a question to the bytes of the answer.

`/v1/models` is left out: it passes on what the server's endpoint says and reads no row of any user.
"""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import mcp_types as types
from django.test import Client

from convmemory.accounts.models import SpaceInvitation
from convmemory.conversations.messages.hidden_keys import keys_of
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.retention.models import RetentionRule
from convmemory.tools.registry import run_tool, tool_definitions
from tests.surfaces.isolation_asks import Answer, Ask, Surface
from tests.surfaces.isolation_town import Town

YEAR_BEFORE, TODAY = "2025-06-18", "2026-07-28"
TOOLS = [tool.name for tool in tool_definitions()]
NEVER_SHOW_TEXT = {
    "GET events by words", "GET index status", "GET memory stats", "POST memory embed",
    "POST summaries", "POST turn by source", "page account", "page connect", "page hits in", "page keys", "GET tools",
    "page sessions", "POST stop", "page running", "page progress", "page document page", "page document picture",
    "page spaces", "page one space", "POST own role", "POST moves", "POST another's invitation",
    "page picture", "page library by tool", "page data", "page key use", "page key revoke", "POST check endpoint",
    "GET retention preview", "GET spaces", "page saved searches",
}  # fmt: skip


OF_TRASH = {
    "GET trash", "GET trash of one archive", "page trash", "POST another's trash restore", "DELETE another's trash",
}  # fmt: skip

OF_INVITED = {"page spaces", "POST another's invitation"}
"""Show the names of spaces to which the caller is invited."""


def _tool(name: str) -> Surface:
    def call(town: Town, ask: Ask) -> Answer:
        try:
            return 200, json.dumps(run_tool(name, ask.arguments[name], ask.caller.acting.alone())).encode()
        except NotFound as error:
            return 404, str(error).encode()
        except InvalidInput as error:
            return 422, str(error).encode()

    return call


def _tool_route(name: str) -> Surface:
    def call(town: Town, ask: Ask) -> Answer:
        return _api(ask, "POST", f"/tools/{name}", ask.arguments[name])

    return call


def _tool_route_with_wide_key(name: str) -> Surface:
    return lambda _, ask: _wide(ask, "POST", f"/tools/{name}", _without_cursor(ask.arguments[name]))


def _without_cursor(arguments: dict[str, Any]) -> dict[str, Any]:
    """Leave out the cursor, which was drawn for a search of the victim's own archive alone."""
    return {argument: value for argument, value in arguments.items() if argument != "cursor"}


def _mcp(name: str, version: str, *, is_wide: bool = False) -> Surface:
    def call(town: Town, ask: Ask) -> Answer:
        arguments = _without_cursor(ask.arguments[name]) if is_wide else ask.arguments[name]
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        key = ask.caller.wide_key if is_wide else ask.caller.key
        headers = {"Authorization": f"Bearer {key}", "Accept": "application/json"}
        headers["Mcp-Protocol-Version"] = version
        if version == TODAY:
            params["_meta"] = {types.PROTOCOL_VERSION_META_KEY: version, types.CLIENT_CAPABILITIES_META_KEY: {}}
            headers |= {"Mcp-Method": "tools/call", "Mcp-Name": name}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        response = town.http.post("/mcp", json=body, headers=headers)
        assert "result" in response.json(), response.text
        return response.status_code, response.content

    return call


def _mcp_method(town: Town, ask: Ask, method: str, name: str, params: dict[str, Any], *, path: str = "/mcp") -> Answer:
    meta = {types.PROTOCOL_VERSION_META_KEY: TODAY, types.CLIENT_CAPABILITIES_META_KEY: {}}
    headers = {"Authorization": f"Bearer {ask.caller.key}", "Accept": "application/json"}
    headers |= {"Mcp-Protocol-Version": TODAY, "Mcp-Method": method, "Mcp-Name": name}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    response = town.http.post(path, json=body, headers=headers)
    return response.status_code, response.content


def _chatgpt(town: Town, ask: Ask, name: str, arguments: dict[str, Any]) -> Answer:
    params = {"name": name, "arguments": arguments}
    return _mcp_method(town, ask, "tools/call", name, params, path="/mcp?profile=chatgpt")


def _turn_resource(town: Town, ask: Ask) -> Answer:
    uri = f"convmemory://conversations/{ask.conversation}/turns/0"
    return _mcp_method(town, ask, "resources/read", uri, {"uri": uri})


def _recall_prompt(town: Town, ask: Ask) -> Answer:
    return _mcp_method(town, ask, "prompts/get", "recall", {"name": "recall", "arguments": {"question": ask.question}})


def _api(ask: Ask, method: str, path: str, body: Any = "", **query: Any) -> Answer:
    data = json.dumps(body) if body else ""
    address = f"/api/v1{path}?{urlencode(query)}"
    response = ask.caller.program.generic(method, address, data, content_type="application/json")
    return response.status_code, response.getvalue()


def _wide(ask: Ask, method: str, path: str, body: Any = "", **query: Any) -> Answer:
    """A request with the key that also reads all spaces of the caller."""
    headers = {"Authorization": f"Bearer {ask.caller.wide_key}"}
    data = json.dumps(body) if body else ""
    address = f"/api/v1{path}?{urlencode(query)}"
    response = Client().generic(method, address, data, content_type="application/json", headers=headers)
    return response.status_code, response.getvalue()


def _asked(town: Town, ask: Ask, key: str) -> Answer:
    """The evidence of an answer; the model cannot be reached."""
    body = {"question": f"{ask.question}?"}
    response = town.http.post("/api/v1/ask", json=body, headers={"Authorization": f"Bearer {key}"})
    return response.status_code, response.content


def _rename_with_wide_key(ask: Ask) -> Answer:
    """Tries to rename what is another's, or a space's, with a key that reads it; of the caller's own it only asks."""
    path = f"/conversations/{ask.conversation}"
    if ask.victim is ask.caller:
        return _wide(ask, "GET", path)
    status, body = _wide(ask, "PATCH", path, {"title": ask.caller.secret})
    assert status == (403 if ask.victim.is_read_by(ask.caller) else 404), (path, status)
    return status, body


def _page(ask: Ask, path: str, **query: Any) -> Answer:
    response = ask.caller.browser.get(path, query)
    return response.status_code, response.content


def _file(ask: Ask, path: str) -> Answer:
    response = ask.caller.browser.get(path)
    return response.status_code, response.getvalue() if response.streaming else response.content


def _post(ask: Ask, path: str, **values: Any) -> Answer:
    """A form of a page, with the page that it leads to."""
    response = ask.caller.browser.post(path, values, follow=True)
    return response.status_code, response.getvalue() if response.streaming else response.content


def _delete(ask: Ask, path: str) -> Answer:
    """Tries to delete what is another's; of the caller's own it only asks."""
    if ask.victim is ask.caller:
        return _api(ask, "GET", path)
    status, body = _api(ask, "DELETE", path)
    assert status == 404, (path, status)
    return status, body


def _delete_mark(ask: Ask) -> Answer:
    """Tries to take a mark off another's turn; of the caller's own it only asks which there are."""
    path = f"/conversations/{ask.conversation}"
    if ask.victim is ask.caller:
        return _api(ask, "GET", f"{path}/marks")
    status, body = _api(ask, "DELETE", f"{path}/turns/0/mark")
    assert status == 404, (path, status)
    return status, body


def _delete_link(ask: Ask) -> Answer:
    """Tries to revoke another's link; of the caller's own it only asks which there are."""
    if ask.victim is ask.caller:
        return _api(ask, "GET", "/share_links")
    status, body = _api(ask, "DELETE", f"/share_links/{ask.link_id}")
    assert status == 404, status
    return status, body


def _store(ask: Ask) -> Answer:
    """Tries to store a conversation in another's archive with a key that reads it, and then lists the caller's own."""
    body = {"title": ask.caller.secret, "messages": []}
    status, answer = _wide(ask, "POST", "/conversations", body, space=ask.victim.user.pk)
    assert status == (403 if ask.victim.roles and ask.victim.is_read_by(ask.caller) else 404), (status, answer)
    return _wide(ask, "GET", "/conversations") if ask.victim is ask.caller else (status, answer)


def _delete_rule(ask: Ask) -> Answer:
    """Tries to delete another's rule with a key that reads it; of the caller's own it only asks which there are."""
    if ask.victim is ask.caller:
        return _wide(ask, "GET", "/retention_rules")
    rule = RetentionRule.objects.get(archive_id=ask.victim.user.pk).pk
    status, body = _wide(ask, "DELETE", f"/retention_rules/{rule}", space=ask.victim.user.pk)
    assert status == (403 if ask.victim.is_read_by(ask.caller) else 404), status
    return status, body


def _detach(ask: Ask, path: str) -> Answer:
    """Tries to detach a document from what is another's; of the caller's own it only asks what is attached."""
    if ask.victim is ask.caller:
        return _api(ask, "GET", path)
    status, body = _api(ask, "DELETE", f"{path}/{ask.document}")
    assert status == 404, (path, status)
    return status, body


def _download(ask: Ask, path: str) -> Answer:
    response = ask.caller.browser.get(path)
    streamed = getattr(response, "streaming_content", None)
    return response.status_code, b"".join(streamed) if streamed else response.content


def _post_to_another(ask: Ask, path: str, own: str, **form: Any) -> Answer:
    """Tries to change what is another's by a page's form; of what the caller may change it shows the page `own`."""
    if ask.victim.is_changed_by(ask.caller):
        return _page(ask, own)
    response = ask.caller.browser.post(path, form)
    reads = ask.victim.is_read_by(ask.caller) and not path.startswith(("/agents", "/trash"))
    assert response.status_code == (403 if reads else 404), (path, response.status_code)
    return response.status_code, response.content


def _note(ask: Ask) -> str:
    """A secret for the victim's turn: the victim's own if the caller may write there, as other members read it then."""
    return ask.victim.secret if ask.victim.is_changed_by(ask.caller) else ask.caller.secret


def _post_role(ask: Ask) -> Answer:
    """Tries to make the caller a manager of the victim; managers only look at the page."""
    path = f"/spaces/{ask.victim.user.pk}"
    if ask.victim.roles.get(ask.caller.user.pk) == "manager":
        return _page(ask, path)
    for values in ({"action": "set", "member": ask.caller.user.pk}, {"action": "invite", "username": ask.caller.tag}):
        response = ask.caller.browser.post(path, values | {"role": "manager"})
        assert response.status_code == (403 if ask.victim.roles and ask.victim.is_read_by(ask.caller) else 404)
    return response.status_code, response.content


def _post_invitation(ask: Ask) -> Answer:
    """Tries to accept an invitation of another person."""
    others = SpaceInvitation.objects.exclude(person_id=ask.caller.user.pk).values_list("pk", flat=True)
    values = {"action": "accept", "invitation": others.filter(archive_id=ask.victim.user.pk).first() or 0}
    response = ask.caller.browser.post("/spaces/invitations", values)
    assert response.status_code == 404
    return response.status_code, response.content


def _page_in_space(path: str) -> Surface:
    name = {"/search": "q", "/recall": "query"}.get(path, "")
    return lambda _, ask: _in_space(ask, path, **({name: ask.question} if name else {}))


def _in_space(ask: Ask, path: str, **query: Any) -> Answer:
    """The page after the caller tried to open the victim; afterwards they use their own archive again."""
    browser = ask.caller.browser
    opened = browser.post("/spaces/use", {"space": ask.victim.user.pk})
    is_member = ask.victim.is_read_by(ask.caller) and ask.victim is not ask.caller
    assert opened.status_code == (302 if is_member else 404), opened.status_code
    try:
        return _page(ask, path, **query)
    finally:
        browser.post("/spaces/use")


def _keys(ask: Ask) -> Answer:
    """The keys of a conversation without the look-up of the conversation, which refuses another's before."""
    return 200, repr(keys_of(caller=ask.caller.acting, conversation_id=ask.conversation)).encode()


def _similar(ask: Ask) -> Answer:
    """Asks for events like another's on the page of the caller's own conversation."""
    status, body = _page(ask, f"/conversations/{ask.caller.conversations[0]}/events", similar=ask.event)
    assert ask.victim is ask.caller or status == 404, status
    return status, body


def _undo(ask: Ask, path: str) -> Answer:
    """Tries to undo another's import; of the caller's own it only asks."""
    if ask.victim is ask.caller:
        return _api(ask, "GET", path)
    status, body = _api(ask, "POST", f"{path}/undo")
    assert status == 404, (path, status)
    return status, body


ROUTES: dict[str, Surface] = {
    "GET search": lambda _, ask: _api(
        ask, "GET", "/conversations/search", query=ask.question, limit=50, mode=ask.mode, agent=ask.agent
    ),
    "GET search in all archives": lambda _, ask: _wide(
        ask, "GET", "/search", query=ask.question, limit=50, mode=ask.mode
    ),
    "GET search in one space": lambda _, ask: _wide(
        ask, "GET", "/search", query=ask.question, space=ask.victim.user.pk if ask.victim.roles else "mine"
    ),
    "GET conversation with wide key": lambda _, ask: _wide(ask, "GET", f"/conversations/{ask.conversation}/messages"),
    "GET documents of all archives": lambda _, ask: _wide(ask, "GET", "/documents", limit=100),
    "GET search of sections in all archives": lambda _, ask: _wide(
        ask, "GET", "/documents/search", query=ask.question, limit=50, mode=ask.mode
    ),
    "GET search in a document with wide key": lambda _, ask: _wide(
        ask, "GET", "/documents/search", query=ask.question, document_id=ask.document
    ),
    "PATCH another's with wide key": lambda _, ask: _rename_with_wide_key(ask),
    "GET conversations": lambda _, ask: _api(ask, "GET", "/conversations", limit=100, agent=ask.agent),
    "GET search by source": lambda _, ask: _api(
        ask, "GET", "/conversations/search", query=ask.question, source="api", source_id=ask.victim.source_id
    ),
    "GET conversations by source": lambda _, ask: _api(ask, "GET", "/conversations", source_id=ask.victim.source_id),
    "POST conversation again": lambda _, ask: _api(
        ask, "POST", "/conversations", {"source_id": ask.victim.source_id, "title": ask.question}
    ),
    "POST turn by source": lambda _, ask: _api(
        ask,
        "POST",
        f"/conversations/by-source/api/{ask.victim.source_id}/turns",
        {"turn_number": 0, "user": ask.question, "assistant": ask.question},
    ),
    "GET conversation": lambda _, ask: _api(ask, "GET", f"/conversations/{ask.conversation}"),
    "GET export of one": lambda _, ask: _api(ask, "GET", f"/conversations/{ask.conversation}/export", format="json"),
    "GET export": lambda _, ask: _api(ask, "GET", "/conversations/export", format="html", agent=ask.agent),
    "GET export by id": lambda _, ask: _api(ask, "GET", "/conversations/export", id=ask.conversation),
    "GET messages": lambda _, ask: _api(ask, "GET", f"/conversations/{ask.conversation}/messages", turn=ask.turn),
    "PATCH conversation": lambda _, ask: _api(ask, "PATCH", f"/conversations/{ask.conversation}", {"archived": False}),
    "GET memory stats": lambda _, ask: _api(ask, "GET", f"/conversations/{ask.conversation}/memory/stats"),
    "POST memory embed": lambda _, ask: _api(
        ask, "POST", f"/conversations/{ask.conversation}/memory/embed", {"message_ids": [ask.message]}
    ),
    "POST ask": lambda town, ask: _asked(town, ask, ask.caller.key),
    "POST ask with wide key": lambda town, ask: _asked(town, ask, ask.caller.wide_key),
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
    "GET hidden keys": lambda _, ask: _api(ask, "GET", f"/conversations/{ask.conversation}/hidden_keys"),
    "hidden keys of a conversation": lambda _, ask: _keys(ask),
    "POST reveal": lambda _, ask: _api(ask, "POST", f"/hidden_keys/{ask.hidden_key}/reveal"),
    "page revealed key": lambda _, ask: _post(
        ask, f"/conversations/{ask.caller.conversations[0]}/keys", key=ask.hidden_key
    ),
    "page hidden keys": lambda _, ask: _page(ask, f"/conversations/{ask.conversation}/keys"),
    "GET events": lambda _, ask: _api(ask, "GET", "/events", conversation_id=ask.conversation),
    "GET events by words": lambda _, ask: _api(ask, "GET", "/events", query=ask.question),
    "page similar events": lambda _, ask: _similar(ask),
    "page article": lambda _, ask: _file(ask, f"/conversations/{ask.conversation}/article"),
    "page events": lambda _, ask: _page(ask, f"/conversations/{ask.conversation}/events", q=ask.question),
    "GET index status": lambda _, ask: _api(ask, "GET", "/index/status"),
    "MCP turn resource": _turn_resource,
    "MCP recall prompt": _recall_prompt,
    "MCP search of ChatGPT": lambda town, ask: _chatgpt(town, ask, "search", {"query": ask.question}),
    "MCP fetch of ChatGPT": lambda town, ask: _chatgpt(town, ask, "fetch", {"id": f"{ask.conversation}-0"}),
    "GET marks": lambda _, ask: _api(ask, "GET", f"/conversations/{ask.conversation}/marks"),
    "POST mark": lambda _, ask: _api(
        ask,
        "POST",
        f"/conversations/{ask.conversation}/turns/{ask.turn}/mark",
        {"kind": "outdated", "note": ask.caller.secret},
    ),
    "DELETE another's mark": lambda _, ask: _delete_mark(ask),
    "page mark": lambda _, ask: _post(
        ask, f"/conversations/{ask.conversation}/turns/{ask.turn}/mark", kind="outdated", note=_note(ask)
    ),
    "GET tools": lambda _, ask: _api(ask, "GET", "/tools"),
    "GET projects": lambda _, ask: _api(ask, "GET", "/projects"),
    "POST project's end": lambda _, ask: _api(ask, "POST", "/projects/left_off", {"project": ask.victim.secret}),
    "GET project folders": lambda _, ask: _api(ask, "GET", "/projects/folders", project=ask.victim.secret),
    "POST stop": lambda _, ask: _api(ask, "POST", f"/conversations/{ask.conversation}/stop"),
    "DELETE another's conversation": lambda _, ask: _delete(ask, f"/conversations/{ask.conversation}"),
    "DELETE another's agent": lambda _, ask: _delete(ask, f"/agents/{ask.agent_id}"),
    "DELETE another's summary": lambda _, ask: _delete(ask, ask.summary),
    "page running": lambda _, ask: _page(ask, f"/conversations/{ask.conversation}/running"),
    "page attached file": lambda _, ask: _page(ask, "/chat/attach", document=ask.document),
    "page progress": lambda _, ask: _page(ask, "/index/progress"),
    "page search": lambda _, ask: _page(ask, "/search", q=ask.question, mode=ask.mode),
    "page home": lambda _, ask: _page(ask, "/"),
    "page palette": lambda _, ask: _page(ask, "/palette", go=ask.question.split()[-1]),
    "page palette empty": lambda _, ask: _page(ask, "/palette"),
    "page preview of a turn": lambda _, ask: _page(
        ask, f"/search/preview/conversations/{ask.conversation}", turn=ask.turn, q=ask.question
    ),
    "page preview of a section": lambda _, ask: _page(
        ask, f"/search/preview/documents/{ask.document}", section=ask.turn, q=ask.question
    ),
    "page saved searches": lambda _, ask: _page(ask, "/search/saved"),
    "page filters": lambda _, ask: _page(ask, "/search/filters"),
    "page conversation": lambda _, ask: _page(ask, f"/conversations/{ask.conversation}", turn=ask.turn, q=ask.question),
    "page passage": lambda _, ask: _page(
        ask, f"/conversations/{ask.conversation}", turn=ask.turn, m=ask.message, part=0, **{"from": 0, "to": 9}
    ),
    "page part": lambda _, ask: _page(ask, f"/conversations/{ask.conversation}/messages/{ask.turn}/parts/0"),
    "page library": lambda _, ask: _page(ask, "/library", agent=ask.agent),
    "page library by tag": lambda _, ask: _page(ask, "/library", tag=ask.victim.tag),
    "page projects with files": lambda _, ask: _page(ask, "/files"),
    "page files": lambda _, ask: _page(ask, "/files", project=ask.victim.tag, contains=ask.victim.tag),
    "page file": lambda _, ask: _page(ask, f"/files/one?path={ask.victim.tag}.md"),
    "page conversation files": lambda _, ask: _page(ask, f"/conversations/{ask.conversation}/files"),
    "page conversation file": lambda _, ask: _page(
        ask, f"/conversations/{ask.conversation}/files/one?path={ask.victim.tag}.md"
    ),
    "page library by tool": lambda _, ask: _page(ask, "/library", tool=ask.victim.tag, model=ask.victim.tag),
    "page data": lambda _, ask: _page(ask, "/settings/data"),
    "page archive": lambda _, ask: _file(ask, f"/settings/data/archives/{ask.archive}"),
    "page key use": lambda _, ask: _page(ask, f"/settings/keys/{ask.key_id}/use"),
    "page key revoke": lambda _, ask: _page(ask, f"/settings/keys/{ask.key_id}/revoke"),
    "POST share link": lambda _, ask: _api(
        ask, "POST", f"/conversations/{ask.conversation}/share_links", {"audience": "people"}
    ),
    "GET share links": lambda _, ask: _api(ask, "GET", "/share_links", conversation_id=ask.conversation),
    "DELETE another's share link": lambda _, ask: _delete_link(ask),
    "page share": lambda _, ask: _page(ask, f"/conversations/{ask.conversation}/share", turn=ask.turn),
    "page share links": lambda _, ask: _page(ask, "/settings/links"),
    "page share link revoke": lambda _, ask: _page(ask, f"/settings/links/{ask.link_id}/revoke"),
    "page shared": lambda _, ask: _file(
        ask, f"/shared/{ask.caller.link_token}?conversation={ask.conversation}&turn={ask.turn}"
    ),
    "page statistics": lambda _, ask: _page(ask, "/statistics"),
    "page outline": lambda _, ask: _page(ask, f"/conversations/{ask.conversation}/outline", q=ask.question),
    "page find": lambda _, ask: _page(ask, f"/conversations/{ask.conversation}/outline", find=ask.question),
    "page message text": lambda _, ask: _page(ask, f"/conversations/{ask.conversation}/messages/{ask.turn}/text"),
    "page picture": lambda _, ask: _page(ask, f"/conversations/{ask.conversation}/messages/{ask.turn}/parts/0/picture"),
    "POST star": lambda _, ask: _post(ask, f"/conversations/{ask.conversation}/star"),
    "POST pin": lambda _, ask: _post(ask, f"/conversations/{ask.conversation}/pin"),
    "POST tag": lambda _, ask: _post(ask, f"/conversations/{ask.conversation}/tags", add=ask.question[:50]),
    "POST library change": lambda _, ask: _post(
        ask, "/library/change", chosen=ask.conversation, action="tag", tag=ask.caller.tag
    ),
    "POST library export": lambda _, ask: _post(ask, "/library/change", chosen=ask.conversation, action="export"),
    "POST another's library delete": lambda _, ask: (
        _page(ask, "/library")
        if ask.victim is ask.caller
        else _post(ask, "/library/change", chosen=ask.conversation, action="delete")
    ),
    "GET trash": lambda _, ask: _api(ask, "GET", "/trash"),
    "page trash": lambda _, ask: _page(ask, "/trash"),
    "POST another's trash restore": lambda _, ask: _post_to_another(
        ask, "/trash/change", "/trash", action="restore", kind="conversation", id=ask.conversation
    ),
    "page retention rules": lambda _, ask: _page(ask, "/trash/rules"),
    "GET retention rules": lambda _, ask: _api(ask, "GET", "/retention_rules"),
    "GET retention rules of one archive": lambda _, ask: _wide(
        ask, "GET", "/retention_rules", space=ask.victim.user.pk if ask.victim.roles else "mine"
    ),
    "GET retention preview": lambda _, ask: _wide(
        ask,
        "GET",
        "/retention_rules/preview",
        days=1,
        project=f"{ask.victim.tag} {ask.victim.secret}",
        space=ask.victim.user.pk if ask.victim.roles else "mine",
    ),
    "DELETE another's retention rule": lambda _, ask: _delete_rule(ask),
    "GET trash of one archive": lambda _, ask: _wide(
        ask, "GET", "/trash", space=ask.victim.user.pk if ask.victim.roles else "mine"
    ),
    "POST another's retention rule": lambda _, ask: _post_to_another(
        ask,
        "/trash/rules",
        "/trash/rules",
        action="remove",
        id=RetentionRule.objects.get(archive_id=ask.victim.user.pk).pk,
    ),
    "DELETE another's trash": lambda _, ask: (
        _api(ask, "GET", "/trash")
        if ask.victim is ask.caller
        else _api(ask, "DELETE", f"/trash/document/{ask.document}")
    ),
    "page hits in": lambda _, ask: _page(ask, "/search/hits-in", q=ask.question, conversation=ask.conversation),
    "page delete": lambda _, ask: _page(ask, f"/conversations/{ask.conversation}/delete"),
    "page summaries": lambda _, ask: _page(ask, f"/conversations/{ask.conversation}/summaries"),
    "page summary": lambda _, ask: _page(ask, ask.summary),
    "page agents": lambda _, ask: _page(ask, "/agents"),
    "page agent": lambda _, ask: _page(ask, f"/agents/{ask.agent_id}"),
    "POST check endpoint": lambda _, ask: _post(
        ask, f"/agents/{ask.agent_id}/check", base_url="http://127.0.0.1:9/v1", model=ask.caller.secret
    ),
    "page edit question": lambda _, ask: _page(ask, ask.asked),
    "page new chat": lambda _, ask: _page(ask, "/chat"),
    "page reply": lambda _, ask: _page(ask, ask.reply),
    "page context": lambda _, ask: _page(ask, f"/conversations/{ask.conversation}/context", agent=ask.agent_id),
    "GET search of both": lambda _, ask: _api(ask, "GET", "/search", query=ask.question, limit=50, mode=ask.mode),
    "GET search of sections": lambda _, ask: _api(
        ask, "GET", "/documents/search", query=ask.question, limit=50, mode=ask.mode
    ),
    "GET search in a document": lambda _, ask: _api(
        ask, "GET", "/documents/search", query=ask.question, document_id=ask.document
    ),
    "GET search in attached documents": lambda _, ask: _api(
        ask, "GET", "/documents/search", query=ask.question, conversation_id=ask.conversation
    ),
    "GET documents": lambda _, ask: _api(ask, "GET", "/documents"),
    "GET document": lambda _, ask: _api(ask, "GET", f"/documents/{ask.document}"),
    "GET attached documents": lambda _, ask: _api(ask, "GET", f"/conversations/{ask.conversation}/documents"),
    "POST attached documents": lambda _, ask: _api(
        ask, "POST", f"/conversations/{ask.conversation}/documents", {"document_ids": [ask.document]}
    ),
    "GET documents of agent": lambda _, ask: _api(ask, "GET", f"/agents/{ask.agent_id}/documents"),
    "POST documents of agent": lambda _, ask: _api(
        ask, "POST", f"/agents/{ask.agent_id}/documents", {"document_ids": [ask.document]}
    ),
    "page documents": lambda _, ask: _page(ask, "/documents"),
    "page document": lambda _, ask: _page(ask, f"/documents/{ask.document}", section=ask.turn),
    "page document page": lambda _, ask: _page(ask, f"/documents/{ask.document}/pages/{ask.turn + 1}"),
    "page document picture": lambda _, ask: _download(ask, f"/documents/{ask.document}/pages/{ask.turn + 1}.webp"),
    "page document card": lambda _, ask: _page(ask, f"/documents/{ask.document}/card"),
    "page document delete": lambda _, ask: _page(ask, f"/documents/{ask.document}/delete"),
    "page document file": lambda _, ask: _download(ask, f"/documents/{ask.document}/file"),
    "page another's document retry": lambda _, ask: _post_to_another(
        ask, f"/documents/{ask.document}/retry", f"/documents/{ask.document}/card"
    ),
    "page another's document delete": lambda _, ask: _post_to_another(
        ask, f"/documents/{ask.document}/delete", f"/documents/{ask.document}/delete"
    ),
    "page documents of agent": lambda _, ask: _page(ask, f"/agents/{ask.agent_id}/documents"),
    "page attach to another's agent": lambda _, ask: _post_to_another(
        ask, f"/agents/{ask.agent_id}/documents", f"/agents/{ask.agent_id}/documents", document=ask.document
    ),
    "page detach in another's conversation": lambda _, ask: _post_to_another(
        ask,
        f"/conversations/{ask.conversation}/documents",
        f"/conversations/{ask.conversation}/documents",
        detach=ask.document,
    ),
    "DELETE another's attached document": lambda _, ask: _detach(ask, f"/conversations/{ask.conversation}/documents"),
    "DELETE another's document of agent": lambda _, ask: _detach(ask, f"/agents/{ask.agent_id}/documents"),
    "page attached documents": lambda _, ask: _page(ask, f"/conversations/{ask.conversation}/documents"),
    "DELETE another's document": lambda _, ask: _delete(ask, f"/documents/{ask.document}"),
    "GET imports": lambda _, ask: _api(ask, "GET", "/imports"),
    "GET events of one archive": lambda _, ask: _wide(
        ask, "GET", "/events", space=ask.victim.user.pk if ask.victim.roles else "mine"
    ),
    "GET projects of one archive": lambda _, ask: _wide(
        ask, "GET", "/projects", space=ask.victim.user.pk if ask.victim.roles else "mine"
    ),
    "GET imports of one archive": lambda _, ask: _wide(
        ask, "GET", "/imports", space=ask.victim.user.pk if ask.victim.roles else "mine"
    ),
    "GET spaces": lambda _, ask: _wide(ask, "GET", "/spaces"),
    "POST conversation to another's space": lambda _, ask: _store(ask),
    "GET import": lambda _, ask: _api(ask, "GET", f"/imports/{ask.import_id}"),
    "POST another's import undo": lambda _, ask: _undo(ask, f"/imports/{ask.import_id}"),
    "POST another's import mapping": lambda _, ask: _post_to_another(
        ask, f"/import/{ask.import_id}/mapping", f"/import/{ask.import_id}", role="role", text="content"
    ),
    "page import": lambda _, ask: _page(ask, "/import"),
    "page one import": lambda _, ask: _page(ask, f"/import/{ask.import_id}"),
    "page account": lambda _, ask: _page(ask, "/settings/account/delete"),
    "page sessions": lambda _, ask: _page(ask, "/settings/sessions"),
    "page keys": lambda _, ask: _page(ask, "/settings/keys"),
    "page connect": lambda _, ask: _page(ask, "/settings/connect"),
    "page spaces": lambda _, ask: _page(ask, "/spaces"),
    "page one space": lambda _, ask: _page(ask, f"/spaces/{ask.victim.user.pk}"),
    "POST own role": lambda _, ask: _post_role(ask),
    "POST another's invitation": lambda _, ask: _post_invitation(ask),
    "POST moves": lambda _, ask: _api(ask, "POST", "/moves", {"kind": "conversation", "id": ask.conversation}),
    "POST another's move": lambda _, ask: _post_to_another(
        ask, "/move", f"/move?conversation={ask.conversation}", conversation=str(ask.conversation)
    ),
    "page recall": lambda _, ask: _page(ask, "/recall", query=ask.question, top_k=20, max_tokens=20_000),
}
IN_SPACES = ("/", "/search", "/library", "/documents", "/import", "/statistics", "/palette", "/recall")
ROUTES |= {f"page {path} in space": _page_in_space(path) for path in IN_SPACES}
WAYS: dict[str, Callable[[str], Surface]] = {
    "tool {}": _tool,
    "POST tool {}": _tool_route,
    "POST tool {} with wide key": _tool_route_with_wide_key,
    f"MCP {{}} {YEAR_BEFORE}": lambda name: _mcp(name, YEAR_BEFORE),
    f"MCP {{}} {TODAY}": lambda name: _mcp(name, TODAY),
    "MCP {} with wide key": lambda name: _mcp(name, TODAY, is_wide=True),
}
TOOL_OF = {way.format(tool): tool for way in WAYS for tool in TOOLS}
SURFACES: dict[str, Surface] = ROUTES | {way.format(tool): WAYS[way](tool) for way in WAYS for tool in TOOLS}

OTHER_WAYS = ("POST tool {}", "POST tool {} with wide key", f"MCP {{}} {YEAR_BEFORE}", f"MCP {{}} {TODAY}")
ONE_WAY_EACH = SURFACES.keys() - {way.format(tool) for way in OTHER_WAYS for tool in TOOLS}
"""All routes, and each tool called directly and, over MCP, with a key that reads all spaces."""
