"""Admin pages with content: separate from the metadata, with their own permission, and every reading is recorded.

The owner sees the content at once. Others have to confirm (GET) before they see it (POST), so that nothing is read by
accident and every recorded reading was a decision. The page names the missing permission to users without it.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.contrib.admin import AdminSite
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from convmemory.accounts.content_access import may_read_content, record_reading
from convmemory.accounts.models import Archive
from convmemory.core.administration.metadata import AdminTable, MetadataAdmin

Content = Callable[[], dict[str, Any]]


def content_page(
    request: HttpRequest,
    *,
    site: AdminSite,
    archive_id: int,
    owner_name: str,
    what: str,
    template: str,
    content: Content,
    frame: dict[str, Any],
) -> HttpResponse:
    """Return the page with the content that `content` loads.

    `what` is its name in the record; `frame` is the context of the rest of the page.
    """
    context = {**site.each_context(request), **frame, "what": what, "owner_name": owner_name}
    if not may_read_content(reader=request.user, archive_id=archive_id):
        return TemplateResponse(request, "admin/content_refused.html", context, status=HTTPStatus.FORBIDDEN)
    if request.user.pk != archive_id and request.method != "POST":
        return TemplateResponse(request, "admin/content_ask.html", context)
    # Before the content is loaded, so that no reading goes unrecorded.
    record_reading(reader=request.user, archive_id=archive_id, what=what)
    response = TemplateResponse(request, template, {**context, **content()})
    response.headers["Cache-Control"] = "no-store"
    return response


class ContentAdmin(MetadataAdmin):
    """Metadata with a second page, `.../content/`, that shows the object's content."""

    content_template = ""

    def content_of(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """Return the context of the object's content page."""
        raise NotImplementedError

    def content_name(self, request: HttpRequest, obj: Any) -> str:
        """Return the name of the object in the record of readings."""
        return str(obj)

    def archive_of(self, obj: Any) -> Archive:
        archive: Archive = obj.archive
        return archive

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.content_view)
        return [path("<int:object_id>/content/", view, name=self._url_name()), *super().get_urls()]

    def tools(self, request: HttpRequest, obj: Any) -> list[tuple[str, str]]:
        tools = super().tools(request, obj)
        if may_read_content(reader=request.user, archive_id=self.archive_of(obj).pk):
            tools.append((reverse(f"admin:{self._url_name()}", args=[obj.pk]), "Read the content"))
        return tools

    def embedded_section(self, request: HttpRequest, obj: Any, text: str | None) -> AdminTable:
        """Return what a vector embeds: the text for its owner, a link for other readers, else what is missing."""
        title = "What it embeds"
        if text is not None:
            return AdminTable(title, ("Text",), [(text,)])
        if may_read_content(reader=request.user, archive_id=self.archive_of(obj).pk):
            address = reverse(f"admin:{self._url_name()}", args=[obj.pk])
            return AdminTable(title, (), [], "Each reading is recorded.", [(address, "Read the content")])
        note = "Texts need the permission “Can read other people's content”, which you do not have."
        return AdminTable(title, (), [], f"{note} Those who manage users can grant it, also to themselves.")

    def content_view(self, request: HttpRequest, object_id: int) -> HttpResponse:
        obj = self.get_object(request, str(object_id))
        if obj is None:
            raise Http404
        archive = self.archive_of(obj)
        # The name of a space is its members' text.
        may_read = may_read_content(reader=request.user, archive_id=archive.pk)
        title = f"Content of {obj}, of {(may_read and archive.name) or archive}"
        return content_page(
            request,
            site=self.admin_site,
            archive_id=archive.pk,
            owner_name=str(archive),
            what=self.content_name(request, obj),
            template=self.content_template,
            content=lambda: self.content_of(request, obj),
            frame={"title": title, "opts": self.opts, "original": obj},
        )

    def _url_name(self) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_content"
