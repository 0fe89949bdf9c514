"""The river of time counts the messages that there are, of its owner alone; and what was worked on in a period."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from convmemory.accounts.callers import Caller, acting_as
from convmemory.accounts.space_invitations import invite
from convmemory.accounts.spaces import create_space, remove_member
from convmemory.conversations import curating, projects
from convmemory.conversations.filters import Filters
from convmemory.conversations.marking import set_mark
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.hiding import hide_stored_keys
from convmemory.conversations.messages.parts import ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation, Figures, Message
from convmemory.conversations.periods import Points, on_this_day, points_in, summary_of
from convmemory.conversations.reading import page_of_conversations
from convmemory.conversations.river import BANDS, DAYS_SHOWN, By, Period, River, _counts, river_of
from convmemory.conversations.statistics import count_changed, uncounted
from convmemory.core.acting import acting_for, in_archive_of
from convmemory.core.marks import Mark
from convmemory.moving.carrying import carry
from tests.factories import add_member, assistant_says, exchange, make_conversation, make_user, user_says
from tests.support.planted_keys import planted_keys

pytestmark = pytest.mark.django_db

TODAY = date(2026, 11, 27)
MAY = Period.of_month(2024, 5)


def at(day: str, hour: int = 12) -> datetime:
    return datetime.fromisoformat(day).replace(hour=hour, tzinfo=UTC)


def on(*days: str) -> list[MessageDraft]:
    """A question and an answer on each of the days."""
    return [draft for day in days for draft in (user_says(f"q {day}", created_at=at(day)),
            assistant_says(f"a {day}", created_at=at(day)))]  # fmt: skip


def count_all(archive_id: int) -> None:
    while count_changed(archive_id=archive_id):
        pass


def river(owner: User, period: Period | None = None, by: Any = "project") -> River:
    count_all(owner.pk)
    shown = river_of(caller=Caller.of(owner), by=by, today=TODAY, period=period)
    assert shown
    return shown


def bands(shown: River) -> list[tuple[str, int]]:
    return [(band.label, band.messages) for band in shown.bands]


def stored(archive_id: int, by: By, chars: int) -> Counter[tuple[str, str]]:
    """The messages of conversations that lists show, counted one by one."""
    rows = Message.objects.filter(
        archive_id=archive_id, conversation__trashed_at=None, conversation__archived_at=None
    ).select_related("conversation")
    return Counter(
        (
            timezone.localdate(row.created_at or row.conversation.created_at).isoformat()[:chars],
            row.conversation.project if by == "project" else row.conversation.agent or row.conversation.source,
        )
        for row in rows
    )


def counted(archive_id: int, by: By, chars: int) -> dict[tuple[str, str], int]:
    count_all(archive_id)
    rows = _counts(Caller.for_archive(archive_id), by, chars, None).counts
    return {(row.period, row.band): row.messages for row in rows}


def changes(owner: User) -> Iterator[int]:
    """Change the archive in each way in which counts can change; yield the archives that changed."""
    caller = Caller.of(owner)
    mill = make_conversation(owner, on("2024-05-14", "2024-05-15", "2025-01-01"), project="/src/mill", agent="codex")
    other = make_conversation(owner, on("2024-05-14"), project="/src/mill", source="chatgpt")
    undated = make_conversation(owner, exchange(("no date", "none")))
    yield owner.pk
    ingest.append_messages(caller=caller, conversation_id=mill.pk, drafts=on("2025-02-03"))
    yield owner.pk
    projects.rename_project(caller=caller, project="/src/mill", name="/src/watermill")
    yield owner.pk
    ingest.change_conversation(caller=caller, conversation_id=other.pk, values={"agent": "claude", "project": ""})
    yield owner.pk
    curating.archive_all(caller=caller, conversation_ids=[undated.pk], archived=True)
    yield owner.pk
    told = exchange(("no date yet", "none"))
    ingest.sync_conversation(caller=caller, draft=ConversationDraft(told, source="codex", source_id="s1"))
    yield owner.pk
    told = [*told, user_says("the date is", source_key="u1", created_at=at("2023-03-04"))]
    ingest.sync_conversation(caller=caller, draft=ConversationDraft(told, source="codex", source_id="s1"))
    yield owner.pk
    ingest.delete_conversation(caller=caller, conversation_id=mill.pk)
    yield owner.pk
    ingest.restore_conversation(caller=caller, conversation_id=mill.pk)
    yield owner.pk
    space = create_space(person=owner, name="Waterworks")
    with acting_as(Caller.of(owner)) as there:
        carry(caller=there, kind="conversation", object_id=mill.pk, space_id=space.pk, is_copy=False)
    yield owner.pk
    with acting_for(space.pk, person_id=owner.pk):
        assert counted(space.pk, "project", 10) == stored(space.pk, "project", 10) != {}
    with acting_as(Caller.of(owner)) as there:
        carry(caller=there, kind="conversation", object_id=mill.pk, space_id=None, is_copy=False)
    yield owner.pk
    ingest.delete_for_good(caller=caller, conversation_id=mill.pk)
    yield owner.pk


def test_counts_are_those_of_stored_messages_whatever_changes(owner: User) -> None:
    make_conversation(make_user(), on("2024-05-14"), project="/foreign")
    seen = []
    kinds: list[tuple[By, int]] = [("project", 7), ("project", 10), ("program", 10)]
    for archive_id in changes(owner):
        for by, chars in kinds:
            assert counted(archive_id, by, chars) == stored(archive_id, by, chars)
        seen.append(tuple(sorted((stored(archive_id, "project", 10) + stored(archive_id, "program", 10)).items())))
    assert len(set(seen)) >= 8


def test_days_are_those_of_time_zone_of_pages(owner: User, settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    late = [user_says("late", created_at=at("2024-05-31", 23)), assistant_says("yes", created_at=at("2024-05-31", 21))]
    make_conversation(owner, late)
    count_all(owner.pk)
    assert {row.period: row.messages for row in _counts(Caller.of(owner), "project", 10, None).counts} == {
        "2024-05-31": 1,
        "2024-06-01": 1,
    }
    assert river(owner, MAY).messages == 1


def test_whole_archive_is_shown_by_months_and_young_one_by_days(owner: User) -> None:
    assert river_of(caller=Caller.of(owner), by="project", today=TODAY) is None
    make_conversation(owner, on("2026-11-20"), project="/src/mill")
    young = river(owner)
    assert (young.grain, young.messages, young.period.last) == ("day", 2, TODAY)
    assert len(young.columns) == 30
    make_conversation(owner, on("2017-02-03"), project="/src/mill")
    old = river(owner)
    assert (old.grain, old.messages, old.period.first) == ("month", 4, date(2017, 2, 1))
    assert old.columns[0].period == Period.of_month(2017, 2)
    assert old.columns[-1].period == Period.of_month(2026, 11)


def test_picture_of_period_counts_its_days_alone(owner: User) -> None:
    make_conversation(owner, on("2024-04-30", "2024-05-01", "2024-05-31", "2024-06-01"), project="/src/mill")
    may = river(owner, MAY)
    assert (may.grain, may.messages, len(may.columns)) == ("day", 4, 31)
    longer = river(owner, Period(date(2024, 5, 2), date(2024, 12, 30)))
    assert longer.period.days > DAYS_SHOWN
    assert (longer.grain, longer.messages, len(longer.columns)) == ("month", 4, 8)
    assert longer.columns[0].period == Period(date(2024, 5, 2), date(2024, 5, 31))
    assert longer.columns[-1].period.last == date(2024, 12, 30)
    assert river_of(caller=Caller.of(owner), by="project", today=TODAY, period=Period.of_month(2020, 1)) is None


def test_messages_with_wrong_dates_are_left_out_and_counted_apart(owner: User) -> None:
    make_conversation(owner, on("2024-05-14"))
    strange = [user_says(str(year), created_at=datetime(year, 1, 2, tzinfo=UTC)) for year in (1, 1970, 9999)]
    make_conversation(owner, strange)
    shown = river(owner)
    assert (shown.messages, shown.outside) == (3, 2)  # that of year 9999 counts as undated
    assert shown.period.first == date(2024, 5, 1)
    assert river_of(caller=Caller.of(owner), by="project", today=TODAY, period=Period.of_year(9999)) is None
    assert river(owner, Period(date.min, date.max)).messages == 3
    assert summary_of(caller=Caller.of(owner), period=Period(date.min, date.max)).count == 2


def test_projects_past_the_largest_are_one_band(owner: User) -> None:
    for number in range(12):
        make_conversation(owner, on(*["2024-05-14"] * (number + 1)), project=f"/src/{number}", agent="codex")
    shown = river(owner)
    assert len(shown.bands) == BANDS
    assert bands(shown)[0] == ("11", 24)
    assert bands(shown)[-1] == ("6 other projects", 42)
    assert sum(count for _, count in bands(shown)) == shown.messages == 156
    assert bands(river(owner, by="program")) == [("codex", 156)]


def by_space(person: User) -> dict[str, int]:
    """The bands of the spaces that the database shows to a person, and of their own archive."""
    caller = Caller.of(person)
    with acting_as(caller):
        shown = river_of(caller=caller, by="space", today=TODAY)
        rows = _counts(caller, "space", 7, None).counts
    assert shown
    assert {row.band for row in rows} <= {str(access.archive_id) for access in caller.archives}
    return {band.label: band.messages for band in shown.bands}


def test_bands_of_spaces_are_those_of_members_alone(owner: User) -> None:
    space, other = (create_space(person=owner, name=name) for name in ("Waterworks", "Laundry"))
    reader, former, invited, stranger = (make_user() for _ in range(4))
    for person in (owner, reader, former, invited, stranger):
        make_conversation(person, on("2024-05-14"))
        count_all(person.pk)
    make_conversation(space, on("2024-05-14", "2024-06-14"), project="/src/mill")
    make_conversation(other, on("2025-06-14"))
    for archive in (space, other):
        count_all(archive.pk)
    for person in (reader, former):
        add_member(person=owner, space_id=space.pk, username=person.username, role="reader")
    both = {"Your own archive": 2, "Waterworks": 4}
    assert by_space(former) == by_space(reader) == both
    remove_member(person=owner, space_id=space.pk, member_id=former.pk)
    invite(person=owner, space_id=space.pk, username=invited.username, role="manager")
    assert by_space(owner) == both | {"Laundry": 2}
    assert by_space(reader) == both
    for person in (former, invited, stranger):
        assert by_space(person) == {"Your own archive": 2}
    with acting_as(Caller.of(owner)):
        assert bands(river(owner)) == [("Without a project", 2)]
        shown = river_of(caller=Caller.of(owner), by="space", today=TODAY)
    assert shown
    queries = {f"q=space%3A%22{name}%22" for name in ("Waterworks", "mine", "Laundry")}
    assert {band.query for band in shown.bands} == queries


def test_changed_conversations_of_spaces_are_those_to_count(owner: User) -> None:
    space = create_space(person=owner, name="Waterworks")
    make_conversation(owner, on("2024-05-14"))
    make_conversation(space, on("2024-05-14"))
    gone = make_conversation(space, on("2024-05-14"))
    with in_archive_of(space.pk):
        ingest.delete_conversation(caller=Caller.for_archive(space.pk), conversation_id=gone.pk)
    with acting_as(Caller.of(owner)):
        assert _counts(Caller.of(owner), "project", 7, None).uncounted == {owner.pk: 1}
    count_all(owner.pk)
    with acting_as(Caller.of(owner)):
        assert _counts(Caller.of(owner), "space", 7, None).uncounted == {space.pk: 1}
        assert _counts(Caller.of(owner), "project", 7, None).uncounted == {}


def test_years_without_message_are_one_column(owner: User) -> None:
    for day in ("2004-05-14", "2015-02-03", "2016-02-03", "2018-01-01"):
        make_conversation(owner, on(day))
    shown = river(owner)
    gaps = [column.period.label for column in shown.columns if column.is_gap]
    assert gaps == ["January 2005 to December 2014", "January 2019 to November 2026"]
    assert len(shown.columns) == 8 + 1 + 4 * 12 + 1
    assert shown.messages == 8
    assert [label.text for label in shown.labels] == ["2004", "2015", "2016", "2017", "2018"]
    assert shown.at(date(2015, 2, 1)) == f"{100 * 10 / 58:.2f}%"
    long = river(owner, Period(date.min, date.max))
    assert (long.messages, long.columns[0].is_gap, long.columns[-1].is_gap) == (8, True, True)


def test_period_says_what_was_worked_on_with_outcome_and_files_of_that_time(owner: User) -> None:
    edit = ToolCallPart("c", "Edit", {"file_path": "/src/mill/apply.py", "old_string": "a", "new_string": "b"})
    work = [
        user_says("order the locks", created_at=at("2024-05-14")),
        MessageDraft("assistant", (edit,), created_at=at("2024-05-14")),
        MessageDraft("tool", (ToolResultPart("c", "done"),), created_at=at("2024-05-14")),
        assistant_says("Both jobs take the locks by id now.", created_at=at("2024-05-14")),
        user_says("and later?", created_at=at("2024-07-01")),
        assistant_says("Nothing of it is left over today.", created_at=at("2024-07-01")),
    ]
    one = make_conversation(owner, work, title="Deadlock", project="/src/mill", agent="codex")
    make_conversation(owner, on("2024-05-20"), title="Short")
    make_conversation(owner, on("2024-06-20"), title="Later")
    count_all(owner.pk)
    summary = summary_of(caller=Caller.of(owner), period=MAY)
    assert (summary.count, [each.title for each in summary.worked]) == (2, ["Deadlock", "Short"])
    first = summary.worked[0]
    assert (first.conversation_id, first.messages, first.last_day) == (one.pk, 4, date(2024, 5, 14))
    assert (first.program, first.project_name, first.files) == ("codex", "mill", ("apply.py",))
    assert first.outcome.conclusion == "Both jobs take the locks by id now."
    assert first.url == f"/conversations/{one.pk}?turn=0#turn-0"


def test_list_of_month_has_the_conversations_that_its_summary_counts(owner: User) -> None:
    draft = ConversationDraft(messages=on("2024-04-30", "2024-05-02", "2024-07-03"), created_at=at("2024-04-30"))
    made = ingest.create_conversation(caller=Caller.of(owner), draft=draft)
    count_all(owner.pk)
    for month, number in ((3, 0), (4, 1), (5, 1), (6, 0), (7, 1), (8, 0)):
        period = Period.of_month(2024, month)
        limits = Filters(after=at(period.first.isoformat(), 0), before=at(period.last.isoformat(), 23))
        rows, _ = page_of_conversations(caller=Caller.of(owner), filters=limits, limit=9)
        assert [row.pk for row in rows] == [made.pk] * number
        assert summary_of(caller=Caller.of(owner), period=period).count == number


def test_this_day_is_that_of_earlier_years(owner: User) -> None:
    for day in ("2023-11-27", "2021-11-27", "2025-11-26", "2026-11-27"):
        make_conversation(owner, on(day), title=day)
    hidden = make_conversation(owner, on("2020-11-27"), title="archived")
    Conversation.objects.filter(pk=hidden.pk).update(archived_at=timezone.now())
    shown = on_this_day(caller=Caller.of(owner), today=TODAY)
    assert [row.title for row in shown] == ["2023-11-27", "2021-11-27"]
    make_conversation(owner, on("2024-02-29"), title="leap")
    assert [row.title for row in on_this_day(caller=Caller.of(owner), today=date(2028, 2, 29))] == ["leap"]


def test_points_are_starred_conversations_and_marked_turns_of_the_period(owner: User) -> None:
    caller = Caller.of(owner)
    one = make_conversation(owner, on("2024-05-14", "2024-05-16"), title="Locks")
    two = make_conversation(owner, on("2024-06-02"), title="Later")
    for each in (one, two):
        curating.set_star(caller=caller, conversation_id=each.pk, starred=True)
    set_mark(caller=caller, conversation_id=one.pk, turn_number=0, mark=Mark("outdated", "by id now"))
    points = points_in(caller=caller, river=river(owner, MAY)).shown
    assert [(point.kind, point.day.day, point.url) for point in points] == [
        ("outdated", 14, f"/conversations/{one.pk}?turn=0#turn-0"),
        ("star", 16, f"/conversations/{one.pk}"),
    ]
    assert points[0].label == "Marked as outdated · Locks · by id now · 14 May 2024"
    assert points[0].at == f"{100 * 13 / 31:.2f}%"
    assert [point.title for point in points_in(caller=caller, river=river(owner)).shown][-1] == "Later"
    shown = river(owner, MAY)
    ingest.delete_conversation(caller=caller, conversation_id=one.pk)
    assert points_in(caller=caller, river=shown) == Points()


def decided(
    owner: User, *days: str, project: str = "", told: str = "Use EdDSA for the JWTs of the portal instead of HS256."
) -> Conversation:
    """A conversation that signs tokens with HS256 on the first day, and decides otherwise on the second."""
    said = (
        ("How do we sign the JWTs of the portal?", "The portal signs its JWTs with HS256."),
        (told, "The portal signs its JWTs with EdDSA now."),
    )
    drafts = [
        draft
        for day, (question, answer) in zip(days, said, strict=True)
        for draft in (user_says(question, created_at=at(day)), assistant_says(answer, created_at=at(day)))
    ]
    return make_conversation(owner, drafts, title="Tokens", project=project)


def test_turns_that_decide_otherwise_and_overturned_ones_are_points(owner: User) -> None:
    one = decided(owner, "2024-05-14", "2024-05-16")
    decided(owner, "2024-05-03", "2024-05-03")
    make_conversation(owner, on("2024-05-14", "2024-05-15"))
    points = points_in(caller=Caller.of(owner), river=river(owner, MAY)).shown
    quote = "Use EdDSA for the JWTs of the portal instead of HS256."
    assert [point.label for point in points] == [
        f"Decided otherwise · Tokens · {quote} · 3 May 2024",
        f"Overturned later · Tokens · {quote} · 14 May 2024",
        f"Decided otherwise · Tokens · {quote} · 16 May 2024",
    ]
    assert [point.url for point in points[1:]] == [f"/conversations/{one.pk}?turn={n}#turn-{n}" for n in (0, 1)]
    later = one.messages.get(position=2)
    ingest.supersede_from(caller=Caller.of(owner), conversation_id=one.pk, message_id=later.pk)
    assert [point.day.day for point in points_in(caller=Caller.of(owner), river=river(owner, MAY)).shown] == [3]


def test_figures_of_version_without_points_are_counted_again(owner: User) -> None:
    decided(owner, "2024-05-14", "2024-05-16")
    shown = river(owner)
    Figures.objects.update(points=None)
    assert points_in(caller=Caller.of(owner), river=shown) == Points()
    assert uncounted(caller=Caller.of(owner)) == 1
    assert points_in(caller=Caller.of(owner), river=river(owner)).count == 2
    assert uncounted(caller=Caller.of(owner)) == 0


def test_key_that_is_hidden_later_goes_from_points(owner: User, settings: Any) -> None:
    key = planted_keys()["github-token"]
    settings.HIDE_KEYS = False
    conversation = decided(owner, "2024-05-14", "2024-05-16", told=f"Use EdDSA for the JWTs instead of HS256: {key}.")
    shown = river(owner)
    (figures,) = Figures.objects.all()
    assert key in str(figures.points)
    settings.HIDE_KEYS = True
    hide_stored_keys(caller=Caller.of(owner))
    (figures,) = Figures.objects.all()
    assert figures.points is None
    assert points_in(caller=Caller.of(owner), river=shown) == Points()
    assert uncounted(caller=Caller.of(owner)) == 1
    assert river(owner).messages == conversation.message_count
    assert key not in str(Figures.objects.get().points)


def test_points_of_one_slot_are_one_and_stars_come_first(owner: User) -> None:
    make_conversation(owner, on("2017-01-02", "2026-11-02"))
    for day in ("2024-05-14", "2024-05-15"):
        row = make_conversation(owner, on(day), title=day)
        curating.set_star(caller=Caller.of(owner), conversation_id=row.pk, starred=True)
        set_mark(caller=Caller.of(owner), conversation_id=row.pk, turn_number=0, mark=Mark("wrong"))
    decided(owner, "2024-05-14", "2024-05-16")
    points = points_in(caller=Caller.of(owner), river=river(owner))
    assert [point.label for point in points.shown] == ["Starred · 2024-05-15 · 15 May 2024 · and 5 more near it"]
    assert points.count == 6


def test_database_shows_no_other_owner_s_time(owner: User) -> None:
    stranger = make_user()
    secret = make_conversation(owner, on("2024-05-14"), title="secret", project="/secret")
    curating.set_star(caller=Caller.of(owner), conversation_id=secret.pk, starred=True)
    set_mark(caller=Caller.of(owner), conversation_id=secret.pk, turn_number=0, mark=Mark("wrong"))
    decided(owner, "2024-05-14", "2024-05-16", project="/secret")
    shown = river(owner, MAY)
    assert points_in(caller=Caller.of(owner), river=shown).count == 4
    claimed = Caller.for_archive(owner.pk)
    with acting_for(stranger.pk):  # a caller of the wrong archive: policies are what is left
        assert _counts(claimed, "project", 7, None).counts == []
        assert summary_of(caller=claimed, period=MAY).worked == []
        assert on_this_day(caller=claimed, today=date(2026, 5, 14)) == []
        assert points_in(caller=claimed, river=shown) == Points()
    assert river_of(caller=Caller.of(stranger), by="project", today=TODAY) is None


def test_picture_and_summary_are_one_query_each(owner: User) -> None:
    make_conversation(owner, on("2017-05-14"))
    count_all(owner.pk)
    for work, most in (
        (lambda: river_of(caller=Caller.of(owner), by="project", today=TODAY), 1),
        (lambda: summary_of(caller=Caller.of(owner), period=MAY), 1),
        (lambda: on_this_day(caller=Caller.of(owner), today=TODAY), 1),
    ):
        with CaptureQueriesContext(connection) as queries:
            work()
        assert len(queries) == most
