"""Finding users by name for commands."""

from django.contrib.auth.models import User

from convmemory.core.errors import NotFound


def user_named(username: str) -> User:
    """Raises: NotFound with the remedy."""
    try:
        return User.objects.get(username=username, is_active=True)
    except User.DoesNotExist:
        raise NotFound(
            f"There is no active user {username!r}. `manage.py create_api_key {username} --create` makes one."
        ) from None
