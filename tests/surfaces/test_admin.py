"""The admin: who sees it, what it never shows, what it costs, and what its actions do."""

from collections.abc import Iterator

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries, Settings

from convmemory.accounts.models import ApiKey, AuditEntry
from convmemory.chat.agents import create_agent, options_of
from convmemory.chat.models import Agent, Reply
from convmemory.conversations.messages.parts import part_text
from convmemory.conversations.models import Conversation
from convmemory.core.administration.metadata import MetadataAdmin
from convmemory.core.errors import SwitchedOff
from memory.models import MessageEmbedding
from search.adapters.conversations import index_conversation
from search.models import Item, ItemEmbedding, PassageBlock, Source, SourceIndex
from summaries.models import ConversationSummary
from tests.factories import caller_for, exchange, make_conversation, make_user
from tests.support.admin_house import ADDRESS, House, chat, client_of, grant, keys_of_agents, read_content_permission
from tests.support.queue import drop_all, queued

pytestmark = pytest.mark.django_db

SECRETS = ("zebrawood", "quokka", "Heartbreak", "projects/divorce", "marmoset.example")
CHANGELISTS = (
    "accounts_apikey",
    "accounts_modeluse",
    "accounts_quota",
    "accounts_groupquota",
    "conversations_storeduse",
    "accounts_auditentry",
    "conversations_conversation",
    "conversations_message",
    "conversations_event",
    "embeddings_embeddingspace",
    "embeddings_cachedvector",
    "memory_messageembedding",
    "search_passageblock",
    "search_itemembedding",
    "search_item",
    "search_source",
    "search_sourceindex",
    "summaries_conversationsummary",
    "chat_agent",
    "chat_reply",
    "chat_capturedhistory",
    "accounts_sharelink",
    "sign_in_linkedidentity",
    "ops_erasure",
    "ops_sweeprun",
    "ops_indexsample",
)
MOST_QUERIES = 8  # session, user, count, rows, spaces of the filter, and what a filter looks up


@pytest.fixture(autouse=True)
def hosts_of_agents(settings: Settings) -> None:
    settings.CHAT_ALLOWED_HOSTS = ["marmoset.example", "staff.example"]


def pages_of(house: House) -> Iterator[tuple[str, str]]:
    """(metadata page, content page) of everything that holds content."""
    rows = [
        ("conversations_conversation", house.conversation.pk),
        ("conversations_message", house.conversation.messages.order_by("pk")[0].pk),
        ("search_passageblock", PassageBlock.objects.order_by("pk")[0].pk),
        ("search_itemembedding", ItemEmbedding.objects.order_by("pk")[0].pk),
        ("search_item", Item.objects.order_by("pk")[0].pk),
        ("summaries_conversationsummary", ConversationSummary.objects.order_by("pk")[0].pk),
        ("chat_agent", Agent.objects.order_by("pk")[0].pk),
        ("chat_reply", Reply.objects.order_by("pk")[0].pk),
    ]
    for name, pk in rows:
        yield reverse(f"admin:{name}_change", args=[pk]), reverse(f"admin:{name}_content", args=[pk])


def changelist(name: str) -> str:
    return reverse(f"admin:{name}_changelist")


def test_message_page_shows_kinds_of_content_without_text(house: House) -> None:
    message = house.conversation.messages.order_by("pk")[0]
    (part, *_) = message.typed_parts
    page = client_of(house.staff).get(reverse("admin:conversations_message_change", args=[message.pk])).content.decode()
    assert "Has thinking" in page
    assert f"text {len(part_text(part)):,}" in page
    assert part_text(part) not in page


@pytest.mark.parametrize("who", ["nobody", "ada"])
def test_admin_is_for_staff(house: House, who: str) -> None:
    client = client_of(house.ada if who == "ada" else None)
    content_pages = [page for pair in pages_of(house) for page in pair]
    for page in [*map(changelist, CHANGELISTS), *content_pages]:
        answer = client.get(page)
        assert answer.status_code == 302, page
        assert "/admin/login/" in answer.headers["Location"]


