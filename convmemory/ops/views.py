"""The pages about one's own data: an archive, what is stored, deleting the account; and the metrics."""

import logging
import time
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.contrib.auth import logout
from django.http import FileResponse, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from convmemory.accounts.holds import refuse_held
from convmemory.accounts.pages import PageRequest, signed_in
from convmemory.conversations.messages.storage_quota import use_of_storage
from convmemory.core import acting
from convmemory.core.config import config
from convmemory.core.errors import ConvMemoryError, NotFound
from convmemory.documents.storage import document_storage
from convmemory.ops.models import OwnArchive
from convmemory.ops.observability.metrics import metrics_text
from convmemory.ops.privacy import exporting
from convmemory.ops.privacy.backup_places import place_named
from convmemory.ops.privacy.erasing import count_rows, erase_user
from convmemory.ops.privacy.scheduled_backups import newest_backup
from convmemory.ops.tasks import enqueue_archive, enqueue_erasure
from convmemory.sign_in.attempts import is_password_of

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

logger = logging.getLogger(__name__)

# The rest is deleted in the background.
PATIENCE_S = 10.0

NAMES: tuple[tuple["StrOrPromise", tuple[str, ...]], ...] = (
    (_("conversations"), ("conversations_conversation",)),
    (_("messages"), ("conversations_message",)),
    (_("events of agents"), ("conversations_event",)),
    (_("documents"), ("documents_document",)),
    (_("sections of documents"), ("documents_section",)),
    (_("tags and marks"), ("conversations_tag", "conversations_turnmark")),
    (_("summaries"), ("summaries_conversationsummary",)),
    (_("hidden keys"), ("conversations_hiddenkey",)),
    (_("API keys"), ("accounts_apikey",)),
    (_("shared links"), ("accounts_sharelink",)),
    (_("sentences, for the search by meaning"), ("search_passageblock",)),
    (_("turns, for the search by meaning"), ("search_itemembedding",)),
    (
        _("words and whatever else search needs"),
        (
            "search_source", "search_sourceindex", "search_item", "search_postingblock",
            "memory_messageembedding", "embeddings_cachedvector",
            "embeddings_embeddingbatch",
        ),
    ),
)  # fmt: skip
"""The page's names for tables, in its order."""
REST = _("everything else, such as sources of messages, imports, agents, past searches, settings and ways to sign in")


class DeleteAccountForm(forms.Form):
    """Asks for the password again, because an open session must not be enough; for the name if there is no password."""

    confirmation = forms.CharField(widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}))

    def __init__(self, request: PageRequest) -> None:
        super().__init__(request.POST or None)
        self.user = request.user
        self._address = request.META.get("REMOTE_ADDR", "")
        field = self.fields["confirmation"]
        field.label = _("Your password")
        self._has_password = self.user.has_usable_password() and not config.sso_only
        if not self._has_password:
            field.label, field.widget = _("Your user name"), forms.TextInput(attrs={"autocomplete": "off"})

    def clean_confirmation(self) -> str:
        confirmation: str = self.cleaned_data["confirmation"]
        if self._has_password:
            if not is_password_of(user=self.user, password=confirmation, address=self._address):
                raise forms.ValidationError(_("That is not your password. Nothing was deleted."))
        elif confirmation != self.user.get_username():
            raise forms.ValidationError(_("That is not your user name. Nothing was deleted."))
        return confirmation


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def delete_account(request: PageRequest) -> HttpResponse:
    """Show the data to be deleted, and the form; after the POST, the receipt. Who is held sees why it cannot be."""
    refuse_held(archive_id=request.caller.archive_id, conversation_ids=None)
    form = DeleteAccountForm(request)
    if request.method != "POST" or not form.is_valid():
        context = {"form": form, "rows": named_counts(count_rows(request.user))}
        return render(request, "ops/delete_account.html", context, status=422 if form.errors else 200)
    user = request.user
    logout(request)
    with acting.maintenance():
        receipt = erase_user(user=user, deadline=time.monotonic() + PATIENCE_S)
    if not receipt.finished:
        enqueue_erasure(user.pk)
    context = {"receipt": receipt, "rows": named_counts(receipt.deleted), "tables": sorted(receipt.deleted.items())}
    return render(request, "ops/account_deleted.html", context)


