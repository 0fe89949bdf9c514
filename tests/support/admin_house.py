"""A person with one indexed conversation, and those who administer: for tests of the admin."""

from dataclasses import dataclass

from django.contrib.auth.models import Permission, User
from django.test import Client, override_settings

from convmemory.accounts.keys import create_key
from convmemory.accounts.quota import reserve
from convmemory.chat.agents import create_agent
from convmemory.chat.models import Agent, CapturedHistory, Reply
from convmemory.conversations.models import Conversation
from search.adapters.conversations import index_conversation
from summaries.models import ConversationSummary
from summaries.ordering import request_summary
from tests.factories import caller_for, exchange, make_conversation, make_user
from tests.support.stored_rows import stored_for_file

ADDRESS = "https://marmoset.example/v1"


@dataclass(frozen=True)
class House:
    """A person with one indexed conversation, and those who administer."""

    ada: User
    conversation: Conversation
    staff: User
    reader: User
    root: User


@override_settings(CHAT_ALLOWED_HOSTS=["marmoset.example"])
def store_house() -> House:
    ada = make_user("ada")
    pairs = [("does zebrawood warp?", "A quokka would know."), ("and zebrawood glue?", "The quokka says yes.")]
    words = {"title": "Heartbreak", "project": "projects/divorce", "agent": "quokka"}
    conversation = make_conversation(ada, exchange(*pairs), **words)
    summary = request_summary(caller=caller_for(ada), conversation_id=conversation.pk, method="extractive")
    ConversationSummary.objects.filter(pk=summary.pk).update(content="All about zebrawood.", status="completed")
    index_conversation(conversation_id=conversation.pk)
    chat(ada, conversation)
    create_key(person=ada, name="zebrawood laptop")
    reserve(archive_id=ada.pk, person_id=ada.pk, tokens=100)
    staff = User.objects.create_user("steve", password="x", is_staff=True)
    reader = User.objects.create_user("rita", password="x", is_staff=True)
    reader.user_permissions.add(read_content_permission())
    root = User.objects.create_superuser("root", password="x")
    return House(ada, conversation, staff, reader, root)


def chat(owner: User, conversation: Conversation) -> None:
    """Create an agent with a key, a running reply of it, and a history that the proxy continues."""
    values = {"name": "quokka", "system_prompt": "Only zebrawood.", "model": "some-model"}
    agent = create_agent(caller=caller_for(owner), values=values | {"base_url": ADDRESS, "api_key": "sk-zebrawood"})
    assert agent.api_key_encrypted
    step = {"name": "token_budget", "removed_ids": [1], "shortened_ids": [], "tokens_before": 9, "tokens_after": 5}
    said = {"role": "assistant", "model": "", "created_at": None, "parts": [{"type": "text", "text": "zebrawood is"}]}
    Reply.objects.create(
        archive_id=owner.pk, conversation=conversation, agent=agent, model="some-model", partial=[said],
        error="quokka: too many requests", context={"strategies": [step]},
    )  # fmt: skip
    CapturedHistory.objects.create(archive_id=owner.pk, conversation=conversation, history_hash=bytes(32))


def read_content_permission() -> Permission:
    return Permission.objects.get(content_type__app_label="accounts", codename="read_content")


def keys_of_agents() -> list[str]:
    return ["sk-", *Agent.objects.values_list("api_key_encrypted", flat=True)]


def grant(user: User, name: str) -> None:
    app, codename = name.split(".")
    user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))


def client_of(user: User | None) -> Client:
    client = Client()
    if user:
        client.force_login(user)
    return client


house = stored_for_file(store_house)
