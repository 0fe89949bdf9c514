"""The dashboard and the map of turns: figures for staff, content for the permitted, links for all points."""

import re
from datetime import timedelta
from xml.etree import ElementTree

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django_q.models import Failure, Task

from convmemory.accounts.models import AuditEntry
from convmemory.accounts.spaces import create_space
from convmemory.conversations.models import Conversation
from convmemory.core.acting import acting_for
from convmemory.core.measuring import Measurement, report
from convmemory.core.models import OwnerTask
from convmemory.ops.dashboard_tasks import map_turns, sample_index
from convmemory.ops.models import IndexSample, TurnMap
from convmemory.ops.observability import measures
from search.adapters.conversations import index_conversation
from search.indexing.sweeping import INDEX
from search.models import Source, SourceIndex
from tests.factories import exchange, make_conversation, make_user, source_id
from tests.support.api import signed_in

pytestmark = pytest.mark.django_db

DASHBOARD_QUERIES = 9  # session, user, permissions of the menu (2), newest sample, samples, measures (2), sizes
SVG = re.compile(r"<svg class=.*?</svg>", re.DOTALL)


@pytest.fixture
def ada() -> User:
    owner = make_user("ada")
    pairs = [("does zebrawood warp?", "Yes."), ("who won the match?", "Nobody."), ("bake rye bread?", "At 230.")]
    index_conversation(conversation_id=make_conversation(owner, exchange(*pairs), title="Heartbreak").pk)
    return owner


@pytest.fixture
def staff() -> User:
    return User.objects.create_user("steve", password="x", is_staff=True)


def permit(user: User) -> None:
    user.user_permissions.add(Permission.objects.get(content_type__app_label="accounts", codename="read_content"))


def test_empty_installation_has_dashboard(staff: User) -> None:
    page = signed_in(staff).get(reverse("dashboard"))
    assert page.status_code == 200
    assert "Nothing is measured yet" in page.content.decode()


def test_dashboard_is_for_staff(ada: User) -> None:
    for name in ("dashboard", "turn-map"):
        answer = signed_in(ada).get(reverse(name))
        assert answer.status_code == 302
        assert "/admin/login/" in answer.headers["Location"]


def test_index_sample_counts_rows_of_all_users(ada: User) -> None:
    waiting = make_conversation(make_user("eve"), exchange(("and this?", "not yet"), ("nor this?", "no")))
    result = sample_index()
    assert result == {"turns": 5, "pending": 2, "failed": 0}
    (space,) = IndexSample.objects.get().spaces
    assert (space["active"], space["turns"]) == (True, 3)
    assert space["passages"] > 0
    index_conversation(conversation_id=waiting.pk)
    assert sample_index()["pending"] == 0


def test_old_index_samples_are_deleted(ada: User) -> None:
    sample_index()
    IndexSample.objects.update(taken_at=timezone.now() - timedelta(days=31))
    sample_index()
    assert IndexSample.objects.count() == 1


def test_failures_are_counted_without_what_was_written(ada: User) -> None:
    SourceIndex.objects.update(error="no answer from the endpoint", attempts=5, indexed_version=0)
    frames = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\n'
    error = f"bad : {frames}ValueError: zebrawood\nquokka: 1"
    now = timezone.now()
    for number, text in enumerate((error, "Task exceeded maximum timeout value (600 seconds)")):
        Task.objects.create(id=f"{number:032}", name=f"t{number}", func="search.tasks.index", started=now, stopped=now,
                            success=False, result=text)  # fmt: skip
    sample_index()
    reasons = {(row["what"], row["reason"]): row["count"] for row in IndexSample.objects.get().reasons}
    assert reasons == {
        ("source", "no answer from the endpoint"): 1,
        ("search.tasks.index", "ValueError"): 1,
        ("search.tasks.index", "ended from outside"): 1,
    }


def test_all_panels_draw_and_have_tables(ada: User, staff: User) -> None:
    for seconds in (0.01, 0.02, 0.4):
        report(Measurement("search", "hybrid", seconds))
    report(Measurement("embedding", "passages", 2.0, items=300))
    measures.flush()
    sample_index()
    IndexSample.objects.update(taken_at=timezone.now() - timedelta(hours=3))
    sample_index()
    client = signed_in(staff)
    with CaptureQueriesContext(connection) as queries:
        page = client.get(reverse("dashboard")).content.decode()
    assert len(queries) <= DASHBOARD_QUERIES
    assert page.count("As a table") >= 5
    charts = SVG.findall(page)
    assert len(charts) >= 8
    for chart in charts:
        ElementTree.fromstring(chart)
    assert "style=" not in page
    assert "Heartbreak" not in page
    assert "3 of 3 turns" in page


def test_measuring_now_asks_worker(staff: User) -> None:
    assert signed_in(staff).get(reverse("measure-index")).status_code == 405
    signed_in(staff).post(reverse("measure-index"))
    assert OwnerTask.objects.get(archive=None).func == "convmemory.ops.dashboard_tasks.sample_index"


def test_map_is_same_each_time_and_holds_one_owner(ada: User) -> None:
    index_conversation(conversation_id=make_conversation(make_user("eve"), exchange(("a?", "b"), ("c?", "d"))).pk)
    assert map_turns(ada.pk) == {"points": 3}
    first = TurnMap.objects.get(archive_id=ada.pk)
    map_turns(ada.pk)
    again = TurnMap.objects.get(archive_id=ada.pk)
    assert first.points == again.points
    assert {point[0] for point in first.points} == {source_id(Conversation.objects.get(archive_id=ada.pk))}
    assert all(-1 <= value <= 1 for point in first.points for value in point[2:])
    assert first.explained == pytest.approx(1.0), "three points lie in a plane"
    assert map_turns(make_user("nobody").pk) == {"points": 0}


