"""The administration as an app, with this program's site, which uses the maintenance log-in."""

from typing import Any

from django.contrib.admin import AdminSite, apps
from django.http import HttpRequest

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
