"""Finds users by name and creates them, for commands."""

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from convmemory.core.errors import InvalidInput, NotFound

SIGN_IN_REMEDY = "`manage.py changepassword {name}` sets one"


def user_named(username: str) -> User:
    """Raises: NotFound, which says how to create the user."""
    try:
        return User.objects.get(username=username, is_active=True)
    except User.DoesNotExist:
        raise NotFound(
            f"There is no active user {username!r}. `manage.py create_api_key {username} --create` makes one."
        ) from None


def create_user(*, username: str, password: str, is_admin: bool = False) -> User:
    """A new user who can sign in. Raises: InvalidInput for a name that is taken or invalid, and for a weak password."""
    user = User(username=username, is_staff=is_admin, is_superuser=is_admin)
    if User.objects.filter(username=username).exists():
        how = SIGN_IN_REMEDY.format(name=username)
        raise InvalidInput(f"There is a user {username!r} already. If they have no password: {how}.")
    try:
        user.clean_fields(exclude=["password"])
        validate_password(password, user)
    except ValidationError as error:
        raise InvalidInput(" ".join(error.messages)) from error
    user.set_password(password)
    user.save()
    return user
