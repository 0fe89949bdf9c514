"""Stores what SCIM says as users and Django groups, audit-logged.

Runs as maintenance, each operation in one transaction.

Superusers do not exist here, nor staff unless the token reaches them. The address that a directory gives an account
which it did not make leads to nothing (`ProvisionedAccount`). Deleting a user deactivates the account and hides it: a
directory cannot erase what people have stored.
"""

from contextlib import AbstractContextManager
from typing import Any

from django.contrib.auth import models as auth
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Case, Model, Prefetch, Q, QuerySet, When
from django.db.models.functions import Coalesce
from django.utils import timezone
from scim2_models import (
    InvalidValueException,
    Meta,
    NotFoundException,
    NotImplementedException,
    Resource,
    ResourceType,
    ResponseParameters,
    SearchRequest,
    UniquenessException,
)
from scim2_server.storage import ScimStorage, SearchPage

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.groups import change_members
from convmemory.accounts.mail import Change, warn
from convmemory.accounts.models import ProviderAddress, ProvisionedAccount, ProvisionedGroup, ScimToken
from convmemory.accounts.proxy_sign_in import ISSUER
from convmemory.accounts.scim.filters import GROUPS, USERS, condition_of
from convmemory.accounts.scim.resources import Email, Group, GroupOfUser, Member, Name, User
from convmemory.accounts.users import end_access
from convmemory.core.config import config
from convmemory.core.numbers import MAX_INTEGER, parse_number
from convmemory.core.text import storable
from convmemory.sign_in.models import LinkedIdentity

TAKEN = (
    "The name {name!r} is taken. If an account of that name should be used: find it by its userName and change it; an "
    "account that was deleted here comes back for the same externalId alone, or after staff have renamed or erased it."
)


DIRECTORY_ADDRESS = Case(When(provisioned__was_made=False, then="provisioned__email"), default="email")


def is_asked(name: str, parameters: ResponseParameters[Any] | None) -> bool:
    """Return whether a response contains an attribute."""
    if parameters is None:
        return True
    named, excluded = (
        {str(path).casefold().rpartition(":")[2].partition(".")[0] for path in paths or ()}
        for paths in (parameters.attributes, parameters.excluded_attributes)
    )
    return name not in excluded and (not named or name in named)


MANY = {"User": "groups", "Group": "members"}


