"""Sessions with their person, browser and last use, so that they can be listed and ended without decoding them all.

Source: https://docs.djangoproject.com/en/5.2/topics/http/sessions/#extending-database-backed-session-engines
"""

from datetime import timedelta
from typing import Any, cast

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.http import HttpRequest
from django.utils import timezone

from convmemory.core.text import one_line, storable

SEEN_EVERY = timedelta(hours=1)  # so that a person who reads costs one write an hour
USER_AGENT, SIGNED_IN_AT = "user_agent", "signed_in_at"  # in the session, and copied to its columns
MAX_USER_AGENT_CHARS = 300


class Session(AbstractBaseSession):
    """A browser, of a person who is signed in or of a visitor."""

    # Without a constraint: Django takes its violation, by a person who is erased meanwhile, for a key that exists, and
    # tries others for ever.
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+", db_constraint=False
    )
    # Processes of an earlier version do not name these columns.
    user_agent = models.CharField(max_length=MAX_USER_AGENT_CHARS, default="", db_default="")
    signed_in_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField(null=True)

    class Meta(AbstractBaseSession.Meta):
        db_table = "django_session"

    def __str__(self) -> str:
        return f"session of user {self.person_id}"  # not its key, by which its browser is signed in

    @classmethod
    def get_session_store_class(cls) -> type["SessionStore"]:
        return SessionStore


class SessionStore(DatabaseStore):
    """Stores sessions as Django does, and notes their last use. Its name is part of the signature of each session."""

    @classmethod
    def get_model_class(cls) -> type[Session]:
        return Session

    def create_model_instance(self, data: dict[str, Any]) -> Session:
        return _described(super().create_model_instance(data), data)

    async def acreate_model_instance(self, data: dict[str, Any]) -> Session:
        return _described(await super().acreate_model_instance(data), data)

    def _get_session_from_db(self) -> Session | None:
        session: Session | None = super()._get_session_from_db()  # type: ignore[misc]
        if session is not None and (session.seen_at is None or session.seen_at < timezone.now() - SEEN_EVERY):
            # With the person, whom processes of an earlier version do not name.
            changed = {"seen_at": timezone.now(), "person_id": session.get_decoded().get(SESSION_KEY)}
            Session.objects.filter(pk=session.pk).update(**changed)
        return session


def _described(instance: AbstractBaseSession, data: dict[str, Any]) -> Session:
    session = cast("Session", instance)
    session.person_id, session.seen_at = data.get(SESSION_KEY), timezone.now()
    session.user_agent, session.signed_in_at = data.get(USER_AGENT, ""), data.get(SIGNED_IN_AT)
    return session


def describe_sign_in(sender: Any, request: HttpRequest, **kwargs: Any) -> None:
    """Receive `user_logged_in`: note when and with which browser the session began."""
    request.session[USER_AGENT] = one_line(storable(request.headers.get("User-Agent", "")), MAX_USER_AGENT_CHARS)
    request.session[SIGNED_IN_AT] = timezone.now().isoformat()
