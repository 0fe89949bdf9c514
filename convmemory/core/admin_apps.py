"""The administration as an app, with this program's site."""

from django.contrib.admin import apps


class StaffAdminConfig(apps.AdminConfig):
    """Django's administration on `StaffSite`."""

    default_site = "convmemory.core.admin_site.StaffSite"