@pytest.mark.parametrize("who", ["staff", "root", "reader"])
def test_metadata_pages_hold_no_content(house: House, who: str) -> None:
    client = client_of(getattr(house, who))
    object_pages = [metadata for metadata, _ in pages_of(house)]
    object_pages.append(reverse("admin:chat_capturedhistory_change", args=[house.conversation.pk]))
    history = reverse("admin:conversations_conversation_history", args=[house.conversation.pk])
    for page in [*map(changelist, CHANGELISTS), *object_pages, history, reverse("admin:index")]:
        answer = client.get(page)
        assert answer.status_code == 200, page
        text = answer.content.decode()
        assert not [secret for secret in (*SECRETS, *keys_of_agents()) if secret in text], page
    assert not AuditEntry.objects.filter(action="read").exists()


@pytest.mark.parametrize("who", ["staff", "root"])
def test_content_needs_permission_also_of_superuser(house: House, who: str) -> None:
    client = client_of(getattr(house, who))
    for metadata, content in pages_of(house):
        assert content not in client.get(metadata).content.decode()
        assert client.get(content).status_code == 403
        assert client.post(content).status_code == 403
    assert not AuditEntry.objects.filter(action="read").exists()


def test_links_to_items_lead_their_owner_to_page_and_others_to_question(house: House) -> None:
    item = Item.objects.filter(source__object_id=house.conversation.pk).order_by("number")[0]
    link = reverse("admin:search_item_open", args=["conversation", house.conversation.pk, item.number])
    asked = reverse("admin:search_item_content", args=[item.pk])
    assert client_of(house.staff).get(link).headers["Location"] == asked
    refused = client_of(house.staff).get(asked)
    assert refused.status_code == 403
    assert "may not read it" in refused.content.decode()
    assert "Can read other people" in refused.content.decode()
    assert "is recorded with your name" in client_of(house.reader).get(link, follow=True).content.decode()
    User.objects.filter(pk=house.ada.pk).update(is_staff=True, is_superuser=True)
    page = f"/conversations/{house.conversation.pk}?turn={item.number}"
    assert client_of(house.ada).get(link).headers["Location"] == page
    assert client_of(house.ada).get(link.replace(str(house.conversation.pk), "999999")).status_code == 404
    assert not AuditEntry.objects.filter(action="read").exists()


def test_neighbour_texts_are_shown_to_permitted_readers_and_owner(house: House) -> None:
    vector = ItemEmbedding.objects.filter(archive_id=house.ada.pk).order_by("pk")[0]
    metadata = reverse("admin:search_itemembedding_change", args=[vector.pk])
    shown = client_of(house.reader).post(metadata.replace("/change/", "/content/")).content.decode()
    assert "Nearest neighbours" in shown
    assert shown.count("zebrawood") > 1
    assert "zebrawood" not in client_of(house.reader).get(metadata).content.decode()
    User.objects.filter(pk=house.ada.pk).update(is_staff=True, is_superuser=True)
    assert "zebrawood" in client_of(house.ada).get(metadata).content.decode()


@pytest.mark.parametrize("name", ["search_passageblock", "search_itemembedding"])
def test_vector_is_drawn_and_its_text_shown_to_owner_and_readers_alone(house: House, name: str) -> None:
    has_vector = name == "search_itemembedding"  # of a passage the code is stored alone
    model = ItemEmbedding if has_vector else PassageBlock
    row = model.objects.filter(archive_id=house.ada.pk).order_by("pk")[0]
    metadata = reverse(f"admin:{name}_change", args=[row.pk])
    content = reverse(f"admin:{name}_content", args=[row.pk])
    staff, reader = client_of(house.staff).get(metadata).content.decode(), client_of(house.reader)
    assert "Can read other people&#x27;s content”, which you do not have" in staff
    assert '<svg class="vector"' not in staff
    asked = reader.get(metadata).content.decode()
    assert f'<a href="{content}">Read the content</a>' in asked
    assert '<svg class="vector"' not in asked
    shown = reader.post(content).content.decode()
    assert "zebrawood" in shown
    bars = shown.partition('<svg class="vector"')[2].partition("</svg>")[0]
    assert bars.count("M") == (row.space.dimensions if has_vector else 0)
    User.objects.filter(pk=house.ada.pk).update(is_staff=True)
    own = client_of(house.ada).get(metadata).content.decode()
    assert ('<svg class="vector"' in own) is has_vector
    section = "<h2>What it embeds</h2>" if has_vector else "<h2>Passages</h2>"
    assert "zebrawood" in own.partition(section)[2].partition("</section>")[0]


