"""The admin in a real browser: under its strict policy, on a desk and on a phone, by mouse and without JavaScript."""

from collections.abc import Callable
from functools import partial

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from convmemory.accounts.models import AuditEntry
from convmemory.conversations.models import Conversation
from convmemory.ops.dashboard_tasks import map_turns, sample_index
from search.adapters.conversations import index_conversation
from search.models import ItemEmbedding
from tests.factories import exchange, make_conversation, make_user
from tests.surfaces.browser import SHIFT, Chromium, expect_to_fit
from tests.surfaces.test_browser_accessibility import expect_no_violation_anywhere

MOST_ADMIN_SHIFT = 0.05

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def visit(chromium: Chromium, live_server: LiveServer) -> Callable[..., None]:
    """Runs steps on a page where the administrator `rita` has signed in, who may read content."""
    pairs = [(f"does zebrawood warp in room {n}?", f"In room {n} it does.") for n in range(12)]
    conversation = make_conversation(make_user("ada"), exchange(*pairs), title="Wood")
    index_conversation(conversation_id=conversation.pk)
    rita = User.objects.create_superuser("rita", password="correct horse")
    rita.user_permissions.add(Permission.objects.get(codename="read_content"))
    sample_index()
    map_turns(conversation.archive_id)

    return partial(chromium.visit, live_server.url, visitor=rita, at="/admin/")


def expect_no_list_to_scroll_sideways(page: Page) -> None:
    models = sorted(f"{model._meta.app_label}/{model._meta.model_name}" for model in admin.site._registry)
    page.set_viewport_size({"width": 1440, "height": 900})
    too_wide: dict[str, tuple[int, int]] = {}
    for model in models:
        page.goto(f"/admin/{model}/")
        results = page.locator("#changelist-form .results")
        if results.count():
            wide, window = results.evaluate("list => [list.scrollWidth, list.clientWidth]")
            too_wide |= {model: (wide, window)} if wide > window else {}
    assert not too_wide


def test_admin_pages_fit_and_have_no_accessibility_violations(visit: Callable[..., None]) -> None:
    conversation, embedding = Conversation.objects.get(), ItemEmbedding.objects.order_by("pk")[0]

    def steps(page: Page) -> None:
        page.add_init_script(SHIFT)
        for number, address in enumerate((
            "/admin/", "/admin/dashboard/", "/admin/dashboard/map", "/admin/search/itemembedding/",
            f"/admin/search/itemembedding/{embedding.pk}/change/", "/admin/conversations/conversation/",
            f"/admin/conversations/conversation/{conversation.pk}/change/", "/admin/django_q/schedule/",
        )):  # fmt: skip
            page.goto(address)
            # Before the window gets other sizes: what moves half a second after that counts as moved by itself.
            assert page.evaluate("window.shift") < MOST_ADMIN_SHIFT, (address, page.evaluate("[...window.shifted]"))
            expect_to_fit(page, address)
            expect_no_violation_anywhere(page, address, number=number)
        expect_no_list_to_scroll_sideways(page)

    visit(steps)


def follow_map_to_turn(page: Page) -> None:
    page.goto("/admin/")
    page.get_by_role("link", name="Dashboard").first.click()
    expect(page.get_by_role("heading", name="Coverage per embedding space")).to_be_visible()
    page.get_by_text("As a table").first.click()
    expect(page.get_by_role("columnheader", name="Passages")).to_be_visible()
    page.get_by_label("Map of the turns of").fill("ada")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("is recorded with your name")).to_be_visible()
    page.get_by_role("button", name="Read it").click()
    expect(page.locator("svg.chart a")).to_have_count(12)
    page.locator("svg.chart a").first.focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Read it").click()
    expect(page.locator(".said").first).to_contain_text("does zebrawood warp in room")


def filter_choose_and_re_embed(page: Page) -> None:
    page.goto("/admin/search/itemembedding/")
    page.get_by_label("owner: user name").fill("nobody")
    page.get_by_label("owner: user name").press("Enter")
    expect(page.locator(".paginator")).to_contain_text("0 item embeddings")
    page.get_by_role("link", name="any").click()
    expect(page.locator(".paginator")).to_contain_text("12 item embeddings")
    page.locator("tbody .action-select").first.check()
    page.locator("select[name=action]").select_option("reembed")
    page.get_by_role("button", name="Go").click()
    expect(page.get_by_role("heading", name="Re-embed 1 item embedding?")).to_be_visible()
    page.get_by_role("button", name="Re-embed").click()
    expect(page.locator(".messagelist")).to_contain_text("Re-embed: 1 item embedding.")


def test_administrator_follows_map_to_turn_and_embeds_again(visit: Callable[..., None]) -> None:
    def steps(page: Page) -> None:
        follow_map_to_turn(page)
        filter_choose_and_re_embed(page)

    visit(steps)
    assert ItemEmbedding.objects.filter(content_hash=b"").count() == 1
    visit(follow_map_to_turn, javascript=False)
    reads = AuditEntry.objects.filter(action="read", person__username="rita", about__person__username="ada")
    assert reads.count() == 4
