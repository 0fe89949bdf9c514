"""The administration as an app, with this program's site, which uses the maintenance log-in."""

from typing import Any

from django.contrib.admin import AdminSite, apps
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from convmemory.core import acting


class StaffAdminConfig(apps.SimpleAdminConfig):
    """Django's administration on `StaffSite`. `convmemory/urls.py` loads its pages, which commands do without."""

    default_site = "convmemory.core.administration.site.StaffSite"


# --- admin site -----------------------------------------------------------------------------------
# The administration site: everyone it admits uses the maintenance log-in, which sees all owners.


class StaffSite(AdminSite):
    """Django's administration site. Each of its views calls `has_permission` before it does anything else."""

    def has_permission(self, request: HttpRequest | Any) -> bool:
        admitted = super().has_permission(request)
        if admitted:
            acting.admit_staff()
        return admitted

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Lead to the page where all sign in, so that no other form has to ask for a second factor."""
        from django.contrib.auth.views import redirect_to_login  # needs models, which are loaded after this app

        answer = redirect_to_login(request.GET.get("next", "") or reverse("admin:index"))
        if request.user.is_authenticated and not self.has_permission(request):
            answer["Location"] += "&staff=1"
        return answer