class DirectoryStorage(ScimStorage):
    """The users and groups of this server, as a directory with this token sees them."""

    def __init__(self, token: ScimToken) -> None:
        self._by = f"by SCIM token {token.pk}"
        self._out_of_reach = Q(is_superuser=True) if token.reaches_staff else Q(is_superuser=True) | Q(is_staff=True)

    def operation(self) -> AbstractContextManager[None]:
        return transaction.atomic()

    def get(
        self,
        resource_type: ResourceType,
        resource_id: str,
        *,
        response_parameters: ResponseParameters[Any] | None = None,
    ) -> Resource[Any]:
        is_whole = is_asked(MANY[resource_type.name or ""], response_parameters)
        if response_parameters is None:  # it will be changed, in this transaction
            # By itself: a row that is joined would be read as it was before the wait for the lock.
            model = auth.User if resource_type.name == "User" else auth.Group
            model._default_manager.select_for_update().filter(pk=_number(resource_id)).first()
        row = self._found(self._rows(resource_type, with_many=is_whole), resource_type, resource_id)
        return resource_of(row, with_many=is_whole)

    def search(
        self, resource_types: list[ResourceType], search_request: SearchRequest[Any], *, position: Any = None
    ) -> SearchPage:
        if len(resource_types) != 1:
            raise NotImplementedException(detail="Search in /Users or in /Groups.")
        (resource_type,) = resource_types
        is_whole = is_asked(MANY[resource_type.name or ""], search_request)
        rows = self._rows(resource_type, with_many=is_whole)
        if search_request.filter is not None:
            attributes = USERS if resource_type.name == "User" else GROUPS
            rows = rows.filter(condition_of(search_request.filter.ast, attributes))
        start, count = min(search_request.start_index_0 or 0, MAX_INTEGER), search_request.count
        page = rows.order_by("pk")[start : None if count is None else start + count]
        return SearchPage(rows.count(), [resource_of(row, with_many=is_whole) for row in page])

    def create(self, resource_type: ResourceType, resource: Resource[Any]) -> Resource[Any]:
        if isinstance(resource, User):
            account = self._removed(resource) or self._of_identity_provider(resource)
            if account is None:
                person, account = auth.User(), ProvisionedAccount(was_made=True)
                person.set_unusable_password()
            else:
                person = account.person
            person.is_active = resource.active is not False
            self._save_user(person, account, resource)
            self._record(Action.MADE, f"user {person.pk}", about=person.pk)
            return self.get(resource_type, str(person.pk))
        assert isinstance(resource, Group)
        group = auth.Group()
        self._save_group(group, ProvisionedGroup(), resource)
        self._record(Action.MADE, f"group {group.pk}")
        change_members(group=group, join=self._members(resource), by=self._by)
        return self.get(resource_type, str(group.pk))

    def update(
        self, resource_type: ResourceType, resource: Resource[Any], *, expected_version: str | None = None
    ) -> Resource[Any]:
        row = self._found(self._rows(resource_type), resource_type, resource.id or "")
        if isinstance(resource, User):
            was_active = row.is_active
            row.is_active = resource.active is not False
            self._save_user(row, getattr(row, "provisioned", None) or ProvisionedAccount(), resource)
            if was_active and not row.is_active:
                end_access(user_id=row.pk)
                self._record(Action.REVOKED, f"user {row.pk} (deactivated)", about=row.pk)
            elif row.is_active and not was_active:
                self._record(Action.RESTORED, f"user {row.pk} (activated)", about=row.pk)
            else:
                self._record(Action.CHANGED, f"user {row.pk}", about=row.pk)
        else:
            assert isinstance(resource, Group)
            provisioned, before = getattr(row, "provisioned", None), {person.pk for person in row.people}
            self._save_group(row, provisioned or ProvisionedGroup(), resource)
            self._record(Action.CHANGED, f"group {row.pk}")
            now = self._members(resource)
            change_members(group=row, join=now - before, leave=before - now, by=self._by)
        return self.get(resource_type, str(row.pk))

    def delete(self, resource_type: ResourceType, resource_id: str, *, expected_version: str | None = None) -> None:
        row = self._found(self._rows(resource_type, with_many=False), resource_type, resource_id)
        if resource_type.name == "User":
            self._record(Action.DELETED, f"user {row.pk} (deactivated)", about=row.pk)
            end_access(user_id=row.pk)
            ProvisionedAccount.objects.update_or_create(person_id=row.pk, defaults={"removed_at": timezone.now()})
        else:
            self._record(Action.DELETED, f"group {row.pk}")
            row.delete()

    def _rows(self, resource_type: ResourceType, *, with_many: bool = True) -> QuerySet[Any]:
        """Return the rows of users or groups, the groups of users and the members of groups with them."""
        people = self._people()
        if resource_type.name == "User":
            return people.prefetch_related("groups") if with_many else people
        groups = auth.Group.objects.select_related("provisioned")
        return groups.prefetch_related(Prefetch("user_set", people, to_attr="people")) if with_many else groups

    def _people(self) -> QuerySet[auth.User]:
        """Return the accounts that exist for the directory."""
        rows = auth.User.objects.filter(provisioned__removed_at=None).exclude(self._out_of_reach)
        return rows.select_related("provisioned").annotate(
            changed_at=Coalesce("provisioned__updated_at", "date_joined"), address=DIRECTORY_ADDRESS
        )

    def _removed(self, resource: User) -> ProvisionedAccount | None:
        """Return the account that the directory deleted before, if it has the same name and the same externalId."""
        external_id, name = storable(resource.external_id or ""), storable(resource.user_name or "")
        rows = ProvisionedAccount.objects.exclude(removed_at=None).exclude(external_id="").select_related("person")
        reached = auth.User.objects.exclude(self._out_of_reach)
        return rows.filter(external_id=external_id, person__username__iexact=name, person__in=reached).first()

    def _of_identity_provider(self, resource: User) -> ProvisionedAccount | None:
        """Return a new row of the only account of the person that an identity provider, or a proxy, made.

        It is found by the address that a provider gave it whose addresses or ids the operator trusts, or by what the
        proxy calls the person. Its user name was derived from what the provider said, so that the directory does not
        find it by that.
        """
        email = storable(_email_of(resource).value or "")
        trusted = [each.issuer for each in config.oidc_providers if each.match_email or each.scim_claim]
        addresses = ProviderAddress.objects.filter(issuer__in=trusted, email__iexact=email)
        is_same = Q(email__iexact=email, pk__in=addresses.values("person_id"))
        if config.remote_user_scim:
            name, external_id = storable(resource.user_name or ""), storable(resource.external_id or "")
            of_proxy = Q(subject__iexact=name) | Q(subject=external_id)
            is_same |= Q(pk__in=LinkedIdentity.objects.filter(of_proxy, issuer=ISSUER).values("person_id"))
        rows = self._people().filter(is_same, provisioned=None, password__startswith=UNUSABLE_PASSWORD_PREFIX)
        people = list(rows[:2])
        return ProvisionedAccount(person_id=people[0].pk) if len(people) == 1 else None

    def _save_user(self, row: auth.User, account: ProvisionedAccount, resource: User) -> None:
        """Store what the resource says. Raises: InvalidValueException, UniquenessException."""
        username = auth.User.normalize_username(storable(resource.user_name or ""))
        if auth.User.objects.filter(username__iexact=username).exclude(pk=row.pk).exists():
            raise UniquenessException(detail=TAKEN.format(name=username[:150]))
        email = _email_of(resource)
        name = resource.name or Name()
        before, row.username = row.email, username
        (row if account.was_made else account).email = storable(email.value or "")
        row.first_name, row.last_name = storable(name.given_name or ""), storable(name.family_name or "")
        _save(row)
        account.person, account.removed_at, account.updated_at = row, None, timezone.now()
        account.external_id = storable(resource.external_id or "")
        account.email_type, account.email_is_primary = storable(email.type or ""), email.primary
        _save(account)
        if row.email != before:
            warn(row, Change.ADDRESS, address=before)

    def _save_group(self, row: auth.Group, provisioned: ProvisionedGroup, resource: Group) -> None:
        name = storable(resource.display_name or "")
        if auth.Group.objects.filter(name__iexact=name).exclude(pk=row.pk).exists():
            raise UniquenessException(detail=f"There is a group {name[:150]!r} already: find it by its displayName.")
        row.name = name
        _save(row)
        provisioned.group, provisioned.external_id, provisioned.updated_at = (
            row,
            storable(resource.external_id or ""),
            timezone.now(),
        )
        _save(provisioned)

    def _members(self, resource: Group) -> set[int]:
        """Return the ids of the members. Raises: InvalidValueException for what is no user."""
        named = {member.value or "" for member in resource.members or ()}
        ids = {text: _number(text) for text in named}
        members = set(self._people().filter(pk__in=ids.values()).values_list("pk", flat=True))
        for text, number in ids.items():
            if number not in members:
                raise InvalidValueException(detail=f"There is no user {text[:40]!r}: members are ids of users.")
        return members

    def _found(self, rows: QuerySet[Any], resource_type: ResourceType, resource_id: str) -> Any:
        row = rows.filter(pk=_number(resource_id)).first()
        if row is None:
            raise NotFoundException(detail=f"There is no {resource_type.name} {resource_id[:40]!r}.")
        return row

    def _record(self, action: Action, what: str, *, about: int | None = None) -> None:
        record(action, what=f"{what} {self._by}", person_id=None, about_id=about)


