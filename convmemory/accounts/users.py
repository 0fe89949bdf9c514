"""Finds users by name and creates them, for commands; ends their access."""

from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.models import ApiKey, Archive
from convmemory.accounts.sessions import end_sessions
from convmemory.core.administration.lists import user_id_of
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.core.program import COMMAND

SIGN_IN_REMEDY = f"`{COMMAND} changepassword {{name}}` sets one"


def user_named(username: str) -> User:
    """Return the active user with this name. Raises: NotFound, which says how to create the user."""
    try:
        return User.objects.get(username=username, is_active=True)
    except User.DoesNotExist:
        raise NotFound(
            f"There is no active user {username!r}. `{COMMAND} create_api_key {username} --create` makes one."
        ) from None


def archive_named(name: str) -> Archive:
    """Return the archive of the user with this name, or the space called like this, such as "space 7".

    Commands and the administration name archives so. Raises: NotFound.
    """
    archive = Archive.objects.select_related("person").filter(pk=user_id_of(name)).first()
    if archive is None:
        raise NotFound(f'There is no user and no space {name!r}; a space is named by its number, such as "space 7".')
    return archive


def create_user(*, username: str, password: str | None, is_admin: bool = False) -> User:
    """Return a new user; without a password the user cannot sign in on the pages.

    Raises: InvalidInput for a name that is invalid or taken, also in other letter case, and for a weak password.
    """
    username = User.normalize_username(username)
    user = User(username=username, is_staff=is_admin, is_superuser=is_admin)
    try:
        user.clean_fields(exclude=["password"])
        # Names that differ in case only would confuse people, and Django's form for new accounts refuses them.
        taken = User.objects.filter(username__iexact=username).values_list("username", flat=True).first()
        if taken == username:
            how = SIGN_IN_REMEDY.format(name=username)
            raise InvalidInput(f"There is a user {username!r} already. If they have no password: {how}.")
        if taken is not None:
            raise InvalidInput(f"There is a user {taken!r} already, whose name differs in upper and lower case only.")
        if password is not None:
            validate_password(password, user)
    except ValidationError as error:
        raise InvalidInput(f"The user {username[:40]!r} cannot be made: {' '.join(error.messages)}") from error
    user.set_password(password)
    with transaction.atomic():  # with the archive that comes with it
        user.save()
        record(Action.MADE, what=f"user {user.pk}", person_id=None, about_id=user.pk)
    return user


def on_user_saved(sender: type[User], *, instance: User, created: bool, **kwargs: Any) -> None:
    """Make the own archive of a new person, with the person's number."""
    if created:
        archive = Archive(id=instance.pk, kind=Archive.Kind.OWN, person=instance, created_at=instance.date_joined)
        archive.save(force_insert=True)


def end_access(*, user_id: int) -> None:
    """Deactivate an account: its sessions and keys end at once, also if it is activated again. All data stay."""
    User.objects.filter(pk=user_id).update(is_active=False)
    ApiKey.objects.filter(person_id=user_id, revoked_at=None).update(revoked_at=timezone.now())
    end_sessions(user_id=user_id)