def test_list_counts_to_a_bound(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    page = changelist("conversations_message")
    assert "or more" not in client_of(house.staff).get(page).content.decode()
    monkeypatch.setattr("convmemory.core.administration.lists.PAGED_ROWS", 1)
    assert "1 or more" in client_of(house.staff).get(page).content.decode()


def test_reading_is_asked_for_and_recorded(house: House) -> None:
    client = client_of(house.reader)
    for metadata, content in pages_of(house):
        AuditEntry.objects.all().delete()
        assert content in client.get(metadata).content.decode()
        asked = client.get(content)
        assert not [secret for secret in SECRETS if secret in asked.content.decode()]
        assert not AuditEntry.objects.filter(action="read").exists()
        shown = client.post(content)
        assert "zebrawood" in shown.content.decode(), content
        assert not [key for key in keys_of_agents() if key in shown.content.decode()]
        assert "no-store" in shown.headers["Cache-Control"]
        record = AuditEntry.objects.get(action="read")
        assert (record.person, record.about_id) == (house.reader, house.ada.pk)
        assert record.what


def test_content_is_readable_by_group_permission_or_owner(house: House) -> None:
    group = house.root.groups.create(name="auditors")
    group.permissions.add(read_content_permission())
    *_, (_, content) = pages_of(house)
    assert client_of(house.root).post(content).status_code == 200
    AuditEntry.objects.all().delete()
    own = make_conversation(house.staff, exchange(("my own zebrawood?", "Yes.")), title="Mine")
    page = reverse("admin:conversations_conversation_content", args=[own.pk])
    assert "my own zebrawood?" in client_of(house.staff).get(page).content.decode()
    assert not AuditEntry.objects.filter(action="read").exists()


FORM = {
    "model": "some-model", "context_window": 4_000, "reply_tokens": 500, "temperature": "", "tools": "[]",
    "context_strategies": '["sliding_window"]', "new_base_url": "", "base_url": "https://staff.example/v1",
}  # fmt: skip
STOLEN = FORM | {"new_base_url": "https://staff.example/v1"}


@pytest.mark.parametrize("granted", [(), ("chat.change_agent",), ("accounts.read_content",)])
def test_changing_agents_address_needs_both_permissions(house: House, granted: tuple[str, ...]) -> None:
    for name in granted:
        grant(house.staff, name)
    agent = Agent.objects.order_by("pk")[0]
    page = reverse("admin:chat_agent_change", args=[agent.pk])
    client = client_of(house.staff)
    shown = client.get(page).content.decode()
    assert not [secret for secret in SECRETS if secret in shown]
    assert "new_base_url" not in shown
    assert client.post(page, STOLEN).status_code == 403
    changed = Agent.objects.get(pk=agent.pk)
    assert (changed.base_url, changed.api_key_encrypted, changed.context_window) == (
        ADDRESS, agent.api_key_encrypted, None
    )  # fmt: skip


def test_with_both_permissions_agent_is_changed_and_its_key_stays_with_its_server(house: House) -> None:
    agent = Agent.objects.order_by("pk")[0]
    page = reverse("admin:chat_agent_change", args=[agent.pk])
    client = client_of(house.reader)
    grant(house.reader, "chat.change_agent")
    assert ADDRESS not in client.get(page).content.decode()
    assert not AuditEntry.objects.filter(action="read").exists()
    refused = client.post(page, FORM | {"context_strategies": '["magic"]'}).content.decode()
    assert "magic" in refused
    assert "sliding_window" in refused
    assert client.post(page, FORM | {"name": "x", "system_prompt": "y", "new_base_url": ADDRESS}).status_code == 302
    changed = Agent.objects.get(pk=agent.pk)
    assert (changed.context_window, changed.context_strategies) == (4_000, ["sliding_window"])
    assert (changed.name, changed.system_prompt, changed.base_url) == (agent.name, agent.system_prompt, ADDRESS)
    assert changed.api_key_encrypted == agent.api_key_encrypted
    assert client.post(page, STOLEN).status_code == 302
    moved = Agent.objects.get(pk=agent.pk)
    assert (moved.base_url, moved.api_key_encrypted) == ("https://staff.example/v1", "")
    records = list(AuditEntry.objects.filter(action="read").values_list("person", "about", "what"))
    assert records == [(house.reader.pk, house.ada.pk, f"changes agent {agent.pk}")] * 3


def test_key_does_not_follow_agent_to_server_s_own_endpoint(house: House) -> None:
    agent = Agent.objects.order_by("pk")[0]
    grant(house.reader, "chat.change_agent")
    page = reverse("admin:chat_agent_change", args=[agent.pk])
    assert client_of(house.reader).post(page, FORM | {"use_servers_own": "on"}).status_code == 302
    changed = Agent.objects.get(pk=agent.pk)
    assert (changed.base_url, changed.api_key_encrypted) == ("", "")


def test_superuser_needs_read_content_as_well(house: House) -> None:
    agent = Agent.objects.order_by("pk")[0]
    page = reverse("admin:chat_agent_change", args=[agent.pk])
    assert client_of(house.root).post(page, STOLEN).status_code == 403
    assert Agent.objects.get(pk=agent.pk).base_url == ADDRESS


def test_staff_change_their_own_agents_without_record(house: House) -> None:
    grant(house.staff, "chat.change_agent")
    values = {"name": "mine", "base_url": ADDRESS, "model": "m", "api_key": "k"}
    own = create_agent(caller=caller_for(house.staff), values=values)
    page = reverse("admin:chat_agent_change", args=[own.pk])
    assert client_of(house.staff).post(page, STOLEN).status_code == 302
    own.refresh_from_db()
    assert (own.base_url, own.has_key) == ("https://staff.example/v1", False)
    assert not AuditEntry.objects.filter(action="read").exists()


def test_staff_switch_agent_off_and_on(house: House) -> None:
    agent = Agent.objects.order_by("pk")[0]
    client, page = client_of(house.staff), changelist("chat_agent")
    chosen = {"action": "switch_off", "_selected_action": agent.pk}
    client.post(page, chosen | {"post": "yes"})
    assert not Agent.objects.get(pk=agent.pk).is_switched_off
    grant(house.staff, "chat.change_agent")
    client.post(page, chosen)
    assert not Agent.objects.get(pk=agent.pk).is_switched_off
    client.post(page, chosen | {"post": "yes"})
    switched_off = Agent.objects.get(pk=agent.pk)
    with pytest.raises(SwitchedOff):
        options_of(switched_off, caller=caller_for(house.ada))
    owner = client_of(house.ada)
    assert "switched off by an administrator" in owner.get("/agents").content.decode()
    assert "switched" in owner.get(f"/conversations/{house.conversation.pk}/context").content.decode()
    client.post(page, chosen | {"action": "switch_on", "post": "yes"})
    assert options_of(Agent.objects.get(pk=agent.pk), caller=caller_for(house.ada)).name == "quokka"


def test_names_of_api_keys_are_not_shown_to_staff(house: House) -> None:
    key = ApiKey.objects.get()
    grant(house.staff, "accounts.change_apikey")
    client, page = client_of(house.staff), changelist("accounts_apikey")
    asked = client.post(page, {"action": "revoke", "_selected_action": key.pk})
    done = client.post(page, {"action": "revoke", "_selected_action": key.pk, "post": "yes"}, follow=True)
    assert ApiKey.objects.get().revoked_at
    pages = [reverse("admin:accounts_apikey_change", args=[key.pk]), reverse("admin:index")]
    pages += [reverse("admin:accounts_apikey_history", args=[key.pk])]
    texts = [asked, done, *map(client.get, pages)]
    assert not [answer for answer in texts if "zebrawood" in answer.content.decode()]
    assert "zebrawood" not in str(list(LogEntry.objects.values_list("object_repr", "change_message")))
    assert key.prefix in LogEntry.objects.get().object_repr


def test_str_of_rows_contains_no_user_text(house: House) -> None:
    """Names go into lists, confirmations, histories and the log of Django's admin."""
    named = [
        str(row) for model in admin.site._registry if model is not User for row in model._default_manager.all()[:20]
    ]
    assert len(named) > 20
    assert not [name for name in named if any(secret in name for secret in SECRETS)]


def test_conversation_page_is_for_its_owner_only(house: House) -> None:
    page = f"/conversations/{house.conversation.pk}?turn=0"
    assert client_of(house.ada).get(page).status_code == 200
    assert client_of(house.reader).get(page).status_code == 404


def test_admin_links_no_page_that_does_not_open(house: House) -> None:
    house.ada.is_staff = house.ada.is_superuser = True
    house.ada.save()
    house.root.user_permissions.add(read_content_permission())
    page = f"/admin/conversations/conversation/{house.conversation.pk}"
    for reader, is_linked in ((house.ada, True), (house.root, False)):
        client = client_of(reader)
        for answer in (client.get(f"{page}/change/"), client.post(f"{page}/content/")):
            assert answer.status_code == 200
            assert (f'href="/conversations/{house.conversation.pk}' in answer.content.decode()) is is_linked


@pytest.mark.parametrize(
    "query",
    [
        "title__startswith=H",
        "project=projects/divorce",
        "messages__parts__contains=zebrawood",
        "owner__password__startswith=md5",
        "turn_documents__question__contains=z",
    ],
)
def test_filter_on_content_is_refused(house: House, query: str) -> None:
    answer = client_of(house.root).get(f"{changelist('conversations_conversation')}?{query}")
    assert answer.status_code == 400


def test_search_looks_up_numbers_hashes_and_owners(house: House) -> None:
    client = client_of(house.staff)
    row = ItemEmbedding.objects.order_by("pk")[0]
    block = PassageBlock.objects.order_by("pk")[0]
    found = [
        ("search_itemembedding", str(row.pk), row.pk),
        ("search_itemembedding", bytes(row.content_hash).hex(), row.pk),
        ("search_itemembedding", "ada", row.pk),
        ("search_passageblock", str(block.pk), block.pk),
        ("search_passageblock", str(house.conversation.pk), block.pk),
        ("search_passageblock", "ada", block.pk),
        ("conversations_conversation", "ada", house.conversation.pk),
    ]
    for name, term, pk in found:
        page = client.get(changelist(name), {"q": term}).content.decode()
        assert reverse(f"admin:{name}_change", args=[pk]) in page, (name, term)
    for term in ("zebrawood", "Heartbreak", "999999999999999999999", "eve"):
        page = client.get(changelist("conversations_conversation"), {"q": term}).content.decode()
        assert reverse("admin:conversations_conversation_change", args=[house.conversation.pk]) not in page


def test_hash_of_vector_is_looked_up_in_its_index(house: House) -> None:
    page = admin.site._registry[ItemEmbedding]
    assert isinstance(page, MetadataAdmin)
    rows = ItemEmbedding.objects.filter(page.search_condition("ab" * 32)).only("pk")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    assert "item_embedding_content" in rows.explain()


@pytest.mark.parametrize(
    ("name", "query", "is_found"),
    [
        ("search_itemembedding", "owner=ada", True),
        ("search_itemembedding", "owner=steve", False),
        ("search_itemembedding", "stale=0", True),
        ("search_itemembedding", "stale=1", False),
        ("search_itemembedding", "upto=0", False),
        ("search_item", "failed=1", False),
        ("search_sourceindex", "state=done", True),
        ("search_sourceindex", "state=stale", False),
        ("search_sourceindex", "state=failed", False),
        ("search_passageblock", "is_kept__exact=0", True),
        ("memory_messageembedding", "owner=ada", True),
        ("memory_messageembedding", "owner=steve", False),
        ("memory_messageembedding", "status__exact=failed", False),
        ("search_passageblock", "is_kept__exact=1", False),
        ("conversations_conversation", "status__exact=idle", True),
        ("conversations_conversation", "owner=nobody", False),
    ],
)
def test_changelist_filters_select_rows(house: House, name: str, query: str, *, is_found: bool) -> None:
    page = client_of(house.staff).get(f"{changelist(name)}?{query}")
    assert page.status_code == 200
    assert ("field-archive" in page.content.decode()) is is_found


def test_turn_that_changed_is_stale(house: House) -> None:
    Source.objects.update(version=99)
    SourceIndex.objects.filter(source__object_id=house.conversation.pk).update(dirty_from=1)
    first, second = ItemEmbedding.objects.order_by("item_number")
    page = client_of(house.staff).get(f"{changelist('search_itemembedding')}?stale=1").content.decode()
    assert reverse("admin:search_itemembedding_change", args=[second.pk]) in page
    assert reverse("admin:search_itemembedding_change", args=[first.pk]) not in page


def test_changelist_costs_same_however_many_rows_there_are(
    house: House, django_assert_max_num_queries: DjangoAssertNumQueries, subtests: pytest.Subtests
) -> None:
    for number in range(3):
        more = make_conversation(user := make_user(f"u{number}"), exchange(("q?", "a"), ("r?", "b")))
        index_conversation(conversation_id=more.pk)
        chat(user, more)
        AuditEntry.objects.create(action="read", person=house.root, about_id=house.ada.pk, what="something")
    client = client_of(house.root)
    for name in CHANGELISTS:
        with subtests.test(name=name), django_assert_max_num_queries(MOST_QUERIES):
            assert client.get(changelist(name)).status_code == 200


def test_embedding_s_page_shows_its_neighbours_of_same_owner(house: House) -> None:
    stranger = make_conversation(make_user("eve"), exchange(("does zebrawood warp?", "A quokka would know.")))
    index_conversation(conversation_id=stranger.pk)
    row, other = ItemEmbedding.objects.filter(archive_id=house.ada.pk).order_by("item_number")
    text = client_of(house.staff).get(reverse("admin:search_itemembedding_change", args=[row.pk])).content.decode()
    assert bytes(row.content_hash).hex() in text
    assert reverse("admin:search_itemembedding_change", args=[other.pk]) in text
    assert reverse("admin:search_item_open", args=["conversation", house.conversation.pk, 0]) in text
    assert reverse("admin:search_item_open", args=["conversation", stranger.pk, 0]) not in text
    assert "1.0000" in text or "0.9999" in text or "1.0001" in text


def test_adding_and_changing_rows_by_hand_is_refused(house: House) -> None:
    client = client_of(house.root)
    for name in ("conversations_conversation", "chat_agent", "chat_reply"):
        assert client.get(reverse(f"admin:{name}_add")).status_code == 403
    page = reverse("admin:conversations_conversation_change", args=[house.conversation.pk])
    assert client.post(page, {"status": "failed"}).status_code == 403
    user_page = reverse("admin:auth_user_delete", args=[house.ada.pk])
    assert client.post(user_page, {"post": "yes"}).status_code == 403


def run_action(client: Client, name: str, action: str, pk: int, *, confirm: bool) -> str:
    data = {"action": action, "_selected_action": str(pk), **({"post": "yes"} if confirm else {})}
    return client.post(changelist(name), data, follow=True).content.decode()


@pytest.mark.parametrize("chosen", ["first", "9" * 30])
def test_action_on_malformed_row_is_refused_on_every_list(house: House, chosen: str) -> None:
    client = client_of(house.root)
    client.get(reverse("admin:index"))  # loads the lists
    assert admin.site._registry
    for model, model_admin in admin.site._registry.items():
        path = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        for action in {*model_admin.actions, "delete_selected"} if model_admin.actions else ("delete_selected",):
            answer = client.post(path, {"action": str(action), "_selected_action": chosen, "post": "yes"})
            has_names = model._meta.pk.get_internal_type() == "CharField"  # any text may be one
            assert answer.status_code in ((200, 302) if has_names else (400, 422)), (path, action)
            assert has_names or "choose its rows again" in answer.content.decode()


def test_actions_need_permissions(house: House) -> None:
    row = ItemEmbedding.objects.order_by("pk")[0]
    client = client_of(house.staff)
    for action in ("retry", "reembed", "delete_chosen"):
        run_action(client, "search_itemembedding", action, row.pk, confirm=True)
    run_action(client, "accounts_apikey", "revoke", ApiKey.objects.get().pk, confirm=True)
    run_action(client, "conversations_conversation", "delete_chosen", house.conversation.pk, confirm=True)
    assert ItemEmbedding.objects.filter(pk=row.pk, content_hash=row.content_hash).exists()
    assert ApiKey.objects.get().revoked_at is None
    assert Conversation.objects.filter(pk=house.conversation.pk).exists()
    assert not LogEntry.objects.exists()


def test_re_embedding_asks_marks_logs_and_enqueues(house: House) -> None:
    grant(house.staff, "search.change_sourceindex")
    client = client_of(house.staff)
    row = ItemEmbedding.objects.order_by("item_number")[0]
    drop_all()
    asked = run_action(client, "search_itemembedding", "reembed", row.pk, confirm=False)
    assert "Re-embed 1 item embedding?" in asked
    assert not queued()
    run_action(client, "search_itemembedding", "reembed", row.pk, confirm=True)
    assert queued() == [("search.tasks.index", [row.source_id])]
    assert ItemEmbedding.objects.filter(pk=row.pk).exists(), "searched until its replacement is stored"
    result = index_conversation(conversation_id=house.conversation.pk)
    assert (result.items, result.finished) == (1, True)
    fresh = ItemEmbedding.objects.get(item_number=row.item_number)
    assert fresh.content_hash == row.content_hash
    entry = LogEntry.objects.get()
    assert (entry.user, entry.change_message) == (house.staff, "Re-embed.")
    assert not [secret for secret in SECRETS if secret in entry.object_repr]


def test_retrying_gives_conversation_all_its_attempts_again(house: House) -> None:
    grant(house.staff, "search.change_sourceindex")
    state = SourceIndex.objects.filter(source__object_id=house.conversation.pk)
    state.update(error="no answer", attempts=5, indexed_version=0)
    client = client_of(house.staff)
    run_action(client, "search_sourceindex", "retry", state.get().pk, confirm=True)
    assert state.get().attempts == 0
    assert index_conversation(conversation_id=house.conversation.pk).computed == 0
    assert state.get().error == ""


def test_deleted_vector_is_made_again(house: House) -> None:
    grant(house.staff, "search.delete_itemembedding")
    row = ItemEmbedding.objects.order_by("item_number")[0]
    page = reverse("admin:search_itemembedding_delete", args=[row.pk])
    client_of(house.staff).post(page, {"post": "yes"})
    assert not ItemEmbedding.objects.filter(pk=row.pk).exists()
    assert index_conversation(conversation_id=house.conversation.pk).items == 1
    assert ItemEmbedding.objects.count() == 2


def test_deletion_pages_and_log_contain_no_title(house: House) -> None:
    grant(house.staff, "conversations.delete_conversation")
    client = client_of(house.staff)
    asked = run_action(client, "conversations_conversation", "delete_chosen", house.conversation.pk, confirm=False)
    assert f"conversation {house.conversation.pk}" in asked
    assert "Heartbreak" not in asked
    run_action(client, "conversations_conversation", "delete_chosen", house.conversation.pk, confirm=True)
    assert not Conversation.objects.exists()
    assert "Heartbreak" not in LogEntry.objects.get().object_repr


def test_failed_message_is_retried(house: House) -> None:
    grant(house.staff, "memory.change_messageembedding")
    record = MessageEmbedding.objects.order_by("pk")[0]
    MessageEmbedding.objects.filter(pk=record.pk).update(status="failed", error="no answer", attempts=5)
    drop_all()
    run_action(client_of(house.staff), "memory_messageembedding", "retry", record.pk, confirm=True)
    assert queued() == [("memory.tasks.embed", [house.conversation.pk, [record.message_id]])]
    record.refresh_from_db()
    assert (record.status, record.attempts, record.error) == ("pending", 0, "")


def test_retry_action_enqueues_summary_again(house: House) -> None:
    grant(house.staff, "summaries.change_conversationsummary")
    summary = ConversationSummary.objects.get()
    drop_all()
    run_action(client_of(house.staff), "summaries_conversationsummary", "retry", summary.pk, confirm=True)
    assert queued() == [("summaries.tasks.make", [summary.pk])]
    summary.refresh_from_db()
    assert (summary.status, summary.content) == ("pending", "All about zebrawood.")


def test_key_is_revoked(house: House) -> None:
    grant(house.staff, "accounts.change_apikey")
    run_action(client_of(house.staff), "accounts_apikey", "revoke", ApiKey.objects.get().pk, confirm=True)
    assert ApiKey.objects.get().revoked_at is not None
