"""The page with the statistics of one's own archive, which starts counting the changes since the last visit."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from convmemory.accounts.pages import PageRequest, signed_in
from convmemory.conversations.reading import project_name
from convmemory.conversations.statistics import statistics_of
from convmemory.conversations.tasks import enqueue_count


@require_safe
@signed_in
def statistics(request: PageRequest) -> HttpResponse:
    """Render the page, or for htmx its figures alone, which reload themselves until everything is counted."""
    found = statistics_of(owner=request.user)
    if found.uncounted:
        enqueue_count(request.user.pk)
    context = {
        "statistics": found,
        "projects": [(row, project_name(row.name) or row.name) for row in found.projects],
    }
    is_part = request.htmx and request.htmx.target != "main"
    template = "conversations/statistics.html#figures" if is_part else "conversations/statistics.html"
    return render(request, template, context)
