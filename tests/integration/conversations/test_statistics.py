"""Statistics: what is counted of messages, when it is counted again, and what the page adds up."""

from datetime import UTC, date, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import DjangoAssertNumQueries

from convmemory.accounts.callers import Caller
from convmemory.conversations import statistics
from convmemory.conversations.browsing import LibraryChoice, page_of_shelves
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.numbering import renew_outcomes, set_usages
from convmemory.conversations.messages.parts import TextPart, ToolCallPart
from convmemory.conversations.messages.usage import Usage
from convmemory.conversations.models import Conversation, Figures, Message
from convmemory.conversations.statistics import Tokens, count_changed, statistics_of, uncounted
from convmemory.conversations.tasks import count_for_statistics
from convmemory.core.acting import acting_for
from convmemory.core.queue.fair_queue import asked_for
from convmemory.core.templatetags.texts import short_count
from tests.factories import assistant_says, exchange, make_conversation, make_user, user_says
from tests.support.api import signed_in
from tests.support.markup import flat

pytestmark = pytest.mark.django_db

TODAY = date(2026, 3, 4)  # a Wednesday


def said(day: int, text: str = "twelve chars", **values: str) -> list[MessageDraft]:
    at = datetime(2026, 3, day, 12, tzinfo=UTC)
    call = ToolCallPart("c", "Bash", {"a": "b"})
    parts = (TextPart(text), call)
    return [user_says(text, created_at=at), MessageDraft("assistant", parts, created_at=at, **values)]  # type: ignore[arg-type]


