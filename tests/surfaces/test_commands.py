"""The commands that people type: search and keys."""

import gc
import json
from io import StringIO

import django
import pytest
from django.contrib.auth.models import User
from django.core import management
from django.core.management import CommandError, call_command
from django.test import Client

from convmemory.__main__ import main
from convmemory.accounts.keys import caller_of_key
from convmemory.accounts.models import AuditEntry
from convmemory.conversations.models import Conversation
from convmemory.core import acting
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation, make_user

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out, stderr=out)
    return out.getvalue()


def indexed(owner: User) -> int:
    conversation = make_conversation(owner, exchange(("what is the capital of Peru?", "Lima.")), title="Geography")
    index_conversation(conversation_id=conversation.pk)
    return conversation.pk


def test_search_prints_title_question_and_link() -> None:
    number = indexed(make_user("ada"))
    text = run("conversation_search", "--query", "capital of Peru", "--user", "ada")
    assert "% - Geography" in text
    assert "what is the capital of Peru?" in text
    assert f"/conversations/{number}?turn=0" in text


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "full_text"])
def test_two_users_with_same_texts_see_only_their_own(mode: str) -> None:
    numbers = {name: indexed(make_user(name)) for name in ("ada", "bob")}
    for name, number in numbers.items():
        answer = json.loads(
            run("conversation_search", "--query", "capital of Peru", "--user", name, "--mode", mode, "--json")
        )
        assert [hit["conversation_id"] for hit in answer["results"]] == [number]
        assert answer["results"][0]["url"] == f"/conversations/{number}?turn=0"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--query", "x", "--user", "ada"], "2 to 10,000 characters"),
        (["--query", "Peru", "--user", "nobody"], "create_api_key nobody --create"),
        (["--query", "Peru", "--user", "ada", "--limit", "0"], "1 to 50"),
        (["--query", "Peru", "--user", "ada", "--scope", "dreams"], "no scope"),
        (["--query", "Peru", "--user", "ada", "--after", "May"], "'May' is no time: write it as 2026-03-01"),
        (["--query", "Peru", "--user", "ada", "--after", "2026-05-01T09:00+02:00", "--limit", "0"], "1 to 50"),
    ],
)
def test_bad_searches_say_what_to_do(arguments: list[str], reason: str) -> None:
    make_user("ada")
    with pytest.raises(CommandError, match=reason):
        run("conversation_search", *arguments)


def test_search_command_reports_exclusions_and_unindexed_turns() -> None:
    ada = make_user("ada")
    indexed(ada)
    make_conversation(ada, exchange(("what is the capital of Chile?", "Santiago.")))  # not indexed yet
    asked = ("conversation_search", "--query", "capital of Peru -Lima", "--user", "ada")
    text = run(*asked)
    assert "-Lima keeps out" in text
    assert "1 of 2 turns only by words, not by meaning" in text
    answer = json.loads(run(*asked, "--json"))
    assert (answer["pending"], answer["failed"]) == (1, 0)
    assert "-Lima keeps out" in answer["notes"][0]


def test_search_goes_on_at_its_cursor() -> None:
    ada = make_user("ada")
    numbers = {indexed(ada) for _ in range(2)}
    asked = ("conversation_search", "--query", "capital of Peru", "--user", "ada", "--limit", "1")
    first = run(*asked)
    cursor = first.split("--cursor ")[1].split()[0]
    second = run(*asked, "--cursor", cursor)
    assert "--cursor" not in second
    assert {number for number in numbers for text in (first, second) if f"/conversations/{number}?" in text} == numbers
    with pytest.raises(CommandError, match="cursor"):
        run(*asked, "--cursor", "nonsense")


def test_new_user_can_sign_in(monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("a long passphrase\n"))
    assert "/login" in run("create_user", "ada")
    form = {"username": "ada", "password": "a long passphrase"}
    assert client.post("/login", form).status_code == 302
    assert client.get("/").status_code == 200
    ada = User.objects.get(username="ada")
    assert not ada.is_staff
    assert AuditEntry.objects.filter(action="made", what=f"user {ada.pk}", about_id=ada.pk, surface="command").exists()


