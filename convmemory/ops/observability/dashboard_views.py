"""The dashboard's pages in the admin: figures for staff, and, with a permission, the map of one user's turns."""

from typing import Any

import numpy as np
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from convmemory.accounts.callers import Caller
from convmemory.accounts.content_access import may_read_content
from convmemory.accounts.content_admin import content_page
from convmemory.accounts.users import archive_named
from convmemory.core.errors import NotFound
from convmemory.ops.dashboard_tasks import enqueue_map, enqueue_sample
from convmemory.ops.models import TurnMap
from convmemory.ops.observability.charts import MAP_SIZE, MapLabel, apart, map_place
from convmemory.ops.observability.clusters import clusters_of
from convmemory.ops.observability.dashboard import last_sample, panels
from convmemory.ops.observability.turn_maps import shown_points
from search.sources import adapter_of

AGES = ("oldest third", "middle third", "newest third")


def dashboard(request: HttpRequest) -> HttpResponse:
    """Show coverage, backlog, throughput, latency, failures and sizes."""
    context = {
        **admin.site.each_context(request),
        "title": "Dashboard",
        "sample": last_sample(),
        "panels": panels(),
    }
    return TemplateResponse(request, "admin/dashboard.html", context)


@require_POST
def measure_now(request: HttpRequest) -> HttpResponse:
    """Enqueue a measurement of the index."""
    enqueue_sample()
    messages.info(request, "A worker measures the index; load this page again in a moment.")
    return redirect("dashboard")


def turn_map(request: HttpRequest) -> HttpResponse:
    """Show the map of the turns of `?owner=`, a user or a space such as "space 7"; by default the reader's."""
    try:
        archive = archive_named(request.GET.get("owner", "").strip() or request.user.get_username())
    except NotFound as error:
        messages.error(request, str(error))
        return redirect("dashboard")
    return content_page(
        request,
        site=admin.site,
        archive_id=archive.pk,
        owner_name=str(archive),
        what="the map of turns",
        template="admin/turn_map.html",
        content=lambda: map_of(Caller.for_archive(archive.pk), is_own=archive.pk == request.user.pk),
        frame={"title": f"Map of the turns of {archive}", "owner": archive},
    )


@require_POST
def compute_map(request: HttpRequest) -> HttpResponse:
    """Enqueue the computation of a new map."""
    try:
        archive = archive_named(request.POST.get("owner", ""))
    except NotFound as error:
        raise PermissionDenied from error
    if not may_read_content(reader=request.user, archive_id=archive.pk):
        raise PermissionDenied
    enqueue_map(archive.pk)
    messages.info(request, "A worker computes the map; load this page again in a moment.")
    return redirect(reverse("turn-map", query={"owner": str(archive)}))


def map_of(caller: Caller, *, is_own: bool) -> dict[str, Any]:
    """Return the stored map of one user with links to the turns, for its template."""
    turn_map = TurnMap.objects.filter(archive_id=caller.archive_id).select_related("space").first()
    points = shown_points(turn_map) if turn_map else []
    for number, point in enumerate(points):
        point["cx"], point["cy"] = map_place(point["x"], point["y"])
        point["age"] = number * len(AGES) // len(points)
        adapter = adapter_of(point["kind"])
        point["item_name"] = adapter.item_name
        address = (
            adapter.url if is_own else adapter.reading_url
        )  # the product's page for the owner, the admin's for others
        point["url"] = address(point["object"], point["item"])
    return {"turn_map": turn_map, "points": points, "labels": labels_of(points), "size": MAP_SIZE, "ages": AGES}


def labels_of(points: list[dict[str, Any]]) -> list[MapLabel]:
    """Return the labels of the map's clusters, each at the centre of its cluster."""
    places = np.array([(point["x"], point["y"]) for point in points], dtype=np.float64).reshape(-1, 2)
    clusters = clusters_of(places, [point["heading"] for point in points])
    return apart([MapLabel(" · ".join(each.words), *map_place(each.x, each.y), each.count) for each in clusters])


urlpatterns = [
    path("", admin.site.admin_view(dashboard), name="dashboard"),
    path("measure", admin.site.admin_view(measure_now), name="measure-index"),
    path("map", admin.site.admin_view(turn_map), name="turn-map"),
    path("map/compute", admin.site.admin_view(compute_map), name="compute-map"),
]
