"""Provides the values of the home page: the contents from `home.py`, and the URLs that a new user needs."""

from typing import Any

from django.urls import reverse

from convmemory.accounts.pages import PageRequest
from convmemory.conversations.import_views import upload_values
from convmemory.conversations.tasks import enqueue_count
from search.home import home_of
from search.pages.heatmap import heatmap_of


def home_values(request: PageRequest) -> dict[str, Any]:
    """Return the values for the template `home/home.html`, and enqueue the counting of changed conversations."""
    home = home_of(owner=request.user)
    if home.uncounted:
        enqueue_count(request.user.pk)
    return upload_values() | {
        "home": home,
        "heatmap": heatmap_of(home.weeks),
        "username": request.user.get_username(),
        "upload_address": request.build_absolute_uri(reverse("api:upload")),
    }
