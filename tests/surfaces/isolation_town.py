"""The people of the isolation test: four worlds of two, three, four and five users in one database.

Every text of a user holds the user's tag and secret, words that stand nowhere else. Any user may ask for a tag; a
secret is never asked for, so one in an answer to another user is a leak. Every text in a trash holds `TRASHED`, which
only the surfaces of the trash may show, to its owner.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx2
from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.test import Client
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import create_key
from convmemory.accounts.models import ApiKey, Archive
from convmemory.accounts.space_invitations import invite
from convmemory.accounts.spaces import create_space, remove_member
from convmemory.chat.agents import attach_to_agent, create_agent
from convmemory.chat.models import Reply
from convmemory.conversations.curating import add_tag
from convmemory.conversations.importing.models import Import
from convmemory.conversations.marking import set_mark
from convmemory.conversations.messages.drafts import EventDraft, MessageDraft
from convmemory.conversations.messages.event_log import add_events
from convmemory.conversations.messages.ingest import delete_conversation
from convmemory.conversations.messages.parts import ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation, Event, HiddenKey, Message
from convmemory.conversations.sharing import create_link
from convmemory.core.acting import in_archive_of
from convmemory.core.encryption import encrypt
from convmemory.core.marks import Mark
from convmemory.documents.library import attach, delete_document
from convmemory.documents.storage import document_storage
from convmemory.ops.models import OwnArchive
from convmemory.retention.models import RetentionRule
from search.adapters.conversations import index_conversation
from summaries.models import ConversationSummary
from tests.factories import add_member, caller_for, exchange, make_conversation, make_user
from tests.support.documents import indexed, upload

TOPICS = (
    "sourdough starter", "night train to Vienna", "billing deadlock", "queue worker memory leak", "JWT login",
    "balcony tomatoes", "half marathon plan", "nginx websocket proxy", "rental contract", "ukulele chords",
)  # fmt: skip
SIZES = (2, 3, 4, 5)
SPACES = (("onyx", "oriole"), ("pyrite", "puffin"), ("quartz", "quail"))
"""The tag and the secret of the space of each world of three or more people."""
TAGS = (
    "agate", "basalt", "cobalt", "dolomite", "emerald", "feldspar", "garnet", "hematite", "iridium", "jasper",
    "kyanite", "lazurite", "malachite", "obsidian",
)  # fmt: skip
SECRETS = (
    "albatross", "bittern", "cormorant", "dunlin", "egret", "flamingo", "goshawk", "hornbill", "ibis", "jackdaw",
    "kestrel", "lapwing", "merganser", "nuthatch",
)  # fmt: skip
TRASHED = "vanadinite"
QUESTIONS = ("how do I fix the {}?", "what did we decide about the {}?", "{}", "tell me about the {} again")


@dataclass
class Person:
    """A user or a space, their ways in, what is theirs, and the words by which it is known.

    Of a space `roles` are its members' ids with their roles, `invited` the ids of those who have not accepted, and a
    space asks nothing itself.

    `wide_key` also reads all their spaces. `tag` and `secret` are in every text of the user. Any user may ask for a
    tag, so an answer may repeat it; no user asks for a secret.
    """

    user: User | Archive
    tag: str
    secret: str
    key: str
    key_id: int
    program: Client
    browser: Client
    wide_key: str = ""
    link_id: int = 0
    link_token: str = ""
    conversations: list[int] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)
    agents: list[int] = field(default_factory=list)
    summaries: list[tuple[int, int]] = field(default_factory=list)
    replies: list[tuple[int, int]] = field(default_factory=list)
    asked: list[tuple[int, int]] = field(default_factory=list)
    imports: list[int] = field(default_factory=list)
    documents: list[int] = field(default_factory=list)
    archives: list[int] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    hidden_keys: list[int] = field(default_factory=list)
    roles: dict[int, str] = field(default_factory=dict)
    invited: frozenset[int] = frozenset()

    @property
    def acting(self) -> Caller:
        return caller_for(self.user)

    @property
    def account(self) -> User:
        assert isinstance(self.user, User)
        return self.user

    def is_read_by(self, person: "Person") -> bool:
        return person is self or person.user.pk in self.roles

    def is_changed_by(self, person: "Person") -> bool:
        return person is self or self.roles.get(person.user.pk, "reader") != "reader"

    @property
    def source_id(self) -> str:
        """Of the first of their conversations, by their own count."""
        return f"of-{self.tag}"


@dataclass(frozen=True)
class Town:
    """All users of all worlds, and a server that they reach over HTTP."""

    worlds: list[list[Person]]
    spaces: list[Person]
    http: httpx2.Client

    def others(self, caller: Person) -> list[Person]:
        """Return the users and spaces of which the caller may see nothing."""
        everybody = [*(person for world in self.worlds for person in world), *self.spaces]
        return [person for person in everybody if not person.is_read_by(caller)]


def settle_worlds() -> tuple[list[list[Person]], list[Person]]:
    """Make and index all users and their spaces; the same on every run."""
    draw = random.Random(20260101)
    names = zip(TAGS, SECRETS, strict=True)
    worlds = [[_settle(draw, *next(names)) for _ in range(size)] for size in SIZES]
    shared = [world for world in worlds if len(world) > 2]
    return worlds, [_settle_space(draw, world, *words) for world, words in zip(shared, SPACES, strict=True)]


def _settle_space(draw: random.Random, world: list[Person], tag: str, secret: str) -> Person:
    """A space with a manager, a reader, a former member, and a contributor if there are enough people.

    All others of the world are invited, and so is the former member again.
    """
    manager, reader, former, *others = (person.account for person in world)
    account = create_space(person=manager, name=f"{tag} {secret}")
    roles = {manager.pk: "manager", reader.pk: "reader"} | {user.pk: "contributor" for user in others[:1]}
    for user in (reader, former, *others[:1]):
        add_member(person=manager, space_id=account.pk, username=user.username, role=roles.get(user.pk, "manager"))
    remove_member(person=manager, space_id=account.pk, member_id=former.pk)
    invited = [former, *others[1:]]
    for user in invited:
        invite(person=manager, space_id=account.pk, username=user.username, role="manager")
    ids = frozenset(user.pk for user in invited)
    space = Person(account, tag, secret, "", 0, Client(), Client(), roles=roles, invited=ids)
    with in_archive_of(account.pk):
        _fill(draw, space, f"{tag} {secret}")
    return space


def _settle(draw: random.Random, tag: str, secret: str) -> Person:
    user = make_user()
    key, browser = create_key(person=user), Client()
    browser.force_login(user)
    key_id = ApiKey.objects.get(person=user).pk
    person = Person(user, tag, secret, key, key_id, Client(headers={"Authorization": f"Bearer {key}"}), browser)
    person.wide_key = create_key(person=user, space_ids=None)
    with in_archive_of(user.pk):
        _fill(draw, person, f"{tag} {secret}")
    return person


def _repaired(number: int, tag: str) -> Iterator[MessageDraft]:
    """A command that fails, and then passes."""
    for attempt, result in enumerate((f"error: cannot find the module {tag}", "12 passed")):
        name = f"run-{number}-{attempt}"
        yield MessageDraft(role="assistant", parts=(ToolCallPart(name, "Bash", {"command": "make test"}),))
        yield MessageDraft(role="user", parts=(ToolResultPart(name, result, is_error=not attempt),))


def _fill(draw: random.Random, person: Person, words: str) -> None:
    user, tag, secret = person.user, person.tag, person.secret
    for number in range(draw.randint(1, 3)):
        pairs = [_pair(draw, words) for _ in range(draw.randint(1, 3))]
        edit = ToolCallPart(f"edit-{number}", "Write", {"file_path": f"/{secret}/{tag}.md", "content": words})
        made = make_conversation(
            user, [*exchange(*pairs), MessageDraft(role="assistant", parts=(edit,)), *_repaired(number, tag)],
            title=f"{words} {draw.choice(TOPICS)}", agent=f"agent-{tag}", project=secret if number else tag,
            source="api", source_id="" if number else person.source_id,
        )  # fmt: skip
        index_conversation(conversation_id=made.pk)
        add_tag(caller=person.acting, conversation_ids=[made.pk], name=words)
        set_mark(caller=person.acting, conversation_id=made.pk, turn_number=0, mark=Mark("outdated", words))
        person.conversations.append(made.pk)
        _talk(person, made, words)
        _log(person, made, words)
        _hide_key(person, made, words)
    link, person.link_token = create_link(
        caller=person.acting, conversation_id=person.conversations[0], turn=None, days=1, audience="people"
    )
    person.link_id = link.id
    report = {"files": [{"path": f"{words}.jsonl", "errors": [words]}], "total": {}}
    row = Import.objects.create(
        archive_id=user.pk, name=f"{words}.zip", size=1, state="failed", error=words, report=report
    )
    person.imports.append(row.pk)
    if isinstance(user, User):
        archive = OwnArchive.objects.create(person=user, state="done", file=f"archives/{user.pk}/{secret}.zip")
        document_storage().save(archive.file.name, ContentFile(words.encode()))
        person.archives.append(archive.pk)
    _add_document(draw, person, words)
    _trash(draw, person, f"{words} {TRASHED}")
    RetentionRule.objects.create(archive_id=user.pk, project=words, days=30_000)
    person.messages = list(Message.objects.filter(archive_id=user.pk).values_list("pk", flat=True))


def _trash(draw: random.Random, person: Person, words: str) -> None:
    """Store and index a conversation with all that can belong to one, and a document, and delete both."""
    made = make_conversation(person.user, exchange(_pair(draw, words)), title=words, agent=words, project=words)
    index_conversation(conversation_id=made.pk)
    add_tag(caller=person.acting, conversation_ids=[made.pk], name=words)
    set_mark(caller=person.acting, conversation_id=made.pk, turn_number=0, mark=Mark("outdated", words))
    _log(person, made, words)
    now = timezone.now()
    summary = ConversationSummary.objects.create(
        archive_id=person.user.pk, conversation=made, from_position=0, to_position=0, status="completed",
        method="extractive", content=f"They spoke of {words}.", due_at=now, completed_at=now,
    )  # fmt: skip
    person.summaries.append((made.pk, summary.pk))
    person.conversations.append(made.pk)
    document = indexed(upload(person.user, f"# {words}\n\n{_pair(draw, words)[1]}", f"{words}.md"))
    attach(caller=person.acting, conversation_id=person.conversations[0], document_ids=[document.pk])
    person.documents.append(document.pk)
    delete_conversation(caller=person.acting, conversation_id=made.pk)
    delete_document(caller=person.acting, document_id=document.pk)


def _add_document(draw: random.Random, person: Person, words: str) -> None:
    """A document, indexed and attached to the first conversation and to all agents."""
    said = "\n\n".join(f"## {words} {topic}\n\n{_pair(draw, words)[1] * 3}" for topic in draw.sample(TOPICS, 3))
    document = indexed(upload(person.user, said, f"{words}.md"))
    attach(caller=person.acting, conversation_id=person.conversations[0], document_ids=[document.pk])
    for agent_id in person.agents:
        attach_to_agent(caller=person.acting, agent_id=agent_id, document_ids=[document.pk])
    person.documents.append(document.pk)


def _talk(person: Person, conversation: Conversation, words: str) -> None:
    """Store an agent, a summary, and a reply whose context was cut, as chatting does."""
    agent = create_agent(
        caller=person.acting,
        values={
            "name": f"{words} {conversation.pk}",
            "system_prompt": f"Speak of {words}.",
            "context_strategies": ["summary_boundary", "resurrection"],
        },
    )
    person.agents.append(agent.pk)
    now = timezone.now()
    summary = ConversationSummary.objects.create(
        archive_id=person.user.pk, conversation=conversation, from_position=0, to_position=0, status="completed",
        method="extractive", content=f"They spoke of {words}.", due_at=now, completed_at=now,
    )  # fmt: skip
    person.summaries.append((conversation.pk, summary.pk))
    steps = [{"name": words, "removed_ids": [], "shortened_ids": [], "tokens_before": 9, "tokens_after": 5}]
    question = conversation.messages.order_by("position")[0]
    reply = Reply.objects.create(
        archive_id=person.user.pk, conversation=conversation, agent=agent, model=words, status="done", ended_at=now,
        question=question,
        context={"strategies": steps, "tokens_before": 9, "tokens_after": 5, "window": 10, "removed_ids": []},
    )  # fmt: skip
    person.replies.append((conversation.pk, reply.pk))
    person.asked.append((conversation.pk, question.pk))


def _log(person: Person, conversation: Conversation, words: str) -> None:
    """Store two errors that differ in a number alone."""
    failed = [
        EventDraft(line, "tool:error", level="ERROR", turn_number=0, payload={"error": f"{words}: exit code {line}"})
        for line in (1, 2)
    ]
    add_events(conversation, failed)
    rows = Event.objects.filter(archive_id=person.user.pk, conversation=conversation)
    person.events += rows.values_list("pk", flat=True)


def _hide_key(person: Person, conversation: Conversation, words: str) -> None:
    """Store a key of the first message, whose kind is the words, too, as lists show nothing else of it."""
    key = HiddenKey.objects.create(
        archive_id=person.user.pk, message=conversation.messages.order_by("position")[0], number=1, kind=words,
        value_encrypted=encrypt(words),
    )  # fmt: skip
    person.hidden_keys.append(key.pk)


def _pair(draw: random.Random, words: str) -> tuple[str, str]:
    topic = draw.choice(TOPICS)
    question = draw.choice(QUESTIONS).format(topic)
    return f"{words} {question}", f"{words} about the {topic}: step {draw.randrange(100)} is the one that matters."
