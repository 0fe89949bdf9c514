from typing import Any

from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_in

from convmemory.core import acting


class SignInConfig(AppConfig):
    name = "convmemory.sign_in"
    label = "sign_in"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        user_logged_in.connect(act_for_whoever_signed_in)


def act_for_whoever_signed_in(sender: Any, user: Any, **kwargs: Any) -> None:
    """Let the rest of the request act for the user who signed in."""
    acting.authenticated(user.pk)
