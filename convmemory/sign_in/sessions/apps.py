from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_in


class SessionsConfig(AppConfig):
    name = "convmemory.sign_in.sessions"
    label = "sessions"

    def ready(self) -> None:
        from convmemory.sign_in.sessions.models import describe_sign_in

        user_logged_in.connect(describe_sign_in)
