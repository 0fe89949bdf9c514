"""The administration as an app, with this program's site, which uses the maintenance log-in."""

from typing import Any

from django.contrib.admin import AdminSite, apps
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from convmemory.core import acting
from convmemory.core.config import config


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
        """Show the sign-in form; without passwords, lead to the page with the identity providers."""
        if not config.sso_only:
            return super().login(request, extra_context)
        from django.contrib.auth.views import redirect_to_login  # needs models, which are loaded after this app

        return redirect_to_login(request.GET.get("next", "") or reverse("admin:index"))
