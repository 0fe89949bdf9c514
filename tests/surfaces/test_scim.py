"""SCIM 2.0: a directory makes, changes and deactivates accounts and groups, over HTTP with a token of its own."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import StringIO
from typing import Any

import httpx2
import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings
from pytest_django.live_server_helper import LiveServer

from convmemory.accounts.identities import account_of
from convmemory.accounts.keys import caller_of_key, create_key
from convmemory.accounts.models import AuditEntry, GroupQuota, ProvisionedAccount
from convmemory.accounts.quota import limits_of
from convmemory.accounts.scim.tokens import create_token
from convmemory.accounts.spaces import create_space
from convmemory.accounts.tasks import send_mail
from convmemory.conversations.models import Conversation
from convmemory.core import acting
from convmemory.core.identity_providers import IdentityProvider
from convmemory.sign_in.oidc import SignInRefused
from tests.factories import exchange, make_conversation, make_user
from tests.support.directory import USER, Directory
from tests.support.smtp_server import running_smtp_server

pytestmark = pytest.mark.django_db


@pytest.fixture
def directory() -> Directory:
    return Directory()


def groups_of(user: User) -> set[str]:
    return set(user.groups.values_list("name", flat=True))


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_every_check_of_scim2_tester_passes(live_server: LiveServer) -> None:
    """The client is imported here: it takes three seconds, which every run would spend."""
    from scim2_client.engines.httpx2 import SyncSCIMClient
    from scim2_tester import Status, check_server

    class DeletingOnce(SyncSCIMClient):
        """Deletes each resource once: scim2-tester deletes all it has made after each check, 320 requests of 500."""

        def delete(self, target: Any = None, id: Any = None, *args: Any, **values: Any) -> Any:
            deleted: set[Any] = self.__dict__.setdefault("deleted", set())
            if (target, id) in deleted:
                return None
            deleted.add((target, id))
            return super().delete(target, id, *args, **values)

    headers = {"Authorization": f"Bearer {create_token(name='tester')}"}
    with httpx2.Client(base_url=f"{live_server.url}/scim/v2", headers=headers) as http:
        results = check_server(DeletingOnce(http))
    failed = [f"{each.title}: {each.reason}" for each in results if each.status not in (Status.SUCCESS, Status.SKIPPED)]
    assert (failed, len(results) > 50) == ([], True)


def test_requests_without_valid_token_are_told_what_to_do(owner: User) -> None:
    key, anonymous = create_key(person=owner), Client()
    assert "manage.py scim_token create NAME" in refusal(anonymous.get("/scim/v2/Users"))
    output = StringIO()
    call_command("scim_token", "create", "okta", stdout=output)
    *_, token = output.getvalue().splitlines()
    client = Client(headers={"Authorization": f"Bearer {token}"})
    assert client.get("/scim/v2/ServiceProviderConfig").json()["patch"]["supported"] is True
    for bearer in (key, "", token[:-1]):
        refused = Client(headers={"Authorization": f"Bearer {bearer}"}).get("/scim/v2/Users")
        assert "keys of people are not accepted" in refusal(refused)
    assert caller_of_key(token) is None
    listed = StringIO()
    call_command("scim_token", "list", stdout=listed)
    assert "okta, made" in listed.getvalue()
    number, told = listed.getvalue().split()[0], StringIO()
    with pytest.raises(CommandError, match=r"Nothing was revoked.*--yes"):
        call_command("scim_token", "revoke", number, stderr=told)
    assert "okta, made" in told.getvalue()
    assert client.get("/scim/v2/ServiceProviderConfig").status_code == 200
    call_command("scim_token", "revoke", number, "--yes", stdout=StringIO(), stderr=StringIO())
    assert "manage.py scim_token create NAME" in refusal(client.get("/scim/v2/Users"))
    with pytest.raises(CommandError, match="no active SCIM token 987"):
        call_command("scim_token", "revoke", "987")


def refusal(response: Any) -> str:
    assert (response.status_code, response.headers["Content-Type"]) == (401, "application/scim+json")
    return str(response.json()["detail"])


def test_superusers_and_spaces_do_not_exist_for_directory(directory: Directory, owner: User) -> None:
    root, space = User.objects.create_superuser("root"), create_space(person=owner, name="Lab")
    assert directory.found("/Users", "active pr") == [owner.username]
    for pk in (root.pk, space.pk, 10**30):
        assert directory.send("GET", f"/Users/{pk}").status_code == 404
        assert directory.patch(f"/Users/{pk}", {"op": "replace", "path": "active", "value": False}).status_code == 404
    taken = directory.send("POST", "/Users", {"schemas": [USER], "userName": "ROOT", "active": True})
    assert (taken.status_code, taken.json()["scimType"]) == (409, "uniqueness")
    group = directory.made("/Groups", displayName="Lab", members=[{"value": str(owner.pk)}])
    refused = directory.patch(
        f"/Groups/{group['id']}", {"op": "add", "path": "members", "value": [{"value": str(root.pk)}]}
    )
    assert (refused.status_code, groups_of(root)) == (400, set())


def test_account_has_what_directory_says_and_no_password(directory: Directory) -> None:
    made = directory.made(
        "/Users", userName="ada@\0example.org", externalId="7f3", active=True, title="Countess", password="x" * 20,
        name={"givenName": "Ada", "familyName": "King", "formatted": "Ada King"},
        emails=[{"value": "home@example.org"}, {"value": "ada@example.org", "type": "work", "primary": True}],
    )  # fmt: skip
    user = User.objects.get(username="ada@example.org")
    assert (user.first_name, user.last_name, user.email) == ("Ada", "King", "ada@example.org")
    assert not user.has_usable_password()
    assert made["emails"] == [{"value": "ada@example.org", "type": "work", "primary": True}]
    assert made["meta"]["location"] == f"http://testserver/scim/v2/Users/{user.pk}"
    entra = [
        {"op": "Add", "path": 'emails[type eq "work"].value', "value": "ada.king@example.org"},
        {"op": "Replace", "path": "name.familyName", "value": "Lovelace"},
        {"op": "Replace", "path": "userName", "value": "ada.lovelace@example.org"},
    ]
    assert directory.patch(f"/Users/{user.pk}", *entra).status_code in (200, 204)
    user.refresh_from_db()
    said = (user.username, user.last_name, user.email)
    assert said == ("ada.lovelace@example.org", "Lovelace", "ada.king@example.org")
    user.email = "by.hand@example.org"
    user.save()
    ProvisionedAccount.objects.update(email_type="", email_is_primary=None)
    directory.patch(f"/Users/{user.pk}", entra[0])
    user.refresh_from_db()
    assert user.email == "ada.king@example.org"
    for wrong in (
        {"userName": "a b"},
        {"userName": "a" * 151},
        {"userName": "b", "emails": [{"value": "no address"}]},
    ):
        answer = directory.send("POST", "/Users", {"schemas": [USER], "active": True, **wrong})
        assert (answer.status_code, answer.json()["scimType"]) == (400, "invalidValue")


DEACTIVATIONS: list[dict[str, Any]] = [
    {"op": "Replace", "path": "active", "value": "False"},  # Entra, before 2021
    {"op": "Replace", "path": "active", "value": False},
    {"op": "replace", "value": {"active": False}},  # Okta
]


@pytest.mark.parametrize("operation", DEACTIVATIONS)
def test_deactivation_ends_sessions_and_keys_for_good_and_keeps_data(
    directory: Directory, operation: dict[str, Any]
) -> None:
    user, other = directory.user("ada"), make_user()
    make_conversation(user, exchange(("one", "two")))
    browser, bystander, key = Client(), Client(), create_key(person=user)
    browser.force_login(user)
    bystander.force_login(other)
    assert directory.patch(f"/Users/{user.pk}", operation).status_code in (200, 204)
    assert directory.send("GET", f"/Users/{user.pk}").json()["active"] is False
    with acting.without_owner():
        assert caller_of_key(key) is None
    assert browser.get("/settings/account").status_code == 302
    directory.patch(f"/Users/{user.pk}", {"op": "Replace", "path": "active", "value": True})
    assert User.objects.get(pk=user.pk).is_active
    with acting.without_owner():
        assert caller_of_key(key) is None
    assert browser.get("/settings/account").status_code == 302
    assert bystander.get("/settings/account").status_code == 200
    assert Conversation.objects.filter(archive_id=user.pk).count() == 1
    said = AuditEntry.objects.filter(about_id=user.pk, surface="api").order_by("pk").values_list("action", flat=True)
    assert list(said) == ["made", "made", "revoked", "restored"][-len(said) :]


def test_deleted_user_is_deactivated_and_comes_back_with_same_external_id_alone(directory: Directory) -> None:
    user = directory.user("ada", externalId="7f3")
    make_conversation(user, exchange(("one", "two")))
    assert directory.send("DELETE", f"/Users/{user.pk}").status_code == 204
    assert directory.send("GET", f"/Users/{user.pk}").status_code == 404
    assert directory.found("/Users", 'userName eq "ada"') == []
    assert (User.objects.get(pk=user.pk).is_active, Conversation.objects.count()) == (False, 1)
    for other in ({"externalId": "another"}, {}):
        namesake = directory.send("POST", "/Users", {"schemas": [USER], "userName": "Ada", "active": True, **other})
        assert (namesake.status_code, "renamed or erased" in namesake.json()["detail"]) == (409, True)
    again = directory.user("ada", externalId="7f3")
    assert (again.pk, again.is_active) == (user.pk, True)
    directory.send("DELETE", f"/Users/{user.pk}")
    User.objects.filter(pk=user.pk).update(is_superuser=True)
    values = {"userName": "ada", "externalId": "7f3", "active": True}
    assert directory.send("POST", "/Users", {"schemas": [USER], **values}).status_code == 409
    assert not User.objects.get(pk=user.pk).is_active


@pytest.mark.django_db(transaction=True)
def test_change_that_waits_for_another_keeps_it(directory: Directory) -> None:
    user = directory.user("ada", externalId="7f3")

    def rename() -> int:
        try:
            operation = {"op": "Replace", "path": "name.givenName", "value": "Ada"}
            return int(directory.patch(f"/Users/{user.pk}", operation).status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with acting.maintenance(), transaction.atomic():  # a change of the externalId
            User.objects.filter(pk=user.pk).update(last_name="King")
            ProvisionedAccount.objects.filter(person_id=user.pk).update(external_id="8a1")
            answer = pool.submit(rename)
            wait_until_locked()
        assert answer.result(timeout=60) in (200, 204)
    known = ProvisionedAccount.objects.select_related("person").get()
    assert (known.external_id, known.person.first_name, known.person.last_name) == ("8a1", "Ada", "King")


def wait_until_locked() -> None:
    with connection.cursor() as cursor:
        for _ in range(1_000):
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone()[0]:
                return
            time.sleep(0.02)
    raise AssertionError("no statement waits for a lock")


def test_local_account_goes_on_when_directory_finds_it(directory: Directory) -> None:
    user, browser = make_user("grace"), Client()
    assert directory.found("/Users", 'userName eq "GRACE"') == ["grace"]
    values = {"schemas": [USER], "id": str(user.pk), "userName": "grace", "externalId": "9", "active": True}
    assert directory.send("PUT", f"/Users/{user.pk}", values).json()["externalId"] == "9"
    assert browser.login(username="grace", password="correct horse")
    assert not ProvisionedAccount.objects.get().was_made


def test_address_of_directory_leads_to_no_account_that_it_did_not_make(
    directory: Directory, settings: Settings
) -> None:
    grace, provider = make_user("grace"), IdentityProvider("corp", "Corp", "https://id.example.org", "c")
    User.objects.filter(pk=grace.pk).update(email="grace@example.org")
    emails = [{"value": "mallory@example.org", "type": "work"}]
    answer = directory.patch(f"/Users/{grace.pk}", {"op": "replace", "value": {"emails": emails}})
    assert answer.status_code in (200, 204)
    ada = directory.user("ada", emails=[{"value": "ada@example.org", "type": "work"}])
    assert User.objects.get(pk=grace.pk).email == "grace@example.org"
    assert directory.send("GET", f"/Users/{grace.pk}").json()["emails"] == emails
    assert directory.found("/Users", 'emails.value eq "mallory@example.org"') == ["grace"]
    with running_smtp_server(settings) as mailbox:
        for address in ("mallory@example.org", "grace@example.org"):
            Client().post("/password/reset", {"email": address})
        with acting.without_owner():
            send_mail()
        assert [message["To"] for message in mailbox.messages] == ["grace@example.org"]
    trusting = replace(provider, match_email=True)
    with acting.without_owner():
        with pytest.raises(SignInRefused, match="there is no account for you"):
            account_of(trusting, {"sub": "s-1", "email": "mallory@example.org", "email_verified": True})
        assert account_of(trusting, {"sub": "s-2", "email": "ada@example.org", "email_verified": True}) == ada


def test_staff_are_out_of_reach_of_token_without_option(directory: Directory) -> None:
    boss = make_user("boss")
    User.objects.filter(pk=boss.pk).update(is_staff=True, email="boss@example.org")
    emails = {"op": "replace", "value": {"emails": [{"value": "mallory@example.org"}], "active": False}}
    group = Group.objects.create(name="Desk")
    group.user_set.add(boss)
    assert directory.patch(f"/Users/{boss.pk}", emails).status_code == 404
    assert directory.send("DELETE", f"/Users/{boss.pk}").status_code == 404
    assert directory.found("/Users", "active pr") == []
    assert directory.patch(f"/Groups/{group.pk}", {"op": "replace", "value": {"members": []}}).status_code in (200, 204)
    boss.refresh_from_db()
    assert (boss.email, boss.is_active, groups_of(boss)) == ("boss@example.org", True, {"Desk"})
    output = StringIO()
    call_command("scim_token", "create", "entra", "--staff", stdout=output)
    wide = Directory(token=output.getvalue().splitlines()[-1])
    assert wide.patch(f"/Users/{boss.pk}", emails).status_code in (200, 204)
    boss.refresh_from_db()
    assert (boss.email, boss.is_active) == ("boss@example.org", False)
    root = User.objects.create_superuser("root")
    assert wide.patch(f"/Users/{root.pk}", emails).status_code == 404
    listed = StringIO()
    call_command("scim_token", "list", stdout=listed)
    assert [line.endswith("reaches staff") for line in listed.getvalue().splitlines()] == [False, True]


def test_members_follow_every_spelling_of_changes(directory: Directory) -> None:
    ada, bob, eve = (directory.user(name) for name in ("ada", "bob", "eve"))
    group = directory.made("/Groups", displayName="Research", externalId="g1", members=[{"value": str(ada.pk)}])
    path, row = f"/Groups/{group['id']}", Group.objects.get()
    GroupQuota.objects.create(group=row, turns=77)

    def members_after(**operation: Any) -> set[str]:
        assert directory.patch(path, operation).status_code in (200, 204)
        return set(row.user_set.values_list("username", flat=True))

    several = [{"value": str(bob.pk)}, {"value": str(eve.pk)}]
    assert members_after(op="Add", path="members", value=several) == {"ada", "bob", "eve"}
    assert limits_of(archive_id=eve.pk).turns == 77
    assert members_after(op="Remove", path="members", value=several[1:]) == {"ada", "bob"}
    assert members_after(op="remove", path=f'members[value eq "{bob.pk}"]') == {"ada"}
    assert members_after(op="replace", value={"members": several}) == {"bob", "eve"}
    assert members_after(op="Replace", path="displayName", value="Labs") == {"bob", "eve"}
    assert groups_of(bob) == {"Labs"}
    shown = directory.send("GET", f"/Users/{bob.pk}").json()["groups"]
    assert shown == [{"value": group["id"], "$ref": f"http://testserver/scim/v2{path}", "display": "Labs"}]
    said = AuditEntry.objects.filter(about_id=eve.pk, what__startswith="member of group").order_by("pk")
    assert list(said.values_list("action", flat=True)) == ["made", "revoked", "made"]
    answer = directory.patch(path, {"op": "Add", "path": "members", "value": [{"value": "99999999"}]})
    assert (answer.status_code, "no user" in answer.json()["detail"]) == (400, True)
    assert directory.send("DELETE", path).status_code == 204
    assert (groups_of(bob), GroupQuota.objects.count()) == (set(), 0)


FILTERS = [
    ('userName eq "ADA"', ["ada"]),
    ('userName ne "ada"', ["bob", "eve"]),
    ('userName sw "a" or userName ew "B"', ["ada", "bob"]),
    ('externalId eq "e-1"', ["ada"]),
    ('externalId eq "E-1"', []),
    ("not (externalId pr)", ["eve"]),
    ('emails.value co "EXAMPLE.org"', ["ada", "bob"]),
    ('emails[type eq "work" and value eq "ada@example.org"]', ["ada"]),
    ('emails[type eq "home" and value eq "ada@example.org"]', []),
    ("active eq false", ["bob"]),
    ('active eq true and (name.givenName eq "Eve" or externalId eq "e-1")', ["ada", "eve"]),
    ('meta.created gt "2020-01-01T00:00:00Z" and userName eq "eve"', ["eve"]),
    ('meta.lastModified lt "2020-01-01T00:00:00Z"', []),
    ('userName eq "x\\u0000y"', []),
    (f'{USER}:userName eq "bob"', ["bob"]),
]


@pytest.fixture
def three(directory: Directory) -> list[User]:
    ada = directory.user("ada", externalId="e-1", emails=[{"value": "ada@example.org", "type": "work"}])
    bob = directory.user("bob", externalId="e-2", active=False, emails=[{"value": "b@example.org", "type": "home"}])
    return [ada, bob, User.objects.create_user("eve", first_name="Eve")]


def test_filters_find_what_they_describe(directory: Directory, three: list[User]) -> None:
    assert [(text, directory.found("/Users", text)) for text, _ in FILTERS] == FILTERS
    ada, bob, _ = three
    for name, user in (("Labs", ada), ("Shop", bob)):
        directory.made("/Groups", displayName=name, externalId=name.lower(), members=[{"value": str(user.pk)}])
    labs = Group.objects.get(name="Labs")
    groups = [
        f'members.value eq "{ada.pk}"',
        f'id eq "{labs.pk}" and members[value eq "{ada.pk}"]',
        'displayName eq "labs"',
    ]
    assert [directory.found("/Groups", text) for text in groups] == [["Labs"]] * 3
    assert directory.found("/Groups", f'id eq "{labs.pk}" and members eq "{bob.pk}"') == []
    assert directory.found("/Users", f'groups.value eq "{labs.pk}"') == ["ada"]
    for text in ('userName gt "a"', "userName", 'nickName eq "x"', "(" * 300, "userName eq " + '"x"' * 5_000):
        answer = directory.client.get("/scim/v2/Users", {"filter": text})
        assert (answer.status_code, answer.json()["scimType"]) == (400, "invalidFilter"), text


def test_pages_follow_each_other_and_cost_no_more_with_more_rows(
    directory: Directory, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    groups = [Group.objects.create(name=f"g{number}") for number in range(4)]
    for number in range(5):
        make_user(f"p{number}").groups.set(groups)
    seen: list[str] = []
    for start in (1, 3, 5):
        answer = directory.client.get("/scim/v2/Users", {"startIndex": start, "count": 2}).json()
        assert (answer["totalResults"], answer["startIndex"]) == (5, start)
        seen += [each["userName"] for each in answer["Resources"]]
    assert seen == [f"p{number}" for number in range(5)]
    assert not directory.client.get("/scim/v2/Users", {"count": 0}).json().get("Resources")
    with django_assert_max_num_queries(6):  # token, count, users, their groups, a savepoint
        assert len(directory.client.get("/scim/v2/Users").json()["Resources"][4]["groups"]) == 4
    with django_assert_max_num_queries(6):
        assert len(directory.client.get("/scim/v2/Groups").json()["Resources"][3]["members"]) == 5
    with django_assert_max_num_queries(5):
        page = directory.client.get("/scim/v2/Groups", {"excludedAttributes": "members"}).json()
    assert "members" not in page["Resources"][3]


def test_first_sign_in_finds_account_that_scim_made(directory: Directory, settings: Settings) -> None:
    values = {"name": "corp", "label": "Corp", "issuer": "https://id.example.org", "client_id": "c"}
    provider = IdentityProvider(**values, scim_claim="oid")  # type: ignore[arg-type]
    ada, bob = directory.user("ada@example.org", externalId="7f3"), directory.user("bob@example.org")
    squatter = make_user("carol@example.org")
    directory.patch(f"/Users/{squatter.pk}", {"op": "Replace", "path": "name.givenName", "value": "Carol"})
    with acting.without_owner():
        assert account_of(provider, {"sub": "s-1", "oid": "7f3"}) == ada
        assert account_of(provider, {"sub": "s-1"}) == ada
        assert account_of(provider, {"sub": "s-2", "oid": "BOB@example.org"}) == bob
        for claims in ({"oid": "carol@example.org"}, {"oid": "7F3"}, {"oid": ["7f3"]}, {}):
            with pytest.raises(SignInRefused, match="there is no account for you"):
                account_of(provider, {"sub": "s-3", **claims})
        with pytest.raises(SignInRefused, match="another sign-in"):
            account_of(provider, {"sub": "s-4", "oid": "7f3"})
    directory.patch(f"/Users/{bob.pk}", {"op": "Replace", "path": "active", "value": False})
    with acting.without_owner(), pytest.raises(SignInRefused, match="deactivated"):
        account_of(provider, {"sub": "s-2"})


def test_account_that_trusted_identity_provider_made_is_taken_over_by_its_address(
    directory: Directory, settings: Settings
) -> None:
    provider = IdentityProvider("corp", "Corp", "https://id.example.org", "c", create_accounts=True, match_email=True)
    club = IdentityProvider("club", "Club", "https://club.example.org", "c", create_accounts=True)
    settings.OIDC_PROVIDERS = (provider, club)
    claims = {"sub": "s-1", "preferred_username": "ada@example.org", "email": "ada@example.org", "email_verified": True}
    with acting.without_owner():
        mallory = account_of(club, claims | {"preferred_username": "mallory"})
        ada = account_of(provider, claims)
    invited = make_user("bob")
    User.objects.filter(pk=invited.pk).update(email="bob@example.org")
    emails = {name: [{"value": f"{name}@Example.org", "type": "work"}] for name in ("ada", "bob")}
    assert directory.user("ada@example.org", emails=emails["ada"]) == ada
    assert directory.user("bob@example.org", emails=emails["bob"]) != invited
    assert User.objects.get(pk=mallory.pk).username == "mallory"
    directory.patch(f"/Users/{ada.pk}", {"op": "Replace", "path": "active", "value": False})
    with acting.without_owner(), pytest.raises(SignInRefused, match="deactivated"):
        account_of(provider, claims)
