"""Random requests of the isolation test: who asks, about whose rows, and with which arguments of tools."""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from convmemory.core.errors import NotFound
from convmemory.tools.registry import run_tool, tool_named
from tests.support.tool_arguments import arguments_for
from tests.surfaces.isolation_town import QUESTIONS, TOPICS, Person, Town

UNKNOWN = ("There is no conversation", "There is no document", "There is no space")


@dataclass(frozen=True)
class Ask:
    """A random request of one caller to some surfaces; ids are the victim's, who is at times the caller.

    `arguments` are a tool's, by its name, the same for every way of calling it.
    """

    caller: Person
    victim: Person
    question: str
    conversation: int
    message: int
    turn: int
    agent: str
    agent_id: int
    summary: str
    reply: str
    asked: str
    import_id: int
    archive: int
    key_id: int
    link_id: int
    document: int
    mode: str
    event: int
    hidden_key: int
    arguments: dict[str, dict[str, Any]] = field(default_factory=dict)


Answer = tuple[int, bytes]
Surface = Callable[[Town, Ask], Answer]


def draw_ask(town: Town, random: Random, tools: Iterable[str], is_own: bool | None = None) -> Ask:
    """Draw a request, with arguments of these tools: about the caller's own rows, those of another whom the caller
    may not read, or either.
    """
    world = random.choice(town.worlds)
    caller, victim = random.choice(world), random.choice(world)
    spaces = [space for space in town.spaces if not space.roles.keys().isdisjoint({one.user.pk for one in world})]
    if spaces and random.random() < 0.5:
        victim = spaces[0]
    if is_own is not None:
        victim = caller if is_own else random.choice(town.others(caller))
    tag = random.choice(["", "", f" {victim.tag}", f' "{victim.tag}"'])
    question = random.choice(QUESTIONS).format(random.choice(TOPICS))
    ask = Ask(
        caller=caller,
        victim=victim,
        question=question + tag,
        conversation=random.choice(victim.conversations),
        message=random.choice(victim.messages),
        turn=random.randint(0, 3),
        agent=random.choice(["", f"agent-{victim.tag}"]),
        agent_id=random.choice(victim.agents),
        summary="/conversations/{}/summaries/{}".format(*random.choice(victim.summaries)),
        reply="/conversations/{}/replies/{}".format(*random.choice(victim.replies)),
        asked="/conversations/{}/questions/{}/edit".format(*random.choice(victim.asked)),
        import_id=random.choice(victim.imports),
        archive=random.choice(victim.archives or caller.archives),  # a space has none
        key_id=victim.key_id,
        link_id=victim.link_id,
        document=random.choice(victim.documents),
        mode=random.choice(["hybrid", "semantic", "full_text"]),
        event=victim.events[0],  # the last ones are in the trash
        hidden_key=random.choice(victim.hidden_keys),
    )
    for tool in sorted(set(tools)):
        ask.arguments[tool] = _draw_arguments(random, ask, tool)
    return ask


def _draw_arguments(random: Random, ask: Ask, tool: str) -> dict[str, Any]:
    """Return arguments that the tool's schema allows; at times with the cursor that the victim got for the question."""
    messages = ask.victim.messages
    known: dict[str, Callable[[], Any]] = {
        "query": lambda: ask.question,
        "conversation_id": lambda: ask.conversation,
        "document_id": lambda: ask.document,
        "agent": lambda: ask.agent,
        "space": lambda: random.choice(["", "", "mine", str(ask.victim.user.pk)]),
        "project": lambda: random.choice(["", ask.caller.secret, ask.victim.tag]),
        "file": lambda: random.choice([f"{ask.victim.tag}.md", f"{ask.caller.tag}.md:1"]),
        "error": lambda: f"error: cannot find the module {ask.victim.tag}",
        "text": lambda: random.choice(["", ask.victim.tag]),
        "similar_to": lambda: random.choice(ask.victim.events),
        "words": lambda: random.choice(["", ask.victim.tag, "exit code"]),
        "level": lambda: random.choice(["", "ERROR"]),
        "after_id": lambda: random.choice([0, ask.victim.events[0]]),
        "alive_message_ids": lambda: random.sample(messages, random.randint(0, min(3, len(messages)))),
    }
    schema = tool_named(tool).input_schema
    arguments = arguments_for(random, schema, known)
    if "cursor" in schema["properties"] and random.random() < 0.25 and not ask.victim.roles:
        for name in {"limit", "max_tokens"} & set(schema["properties"]):  # so that there is a next page
            arguments[name] = schema["properties"][name]["minimum"]
        with suppress(NotFound):  # of something in the trash
            if cursor := run_tool(tool, arguments, ask.victim.acting.alone()).get("next_cursor"):
                arguments["cursor"] = cursor
    return arguments


def is_refused(answer: Answer) -> bool:
    """Return whether a tool refused its arguments. An unknown conversation is reported only for accepted arguments."""
    status, body = answer
    if body.startswith(b'{"jsonrpc"'):
        result = json.loads(body)["result"]
        return bool(result.get("isError")) and not result["content"][0]["text"].startswith(UNKNOWN)
    return status == 422