@pytest.mark.parametrize(
    ("name", "password", "reason"),
    [
        ("bob", "a long passphrase", "bob' already.*changepassword bob"),
        ("ada", "short", "too short"),
        ("ada", "", "too short"),
        ("ada", "1234567890123", "numeric"),
        ("a b", "a long passphrase", "valid username"),
        ("", "a long passphrase", "blank"),
    ],
)
def test_user_who_could_not_sign_in_is_not_made(
    monkeypatch: pytest.MonkeyPatch, name: str, password: str, reason: str
) -> None:
    make_user("bob")
    monkeypatch.setattr("sys.stdin", StringIO(f"{password}\n"))
    with pytest.raises(CommandError, match=reason):
        run("create_user", name)
    assert User.objects.count() == 1


def test_user_made_for_key_is_told_how_to_sign_in(client: Client) -> None:
    assert "manage.py changepassword ada" in run("create_api_key", "ada", "--create")
    assert "Ask who runs this server" in client.get("/login").content.decode()
    make_user("bob")
    assert "changepassword" not in run("create_api_key", "bob", "--create")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "cannot be blank"),
        ("a" * 200, "at most 150 characters"),
        ("a b", "valid username"),
        ("BOB", "'bob' already, whose name differs in upper and lower case only"),
    ],
)
def test_create_api_key_refuses_names_that_no_user_can_have(name: str, reason: str) -> None:
    make_user("bob")
    with pytest.raises(CommandError, match=reason):
        run("create_api_key", name, "--create")
    assert User.objects.count() == 1


def test_create_user_refuses_name_that_differs_in_letter_case_only(monkeypatch: pytest.MonkeyPatch) -> None:
    make_user("bob")
    monkeypatch.setattr("sys.stdin", StringIO("a long passphrase\n"))
    with pytest.raises(CommandError, match="differs in upper and lower case only"):
        run("create_user", "Bob")


@pytest.mark.parametrize("path", ["add/", "{bob}/change/"])
def test_admin_refuses_user_name_that_differs_in_letter_case_only(client: Client, path: str) -> None:
    staff, bob = make_user("ada"), make_user("bob")
    User.objects.filter(pk=staff.pk).update(is_staff=True, is_superuser=True)
    client.force_login(User.objects.get(pk=staff.pk))
    values = {"username": "ADA", "usable_password": "true", "password1": "a long phrase", "password2": "a long phrase"}
    values |= {"date_joined_0": "2026-01-01", "date_joined_1": "10:00"}
    answer = client.post(f"/admin/auth/user/{path.format(bob=bob.pk)}", values)
    assert "already exists" in answer.content.decode()
    assert set(User.objects.values_list("username", flat=True)) == {"ada", "bob"}


def test_new_key_stands_alone_on_last_line() -> None:
    key = run("create_api_key", "ada", "--create").strip().splitlines()[-1]
    caller = caller_of_key(key)
    assert caller is not None
    assert caller.user.username == "ada"
    assert not caller.user.has_usable_password()


def test_key_for_missing_user_needs_create() -> None:
    with pytest.raises(CommandError, match="--create"):
        run("create_api_key", "nobody")


def test_program_is_loaded_without_garbage_collector_and_run_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(acting, "process_acts_as", lambda login: None)
    monkeypatch.setattr(django, "setup", lambda: seen.append(gc.isenabled()))
    monkeypatch.setattr(management, "execute_from_command_line", lambda arguments: seen.append(gc.isenabled()))
    main()
    gc.unfreeze()
    assert seen == [False, True]


def test_samples_are_loaded_and_removed_without_what_the_person_wrote() -> None:
    ada = make_user("ada")
    own = make_conversation(ada, exchange(("is the okapi shy?", "Very.")))
    out = StringIO()
    call_command("samples", user="ada", stdout=out)
    count = Conversation.objects.count() - 1
    assert count > 5
    assert f"{count} sample conversations are in the archive" in out.getvalue()
    with pytest.raises(CommandError, match="Nothing was removed"):
        call_command("samples", user="ada", remove=True, stdout=out, stderr=StringIO())
    call_command("samples", user="ada", remove=True, yes=True, stdout=out, stderr=StringIO())
    assert list(Conversation.objects.values_list("pk", flat=True)) == [own.pk]
    call_command("samples", user="ada", remove=True, yes=True, stdout=out)
    assert "0 sample conversations were put into the trash" in out.getvalue()
