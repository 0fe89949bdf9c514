"""Pauses after failed sign-ins that outlast a slow test."""

from datetime import timedelta

from django.db.models import F

from convmemory.sign_in.models import PasswordFailures

PROLONGED_S = 300
SHORTEST = timedelta(seconds=1)


def prolong_pauses() -> None:
    """The first pause takes a second, which a busy machine may need for a page."""
    has_pause = PasswordFailures.objects.filter(paused_until__gt=F("last_failed_at") + SHORTEST / 2)
    has_pause.update(paused_until=F("paused_until") + timedelta(seconds=PROLONGED_S))