def named_counts(counts: dict[str, int]) -> list[tuple[str, int]]:
    """Return counts with names that users know; the rest in one line, which says what it contains."""
    named = [(str(name), sum(counts.get(table, 0) for table in tables)) for name, tables in NAMES]
    rest = sum(counts.values()) - sum(count for _, count in named)
    return [(name, count) for name, count in (*named, (str(REST), rest)) if count]


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus metrics, with METRICS=1, for the bearer of METRICS_TOKEN or for staff."""
    if not config.metrics:
        return HttpResponse("Metrics are off: METRICS=1 turns them on.\n", status=404, content_type="text/plain")
    kind, _, credential = request.headers.get("Authorization", "").partition(" ")
    is_allowed = request.user.is_active and request.user.is_staff
    if kind:
        token = config.metrics_token
        is_allowed = bool(token) and kind == "Bearer" and constant_time_compare(credential, token)
    if not is_allowed:
        return HttpResponse(
            "Send `Authorization: Bearer METRICS_TOKEN`, or sign in as staff.\n",
            status=401, content_type="text/plain", headers={"WWW-Authenticate": 'Bearer realm="metrics"'},
        )  # fmt: skip
    backup_at = None
    if config.backup_folder:
        try:
            backup_at = newest_backup(place_named(config.backup_folder))
        except ConvMemoryError as error:  # a bucket that does not answer must not hide the other figures
            logger.warning("The newest backup is unknown: %s", error)
    with acting.maintenance():
        text = metrics_text(backup_at=backup_at)
    return HttpResponse(text, content_type=CONTENT_TYPE_PLAIN_0_0_4, headers={"Cache-Control": "no-store"})


@require_safe
@signed_in
def data(request: PageRequest) -> HttpResponse:
    """Show the data that this server stores about the caller, the caller's archives, and the way to delete all of
    it; and how much the chosen space stores.
    """
    rows = exporting.archives_of(caller=request.caller)
    context: dict[str, Any] = {"archives": rows, "is_working": any(row.is_unfinished for row in rows)}
    if request.htmx and request.htmx.target == "archives":
        return render(request, "ops/archives.html", context)
    context |= {
        "counts": named_counts(count_rows(request.user)),
        "kept_days": exporting.KEPT.days,
        "storage": use_of_storage(archive_id=request.caller.archive_id),
        "contact": config.quota_contact,
    }
    if request.chosen is not None:
        with request.caller.in_(request.chosen) as there:
            context["space_storage"] = use_of_storage(archive_id=there.archive_id)
        context["space_name"] = request.chosen.name
    return render(request, "ops/data.html", context)


@require_POST
@signed_in
def make_archive(request: PageRequest) -> HttpResponse:
    """Request an archive of everything. Raises: InvalidInput."""
    enqueue_archive(exporting.request_archive(caller=request.caller))
    return redirect("data")


@never_cache
@require_safe
@signed_in
def fetch_archive(request: PageRequest, own_archive_id: int) -> FileResponse:
    """Send the archive as a file."""
    row = exporting.get_archive(caller=request.caller, own_archive_id=own_archive_id)
    path = row.file.name or ""
    if row.state != OwnArchive.State.DONE or not document_storage().exists(path):
        raise NotFound("This archive is not there yet, or no longer.")
    name = f"convmemory-{timezone.localtime(row.created_at):%Y-%m-%d}.zip"
    return FileResponse(document_storage().open(path), as_attachment=True, filename=name)


@require_POST
@signed_in
def remove_archive(request: PageRequest, own_archive_id: int) -> HttpResponse:
    """Delete an archive before it expires."""
    exporting.remove_archive(caller=request.caller, own_archive_id=own_archive_id)
    messages.success(request, gettext("The archive is deleted. What it was made of stays."))
    return redirect("data")
