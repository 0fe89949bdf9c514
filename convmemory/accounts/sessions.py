"""Lists the browsers in which a person is signed in, and ends their sessions. Reads and deletes `Session`."""

from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from convmemory.accounts.auditing import Action, record
from convmemory.core.errors import NotFound
from convmemory.core.text import content_hash, cut
from convmemory.sign_in.sessions.models import Session

MOST_LISTED = 100
MAX_BROWSER_CHARS = 60
# In this order: most browsers also name those that come after them here.
BROWSERS = {
    "Edg": "Edge", "OPR/": "Opera", "SamsungBrowser/": "Samsung Internet", "FxiOS/": "Firefox", "Firefox/": "Firefox",
    "CriOS/": "Chrome", "Chrome/": "Chrome", "Safari/": "Safari",
}  # fmt: skip
SYSTEMS = {
    "iPhone": "iPhone", "iPad": "iPad", "Android": "Android", "CrOS": "ChromeOS", "Windows": "Windows",
    "Macintosh": "macOS", "Linux": "Linux",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A session as its person sees it. `number` names it without its key, by which the browser is signed in."""

    number: str
    browser: str
    signed_in_at: datetime | None
    seen_at: datetime | None
    is_this: bool


def sessions_of(*, person: User, current_key: str | None) -> list[SignedIn]:
    """Return the sessions that a person has, that of this request first, then the last used ones."""
    rows = [
        SignedIn(
            number_of(row), browser_of(row.user_agent), row.signed_in_at, row.seen_at, row.session_key == current_key
        )
        for row in _sessions(person).order_by(F("seen_at").desc(nulls_last=True))[:MOST_LISTED]
    ]
    return sorted(rows, key=lambda row: not row.is_this)


def number_of(session: Session) -> str:
    return content_hash(session.session_key).hex()[:32]


@transaction.atomic
def end_session(*, person: User, number: str, current_key: str | None) -> None:
    """End a session of a person, but not that of this request. Raises: NotFound."""
    others = _sessions(person).exclude(session_key=current_key)
    row = next((row for row in others if number_of(row) == number), None)
    if row is None:
        raise NotFound("There is no such session, or no longer.")
    row.delete()
    record(Action.REVOKED, what="session", person_id=person.pk, about_id=person.pk)


@transaction.atomic
def end_other_sessions(*, person: User, current_key: str | None) -> int:
    """End all sessions of a person but that of this request; return how many."""
    ended: int = _sessions(person).exclude(session_key=current_key).delete()[0]
    record(Action.REVOKED, what=f"{ended} sessions", person_id=person.pk, about_id=person.pk)
    return ended


def end_sessions(*, user_id: int) -> int:
    """Delete the user's sessions; returns how many."""
    count: int = Session.objects.filter(person_id=user_id).delete()[0]
    return count


def forget_expired_sessions() -> int:
    """Delete sessions, also of visitors, that have expired; return their number."""
    count: int = Session.objects.filter(expire_date__lte=timezone.now()).delete()[0]
    return count


def browser_of(user_agent: str) -> str:
    """Return a short name of the browser and the system that a User-Agent names."""
    browser = next((name for sign, name in BROWSERS.items() if sign in user_agent), "")
    system = next((name for sign, name in SYSTEMS.items() if sign in user_agent), "")
    if browser and system:
        return _("%(browser)s on %(system)s") % {"browser": browser, "system": system}
    return browser or system or cut(user_agent, MAX_BROWSER_CHARS) or _("Unknown browser")


def _sessions(person: User) -> QuerySet[Session]:
    return Session.objects.filter(person_id=person.pk, expire_date__gt=timezone.now())
