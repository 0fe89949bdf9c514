"""A page with every component of the pages in every state, for developers."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from convmemory.accounts.pages import PageRequest, signed_in

SURFACES = ("page", "panel", "rail", "raised", "sunken", "line", "line-strong")
TEXTS = ("text", "soft", "muted", "faint", "accent", "accent-strong", "danger", "warning")
FILLS = ("accent", "accent-soft", "mark", "target", "danger-soft", "warning-soft")
SIZES = ("f11", "f12", "f13", "f14", "f15", "f16", "f20", "f24")
SPACES = ("s1", "s2", "s3", "s4", "s5", "s6")


@require_safe
@signed_in
def components(request: PageRequest) -> HttpResponse:
    """Render tokens and components; reads no data."""
    context = {"surfaces": SURFACES, "texts": TEXTS, "fills": FILLS, "sizes": SIZES, "spaces": SPACES}
    return render(request, "shell/components.html", context)
