"""The forms that check a password, with pauses after wrong ones."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.core.exceptions import ValidationError

from convmemory.core.config import config
from convmemory.core.errors import SwitchedOff
from convmemory.sign_in.attempts import Attempt, is_password_of

P = ParamSpec("P")
R = TypeVar("R")

NO_PASSWORDS = "This server takes no passwords and no passkeys (SSO_ONLY): sign in by an identity provider."


def with_passwords(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse calls of a view that needs passwords or passkeys while `SSO_ONLY` is set. Raises: SwitchedOff."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if config.sso_only:
            raise SwitchedOff(NO_PASSWORDS)
        return function(*args, **kwargs)

    return wrapper


class SignInForm(AuthenticationForm):
    """Name and password. Raises PasswordsPaused and HashingBusy, which `convmemory.problems` turns into responses."""

    def clean(self) -> dict[str, Any]:
        if config.sso_only:
            raise ValidationError(NO_PASSWORDS, code="sso_only")
        username, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if self.request is None or not username or not password:
            return super().clean()
        address = self.request.META.get("REMOTE_ADDR", "")
        with Attempt(username=username, address=address, wrong=(ValidationError,)) as attempt:
            cleaned = super().clean()
            user = self.get_user()
            assert user is not None
            attempt.succeeded(user)
        return cleaned


class ChangePasswordForm(PasswordChangeForm):
    """The old password and a new one; `address` is the client's."""

    def __init__(self, *args: Any, address: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._address = address

    def clean_old_password(self) -> str:
        password: str = self.cleaned_data["old_password"]
        if not is_password_of(user=self.user, password=password, address=self._address):
            raise ValidationError(self.error_messages["password_incorrect"], code="password_incorrect")
        return password
