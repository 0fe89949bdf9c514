"""The model that can answer a question on the search page, and the request that asks it."""

import json
from typing import TYPE_CHECKING

from django import template

from convmemory.chat.asking import MAX_ASK_TOKENS, answering_agent

if TYPE_CHECKING:
    from convmemory.accounts.pages import PageRequest
    from convmemory.conversations.pages.search_box import SearchBox

register = template.Library()


@register.simple_tag
def asking_of(request: "PageRequest", box: "SearchBox") -> dict[str, str] | None:
    """Return the body of `POST /api/v1/ask` for a box, the model and the most tokens.

    None without a model, and where the box has filters that the route does not take: several programs, projects or
    sources, and conditions such as `title:`.
    """
    names = {name: getattr(box, name) for name in ("agent", "project", "source")}
    is_plain = all(len(each) <= 1 for each in names.values()) and not box.conditions
    agent = answering_agent(request.caller) if is_plain else None
    if agent is None:
        return None
    space = request.caller.space
    body = {
        "question": box.q,
        "mode": box.mode,
        "scope": ",".join(box.scope),
        "kind": box.kind,
        "when": box.when,
        "space": str(space.archive_id) if space else box.space_named or box.space,
        "archived": box.archived,
        **{name: "".join(each) for name, each in names.items()},
        **({"after": f"{box.after}T00:00:00"} if box.after else {}),
        **({"before": f"{box.before}T23:59:59.999999"} if box.before else {}),
    }
    return {"body": json.dumps(body), "model": agent.endpoint.model, "max_tokens": f"{MAX_ASK_TOKENS:,}"}
