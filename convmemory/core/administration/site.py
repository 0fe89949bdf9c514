"""The administration as an app, with this program's site, which uses the maintenance log-in."""

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from django.contrib.admin import AdminSite, apps
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from convmemory.core import acting
from convmemory.core.errors import InvalidInput


class StaffAdminConfig(apps.SimpleAdminConfig):
    """Django's administration on `StaffSite`. `convmemory/urls.py` loads its pages, which commands do without."""

    default_site = "convmemory.core.administration.site.StaffSite"


class StaffSite(AdminSite):
    """Django's administration site: everyone it admits uses the maintenance log-in, which sees all owners.

    Each of its views calls `has_permission` before it does anything else.
    """

    def has_permission(self, request: HttpRequest | Any) -> bool:
        admitted = super().has_permission(request)
        if admitted:
            acting.admit_staff()
        return admitted

    def admin_view(self, view: Callable[..., Any], cacheable: bool = False) -> Any:
        """Return the view for staff alone, which refuses rows of an action that no row of its table can be.

        Django passes what a form has chosen to the database as it is.
        """
        model = getattr(getattr(view, "__self__", None), "model", None)  # of a list, or of another page of a table

        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            if model is not None:
                key = model._meta.pk
                while key.remote_field:
                    key = key.target_field
                for chosen in request.POST.getlist(ACTION_CHECKBOX_NAME):
                    try:
                        key.clean(chosen, None)
                    except ValidationError:
                        raise InvalidInput(
                            f"{chosen[:40]!r} names no row: go back to the list, and choose its rows again."
                        ) from None
            return view(request, *args, **kwargs)

        return super().admin_view(update_wrapper(checked, view), cacheable)

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Lead to the page where all sign in, so that no other form has to ask for a second factor."""
        from django.contrib.auth.views import redirect_to_login  # needs models, which are loaded after this app

        answer = redirect_to_login(request.GET.get("next", "") or reverse("admin:index"))
        if request.user.is_authenticated and not self.has_permission(request):
            answer["Location"] += "&staff=1"
        return answer
