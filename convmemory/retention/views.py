"""The pages of the trash (what is in it, putting it back, deleting it for good, which asks first) and of the rules."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from convmemory.accounts.pages import PageRequest, in_archive
from convmemory.conversations.models import Conversation
from convmemory.conversations.projects import projects_of
from convmemory.core.config import config
from convmemory.core.errors import InvalidInput
from convmemory.core.numbers import number_or_refuse
from convmemory.retention import rules, trash
from convmemory.retention.forms import RuleForm
from convmemory.retention.models import RetentionLimit, RetentionRule
from convmemory.retention.tasks import enqueue_deletion

PAGE_ROWS = 50
MAX_SOURCES = 100


@require_safe
@in_archive
def trash_page(request: PageRequest) -> HttpResponse:
    """List what is in the caller's trash, the latest first."""
    text = request.GET.get("start", "")
    start = number_or_refuse(text, f"start={text[:40]!r} is not a number.") or 0
    rows, following = trash.page_of_trash(caller=request.caller, limit=PAGE_ROWS, start=start)
    context = {"rows": rows, "following": following, "days": config.trash_days}
    return render(request, "retention/trash.html", context)


@require_POST
@in_archive
def change(request: PageRequest) -> HttpResponse:
    """Put the thing that `kind` and `id` name back, or delete it or everything for good once that is confirmed."""
    caller, action, kind = request.caller, request.POST.get("action", ""), request.POST.get("kind", "")
    text = request.POST.get("id", "")
    object_id = number_or_refuse(text, f"{text[:40]!r} is not the number of anything in the trash.") or 0
    if action == "restore":
        trash.restore(caller=caller, kind=kind, object_id=object_id)
        messages.success(request, _("It is back. Search finds it as soon as it is indexed again."))
        return redirect(f"/{kind}s/{object_id}")
    if action not in ("delete", "empty"):
        raise InvalidInput(f"There is nothing called {action[:40]!r} to do.")
    if request.POST.get("confirmed") != "1":
        context = {"action": action, "kind": kind, "id": object_id, "title": request.POST.get("title", "")[:300]}
        return render(request, "retention/delete.html", context)
    if action == "empty":
        count = trash.empty(caller=caller)
        note = ngettext("%(count)s thing is deleted for good.", "%(count)s things are deleted for good.", count)
        messages.success(request, note % {"count": count})
    else:
        trash.delete_now(caller=caller, kind=kind, object_id=object_id)
        messages.success(request, _("It is deleted for good."))
    enqueue_deletion(caller.archive_id)
    return redirect("trash")


@require_http_methods(["GET", "HEAD", "POST"])
@in_archive
def rules_page(request: PageRequest) -> HttpResponse:
    """List the caller's retention rules; count what a new one finds now, and store it once that is confirmed."""
    caller = request.caller
    if request.method == "POST" and request.POST.get("action") == "remove":
        text = request.POST.get("id", "")
        rules.remove_rule(caller=caller, rule_id=number_or_refuse(text, f"{text[:40]!r} is not a rule's number.") or 0)
        messages.success(request, _("The rule is removed."))
        return redirect("retention-rules")
    conversations = Conversation.objects.filter(archive_id=caller.archive_id)
    sources = list(conversations.order_by("source").values_list("source", flat=True).distinct()[:MAX_SOURCES])
    form = RuleForm(request.POST or None, instance=RetentionRule(archive_id=caller.archive_id), sources=sources)
    count = None
    if request.method == "POST" and form.is_valid():
        if request.POST.get("confirmed") == "1":
            rules.add_rule(form.instance, caller=caller)
            messages.success(request, _("The rule is stored. It applies within some minutes."))
            return redirect("retention-rules")
        count = rules.found_by(form.instance).count()
    context = {
        "rules": rules.rules_of(caller=caller),
        "limits": RetentionLimit.objects.order_by("pk"),
        "projects": [name for name, _count in projects_of(caller=caller)],
        "form": form,
        "count": count,
        "days": config.trash_days,
    }
    return render(request, "retention/rules.html", context, status=422 if form.errors else 200)
