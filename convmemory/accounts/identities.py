"""Finds or makes the account of a person whom an identity provider has signed in. Reads and writes `LinkedIdentity`.

An account is found by issuer and subject, which are never another person's. Where the operator says that the provider
is the directory that provisions accounts by SCIM (`scim_claim`), one that it made is found by its ids; by an e-mail
address only where the operator trusts the provider's (`match_email`), and only if no other provider gave the account
that address. A name never finds any other account. Reasons: docs/adr/0118-vouched-addresses.md.
"""

import re
from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from convmemory.accounts.mail import Change, warn
from convmemory.accounts.models import ProviderAddress, ProvisionedAccount
from convmemory.accounts.spaces import follow_groups
from convmemory.core.acting import acting_for, maintenance
from convmemory.core.identity_providers import ROLES, IdentityProvider
from convmemory.core.sql import load_sql
from convmemory.core.text import storable
from convmemory.sign_in.models import LinkedIdentity
from convmemory.sign_in.oidc import SignInRefused

NOT_IN_NAMES = re.compile(r"[^\w.+-]")
NAME_CHARS = 140
MOST_ALIKE = 1_000


def account_of(provider: IdentityProvider, claims: Mapping[str, Any]) -> User:
    """Return the account of the person with these claims, with what the groups say. Raises: SignInRefused."""
    user = _linked(provider, claims["sub"])
    if user is None:
        existing = _provisioned(provider, claims) or _at_address(provider, claims)
        try:
            with transaction.atomic():
                user = _link(provider, claims, existing)
        except IntegrityError:  # a second sign-in of the same person was faster
            user = _linked(provider, claims["sub"])
            if user is None:
                raise
    if not user.is_active:
        raise SignInRefused(_("Your account is deactivated. Ask who runs this server."))
    with acting_for(user.pk):
        identities = LinkedIdentity.objects.filter(person_id=user.pk, issuer=provider.issuer, subject=claims["sub"])
        identities.update(last_used_at=timezone.now())
    claimed = claims.get(provider.groups_claim)
    groups = {claimed} if isinstance(claimed, str) else set(map(str, claimed)) if isinstance(claimed, list) else set()
    roles: dict[int, str] = {}
    for each in provider.space_groups:
        if each.group in groups:
            roles[each.space] = max(each.role, roles.get(each.space, ROLES[0]), key=ROLES.index)
    follow_groups(person=user, provider=provider.name, roles=roles)
    if provider.staff_groups and not user.is_superuser:
        is_staff = not groups.isdisjoint(provider.staff_groups)
        if is_staff != user.is_staff:
            user.is_staff = is_staff
            user.save(update_fields=["is_staff"])
    return user


def _linked(provider: IdentityProvider, subject: str) -> User | None:
    """Return the account that is linked with this subject, which a function of the database looks up."""
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.accounts", "owner_of_identity"), [provider.issuer, subject])
        (person_id,) = cursor.fetchone()
    return User.objects.get(pk=person_id) if person_id else None


def _provisioned(provider: IdentityProvider, claims: Mapping[str, Any]) -> User | None:
    """Return the account that SCIM made for the person; None without one. Raises: SignInRefused."""
    claim = claims.get(provider.scim_claim) if provider.scim_claim else None
    value = storable(claim) if isinstance(claim, str) else ""
    # At some providers people write any address, which is theirs only once it is verified.
    if not value or (provider.scim_claim == "email" and not _verified_email(claims)):
        return None
    with maintenance():
        rows = ProvisionedAccount.objects.filter(was_made=True, removed_at=None).select_related("person")
        users = [row.person for row in rows.filter(Q(external_id=value) | Q(person__username__iexact=value))[:2]]
    return _unlinked(provider, users)


def _at_address(provider: IdentityProvider, claims: Mapping[str, Any]) -> User | None:
    """Return the account with the person's address, unless another provider gave it. Raises: SignInRefused."""
    email = _verified_email(claims)
    if not email or not provider.match_email:
        return None
    with maintenance():
        by_others = ProviderAddress.objects.filter(email__iexact=email).exclude(issuer=provider.issuer)
        rows = User.objects.filter(email__iexact=email).exclude(pk__in=by_others.values("person_id"))
        accounts = list(rows[:2])
    return _unlinked(provider, accounts)


def _verified_email(claims: Mapping[str, Any]) -> str:
    """Return the address that the provider has verified; empty without one."""
    address = claims.get("email")
    is_verified = claims.get("email_verified") is True and isinstance(address, str) and len(address) <= 254
    return storable(str(address)) if is_verified else ""


def _link(provider: IdentityProvider, claims: Mapping[str, Any], existing: User | None) -> User:
    """Link the existing account of the person, or a new one. Raises: SignInRefused, IntegrityError."""
    user = existing
    if user is None:
        if not provider.create_accounts:
            raise SignInRefused(
                _("%(label)s has signed you in, but there is no account for you here. Ask who runs this server.")
                % {"label": provider.label}
            )
        user = User(username=_free_name(claims), email=_verified_email(claims))
        user.set_unusable_password()
        user.save()
        if user.email:
            with acting_for(user.pk):
                ProviderAddress.objects.create(person=user, issuer=provider.issuer, email=user.email)
    with acting_for(user.pk):
        LinkedIdentity.objects.create(person_id=user.pk, issuer=provider.issuer, subject=claims["sub"])
        if user.last_login is not None:
            warn(user, Change.PROVIDER)
    return user


def _unlinked(provider: IdentityProvider, users: list[User]) -> User | None:
    """Return the only account of those found; None without one. Raises: SignInRefused."""
    if not users:
        return None
    (user, *others) = users
    with acting_for(user.pk):
        is_linked = LinkedIdentity.objects.filter(person_id=user.pk, issuer=provider.issuer).exists()
    # An address can pass to another person, who must not get the account of the first.
    if others or is_linked:
        raise SignInRefused(_("Your account has another sign-in, or there are several. Ask who runs this server."))
    return user


def _free_name(claims: Mapping[str, Any]) -> str:
    """Return a user name that is close to the person's own."""
    claim = next((claims[key] for key in ("preferred_username", "email", "name") if claims.get(key)), "")
    start = storable(str(claim))[:NAME_CHARS].partition("@")[0]
    stem = User.normalize_username(NOT_IN_NAMES.sub("-", start)) or "user"
    alike = User.objects.filter(username__istartswith=stem).values_list("username", flat=True)[:MOST_ALIKE]
    taken = {name.casefold() for name in alike}
    names = (stem, *(f"{stem}-{number}" for number in range(2, MOST_ALIKE + 2)))
    return next(name for name in names if name.casefold() not in taken)