def _number(resource_id: str) -> int:
    """Return the number of a row; 0, which no row has, for what is no number."""
    return parse_number(resource_id, maximum=MAX_INTEGER) or 0


def _email_of(resource: User) -> Email:
    """Return the address that is kept: the primary one, else that of type "work", else the first.

    Entra names no primary one but changes that of type "work", which it adds to any other.
    """
    return min(resource.emails or [Email()], key=lambda each: (not each.primary, each.type != "work"))


def _save(row: Model) -> None:
    """Save a row if its values are valid. Raises: InvalidValueException, UniquenessException."""
    try:
        row.clean_fields(exclude=["password", "person", "group"])
        with transaction.atomic():
            row.save()
    except ValidationError as error:
        text = "; ".join(f"{name}: {' '.join(texts)}" for name, texts in error.message_dict.items())
        raise InvalidValueException(detail=text) from error
    except IntegrityError as error:  # another request was faster
        raise UniquenessException(detail="The name is taken.") from error


def resource_of(row: Any, *, with_many: bool) -> Resource[Any]:
    """Return a user or a group as SCIM shows it; `with_many` with its groups or members."""
    account = getattr(row, "provisioned", None)
    common: dict[str, Any] = {"id": str(row.pk), "external_id": (account.external_id if account else "") or None}
    if isinstance(row, auth.Group):
        meta = Meta(
            resource_type="Group",
            created=account.created_at if account else None,
            last_modified=account.updated_at if account else None,
        )
        members = [
            Member(value=str(person.pk), ref=f"Users/{person.pk}", type="User")  # type: ignore[arg-type]
            for person in (row.people if with_many else ())  # type: ignore[attr-defined]
        ]
        return Group(**common, meta=meta, display_name=row.name, members=members or None)
    email = Email(
        value=row.address,
        type=(account.email_type if account else "") or None,
        primary=account.email_is_primary if account else None,
    )
    groups = [
        GroupOfUser(value=str(group.pk), ref=f"Groups/{group.pk}", display=group.name)  # type: ignore[arg-type]
        for group in (row.groups.all() if with_many else ())
    ]
    return User(
        **common,
        meta=Meta(resource_type="User", created=row.date_joined, last_modified=row.changed_at),
        user_name=row.username,
        name=Name(given_name=row.first_name or None, family_name=row.last_name or None)
        if row.first_name or row.last_name
        else None,
        active=row.is_active,
        emails=[email] if row.address else None,
        groups=groups or None,
    )