def test_owner_s_map_leads_to_their_pages(ada: User) -> None:
    User.objects.filter(pk=ada.pk).update(is_staff=True)
    map_turns(ada.pk)
    conversation = Conversation.objects.get(archive_id=ada.pk)
    page = signed_in(ada).get(reverse("turn-map")).content.decode()
    for turn in range(3):
        assert f"/conversations/{conversation.pk}?turn={turn}" in page
    assert "does zebrawood warp?" in page
    assert not AuditEntry.objects.filter(action="read").exists()
    conversation.delete()
    assert "zebrawood" not in signed_in(ada).get(reverse("turn-map")).content.decode()


def test_clumps_of_map_are_named(ada: User) -> None:
    User.objects.filter(pk=ada.pk).update(is_staff=True)
    for topic in ("does the rye sourdough rise?", "does the payments job deadlock?"):
        pairs = [(f"{topic} Say it for number {number}.", "It does.") for number in range(25)]
        index_conversation(conversation_id=make_conversation(ada, exchange(*pairs)).pk)
    map_turns(ada.pk)
    page = signed_in(ada).get(reverse("turn-map")).content.decode()
    labels = " ".join(re.findall(r'class="map-label"[^>]*>([^<]+)<', page))
    assert "sourdough" in labels
    assert "deadlock" in labels or "payments" in labels


def test_foreign_map_needs_permission_and_is_recorded(ada: User, staff: User) -> None:
    map_turns(ada.pk)
    client, page = signed_in(staff), f"{reverse('turn-map')}?owner=ada"
    for answer in (client.get(page), client.post(page), client.post(reverse("compute-map"), {"owner": "ada"})):
        assert answer.status_code == 403
    root = User.objects.create_superuser("root", password="x")
    assert signed_in(root).post(page).status_code == 403
    assert not OwnerTask.objects.filter(archive=None).exists()
    permit(staff)
    assert "zebrawood" not in client.get(page).content.decode()
    shown = client.post(page).content.decode()
    assert "does zebrawood warp?" in shown
    address = reverse("admin:conversations_conversation_content", args=[Conversation.objects.get().pk])
    assert f"{address}?turn=0" in shown
    assert AuditEntry.objects.get(action="read").about_id == ada.pk
    client.post(reverse("compute-map"), {"owner": "ada"})
    assert OwnerTask.objects.get(archive=None).func == "convmemory.ops.dashboard_tasks.map_turns"


def test_map_of_space_is_asked_for_by_its_number_and_recorded(ada: User, staff: User) -> None:
    permit(staff)
    with acting_for(ada.pk):
        space = create_space(person=ada, name="Boat house")
    index_conversation(conversation_id=make_conversation(space, exchange(("which knot?", "A bowline."))).pk)
    client, name = signed_in(staff), f"space {space.pk}"
    page = reverse("turn-map", query={"owner": name})
    client.post(reverse("compute-map"), {"owner": name})
    assert map_turns(space.pk) == {"points": 1}
    shown = client.post(page).content.decode()
    assert f"Map of the turns of {name}" in shown
    assert "which knot?" in shown
    assert f'name="owner" value="{name}"' in shown
    assert "zebrawood" not in shown
    assert AuditEntry.objects.get(action="read").about_id == space.pk
    unknown = client.get(reverse("turn-map", query={"owner": "space 99"}), follow=True).content.decode()
    assert "There is no user and no space &#x27;space 99&#x27;" in unknown
    assert client.post(reverse("compute-map"), {"owner": "space 99"}).status_code == 403


def test_task_pages_show_kind_of_error_alone(staff: User) -> None:
    now = timezone.now()
    result = 'x : Traceback (most recent call last):\n  File "a.py", line 1, in f\nKeyError: zebrawood'
    Task.objects.create(id="f" * 32, name="one", func="search.tasks.index", args=(7,), started=now, stopped=now,
                        success=False, result=result)  # fmt: skip
    Task.objects.create(id="e" * 32, name="two", func="search.tasks.sweep", started=now, stopped=now, success=True)
    client = signed_in(staff)
    for page in (
        reverse("admin:django_q_failure_changelist"),
        reverse("admin:django_q_failure_change", args=["f" * 32]),
        reverse("admin:django_q_success_changelist"),
        reverse("admin:django_q_schedule_changelist"),
        reverse("admin:core_ownertask_changelist"),
    ):
        answer = client.get(page)
        assert answer.status_code == 200, page
        assert "zebrawood" not in answer.content.decode()
    assert "KeyError" in client.get(reverse("admin:django_q_failure_changelist")).content.decode()
    assert client.get(reverse("admin:django_q_schedule_add")).status_code == 403


def test_failed_tasks_are_retried(staff: User, ada: User) -> None:
    staff.user_permissions.add(Permission.objects.get(codename="change_failure"))
    source = Source.objects.filter(archive_id=ada.pk).order_by("pk")[0]
    calls = {"e": ("convmemory.retention.tasks.sweep", ()), "f": (INDEX, (source.pk,)), "d": (INDEX, (10**9,))}
    now = timezone.now()
    for letter, (func, args) in calls.items():
        Task.objects.create(id=letter * 32, name=letter, func=func, args=args, started=now, stopped=now,
                            success=False, result="x")  # fmt: skip
    data = {"action": "retry", "_selected_action": [letter * 32 for letter in calls], "post": "yes"}
    signed_in(staff).post(reverse("admin:django_q_failure_changelist"), data)
    assert not Failure.objects.exists()
    assert OwnerTask.objects.get(archive=None).func == calls["e"][0]
    assert OwnerTask.objects.filter(archive_id=ada.pk, func=INDEX).values_list("args", flat=True).get() == [source.pk]