def test_messages_models_and_tools_are_counted_and_added_up(owner: User) -> None:
    make_conversation(owner, [*said(1, model="large"), *said(2, model="small")], agent="codex", project="/src/mill")
    make_conversation(owner, said(2, model="large"), agent="codex")
    make_conversation(make_user(), said(3, model="foreign"), agent="foreign", project="foreign")
    assert uncounted(caller=Caller.of(owner)) == 2
    assert count_changed(archive_id=owner.pk) == 2
    found = statistics_of(caller=Caller.of(owner), today=TODAY)
    assert (found.conversations, found.turns, found.messages, found.uncounted) == (2, 3, 6, 0)
    charts = {chart.id: chart.rows for chart in found.charts}
    assert [(row.name, row.count, row.share) for row in charts["by-model"]] == [("large", 2, 100), ("small", 1, 50)]
    assert [(row.name, row.count) for row in charts["by-tool"]] == [("Bash", 3)]
    assert [(row.name, row.count) for row in charts["by-agent"]] == [("codex", 2)]
    assert [(row.name, row.label, row.count) for row in charts["by-project"]] == [("/src/mill", "mill", 1)]
    assert "used-by-agent" not in charts  # nothing reports tokens
    characters = 6 * len("twelve chars") + 3 * len('{"a": "b"}')
    assert found.tokens == characters // 4
    march = found.months[-1]
    assert (march.label, march.first, march.last) == ("Mar 2026", date(2026, 3, 1), date(2026, 3, 31))
    assert (march.tokens, march.token_share) == (characters // 4, 100)
    assert found.months[-2].tokens == 0


def test_rare_models_and_tools_are_counted_without_names(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "NAMES", 1)
    rare = MessageDraft("assistant", (ToolCallPart("d", "Read", {}),), model="tiny", usage=Usage(30, 4))
    make_conversation(
        owner, [*said(1, model="large"), *said(2, model="large"), user_says("More."), rare], agent="codex"
    )
    count_changed(archive_id=owner.pk)
    found = statistics_of(caller=Caller.of(owner), today=TODAY)
    charts = {chart.id: [(row.name, row.count) for row in chart.rows] for chart in found.charts}
    assert (charts["by-model"], charts["by-tool"]) == ([("large", 2)], [("Bash", 2)])
    assert (found.used.answers, found.used.total, charts["used-by-agent"]) == (3, 34, [("codex", 34)])


def test_only_changed_conversations_are_counted_again(owner: User) -> None:
    one = make_conversation(owner, exchange(("q", "a")))
    make_conversation(owner, exchange(("q", "a")))
    count_changed(archive_id=owner.pk)
    assert count_changed(archive_id=owner.pk) == 0
    ingest.append_messages(
        caller=Caller.of(owner), conversation_id=one.pk, drafts=[user_says("more"), assistant_says("yes")]
    )
    assert uncounted(caller=Caller.of(owner)) == 1
    assert count_changed(archive_id=owner.pk) == 1
    assert Figures.objects.get(conversation=one).message_count == 4
    assert Figures.objects.count() == 2
    ingest.delete_conversation(caller=Caller.of(owner), conversation_id=one.pk)
    assert Figures.objects.count() == 1


def test_task_counts_everything_and_can_run_twice(owner: User) -> None:
    for _ in range(25):
        make_conversation(owner, exchange(("q", "a")))
    assert count_for_statistics(archive_id=owner.pk) == {"counted": 25}
    assert count_for_statistics(archive_id=owner.pk) == {"counted": 0}


def spent(day: int, hour: int, usage: Usage | None, model: str = "large") -> list[MessageDraft]:
    at = datetime(2026, 3, day, hour, tzinfo=UTC)
    return [user_says("q", created_at=at), assistant_says("a", created_at=at, model=model, usage=usage)]


def test_tokens_are_summed_by_model_program_and_month_and_tell_how_many_answers_report_them(owner: User) -> None:
    make_conversation(owner, [*spent(1, 9, Usage(100, 10, 80)), *spent(2, 9, None)], agent="codex")
    make_conversation(owner, spent(2, 9, Usage(1_000, 20), model="small"), source="chatgpt")
    make_conversation(owner, spent(3, 9, None), agent="silent")
    # Two messages of one request: an answer that a tool's result divides.
    make_conversation(owner, spent(4, 9, Usage(7, 1, 0, "r")) + spent(4, 9, Usage(7, 5, 0, "r")), agent="codex")
    make_conversation(make_user(), spent(3, 9, Usage(9_999, 9_999)), agent="codex")
    count_changed(archive_id=owner.pk)
    shown = statistics_of(caller=Caller.of(owner), today=TODAY)
    assert shown.used == Tokens(answers=6, reported=4, input=1_107, output=35, cached=80)
    assert shown.used.sentence == "1.1k in, 7% cached, 35 out, in 4 of 6 answers"
    assert [month.tokens for month in shown.months_used][-2:] == [0, 1_142]
    assert shown.months_used[-1].sentence == shown.used.sentence
    charts = {chart.id: chart.rows for chart in shown.charts}
    assert [(row.name, row.tokens) for row in charts["by-model"]] == [
        ("large", Tokens(5, 3, 107, 15, 80)),
        ("small", Tokens(1, 1, 1_000, 20, 0)),
    ]
    assert [(row.name, row.count, row.tokens.answers) for row in charts["used-by-agent"]] == [
        ("chatgpt", 1_020, 1),
        ("codex", 122, 4),
    ]


def test_hours_are_those_of_time_zone_of_pages(owner: User, settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    make_conversation(owner, [*spent(1, 23, None), *spent(4, 9, None), *spent(4, 9, None)])  # a Sunday, a Wednesday
    make_conversation(owner, exchange(("no date", "none")))
    count_changed(archive_id=owner.pk)
    week = statistics_of(caller=Caller.of(owner), today=TODAY).weekdays
    busy = [(day.name, hour.label, hour.messages, hour.share) for day in week for hour in day.hours if hour.messages]
    dated = [row for row in busy if row[:2] in (("Mon", "00"), ("Wed", "10"))]
    assert dated == [("Mon", "00", 2, 50), ("Wed", "10", 4, 100)]


def test_counts_of_older_version_are_left_out_until_they_are_renewed(owner: User) -> None:
    make_conversation(owner, spent(1, 9, Usage(100, 10)))
    count_changed(archive_id=owner.pk)
    Figures.objects.update(hours=None, spoken_by={"large": 1})
    before = statistics_of(caller=Caller.of(owner), today=TODAY)
    assert (before.uncounted, before.used.reported, before.weekdays) == (1, 0, [])
    assert count_changed(archive_id=owner.pk) == 1
    assert statistics_of(caller=Caller.of(owner), today=TODAY).used.input == 100


def test_usages_are_read_from_source_lines_of_older_versions_and_from_later_imports(owner: User) -> None:
    line = b'{"type": "assistant", "message": {"id": "m", "usage": {"input_tokens": 3, "output_tokens": 4}}}'
    draft = ConversationDraft(
        [user_says("q", source_key="1"), assistant_says("a", source_key="2", raw=line)], source="s", source_id="1"
    )
    stored = ingest.create_conversation(caller=Caller.of(owner), draft=draft)
    reported = {"input": 3, "output": 4, "request": "m"}
    answers = Message.objects.filter(conversation=stored, role="assistant")
    assert answers.get().usage == reported

    def forget() -> None:
        count_changed(archive_id=owner.pk)
        answers.update(usage=None)

    forget()
    Conversation.objects.update(outcome_version=4)
    assert renew_outcomes(limit=5) == 1
    assert answers.get().usage == reported
    assert uncounted(caller=Caller.of(owner)) == 1

    forget()
    assert ingest.sync_conversation(caller=Caller.of(owner), draft=draft).unchanged == 2
    assert answers.get().usage == reported
    assert uncounted(caller=Caller.of(owner)) == 1


def test_database_shows_no_other_owner_s_figures(owner: User) -> None:
    make_conversation(owner, spent(1, 9, Usage(100, 10)), agent="secret", project="/secret")
    count_changed(archive_id=owner.pk)
    with acting_for(make_user().pk):  # a caller of the wrong archive: policies are what is left
        shown = statistics_of(caller=Caller.for_archive(owner.pk), today=TODAY)
        assert (shown.conversations, shown.messages, shown.used, shown.weekdays) == (0, 0, Tokens(), [])
        assert shown.charts == []
        set_usages(Conversation(pk=1, archive_id=owner.pk), {1: Usage(1, 1)})
    assert statistics_of(caller=Caller.of(owner), today=TODAY).used.input == 100


def test_damaged_dates_and_empty_conversations_do_no_harm(owner: User) -> None:
    make_conversation(owner)
    make_conversation(owner, [MessageDraft("user", (TextPart("q"),), created_at=datetime(1, 1, 1, tzinfo=UTC))])
    count_changed(archive_id=owner.pk)
    assert statistics_of(caller=Caller.of(owner), today=TODAY).months[-1].tokens == 0


def test_conversations_are_chosen_by_model_and_tool(owner: User) -> None:
    one = make_conversation(owner, said(1, model="large"), title="one")
    make_conversation(owner, exchange(("q", "a")), title="two")
    count_changed(archive_id=owner.pk)
    for choice in (LibraryChoice(model="large"), LibraryChoice(tool="Bash")):
        (shelf,) = page_of_shelves(caller=Caller.of(owner), choice=choice)[0]
        assert [row.conversation.pk for row in shelf.rows] == [one.pk]


def test_statistics_page_takes_few_queries_and_reports_pending_counts(
    owner: User, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    client = signed_in(owner)
    assert "Nothing to count yet" in client.get("/statistics").content.decode()
    make_conversation(owner, said(1, model="<b>large</b>"), agent="codex & co")
    page = client.get("/statistics").content.decode()
    assert "is still being counted" in page
    assert asked_for("convmemory.conversations.tasks.count_for_statistics").count() == 1
    count_for_statistics(archive_id=owner.pk)
    with django_assert_max_num_queries(12):
        page = client.get("/statistics").content.decode()
    assert "being counted" not in page
    assert 'href="/library?model=%3Cb%3Elarge%3C%2Fb%3E"' in page
    assert 'href="/search?agent=codex%20%26%20co"' in page
    assert "/search?after=2026-03-01&amp;before=2026-03-31" in page
    for asked, shown in (("36", 36), ("6", 6), ("7", 18), ("many", 18), ("", 18)):
        page = flat(client.get("/statistics", {"months": asked}).content.decode())
        assert page.count('class="column-bar"') == shown
        assert f'?months={shown}" aria-current="true"' in page
    part = client.get("/statistics", headers={"HX-Request": "true", "HX-Target": "figures"}).content.decode()
    assert "<html" not in part


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0"), (950, "950"), (1_240, "1.2k"), (38_400, "38k"), (1_160_000, "1.2M"), (2 * 10**9, "2.0G")],
)
def test_short_count_has_unit(count: int, shown: str) -> None:
    assert short_count(count) == shown
