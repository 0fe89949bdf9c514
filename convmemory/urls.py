"""All addresses of the product."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from convmemory.api import api
from convmemory.chat import views
from convmemory.health_api import health, ready

admin.autodiscover()
handler500 = "convmemory.problems.server_error"

urlpatterns = [
    path("", include("search.urls")),
    path("", include("convmemory.conversations.urls")),
    path("", include("convmemory.documents.urls")),
    path("", include("convmemory.retention.urls")),
    path("", include("convmemory.moving.urls")),
    path("", include("convmemory.chat.urls")),
    path("", include("summaries.urls")),
    path("", include("convmemory.accounts.urls")),
    path("", include("convmemory.tools.urls")),
    path("", include("convmemory.mcp_server.urls")),
    path("", include("convmemory.ops.urls")),
    path("conversations/<int:conversation_id>/context", views.show_context, name="context"),
    path("health", health),
    path("ready", ready),
    path("api/v1/", api.urls),
    path("admin/dashboard/", include("convmemory.ops.observability.dashboard_views")),
    # The admin's own form has no pauses after wrong passwords.
    path("admin/password_change/", RedirectView.as_view(pattern_name="password")),
    path("admin/", admin.site.urls),
]
