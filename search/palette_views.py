"""The command palette: a dialog on any page (htmx), or a page of its own without scripts."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from convmemory.accounts.pages import PageRequest, signed_in
from search.pages.palette import palette_sections


@require_safe
@signed_in
def palette(request: PageRequest) -> HttpResponse:
    """Show the palette's entries for `?go=`."""
    text = request.GET.get("go", "")
    context = {"sections": palette_sections(owner=request.user, text=text), "text": text}
    return render(request, "search/palette.html#entries" if request.htmx else "search/palette.html", context)
