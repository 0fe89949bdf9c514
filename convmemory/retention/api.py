"""Routes for the trash and the retention rules of the caller, or with `space` of a space."""

from typing import Any, Literal

from django.http import HttpRequest
from ninja import P, Query, QueryEx, Router, Status

from convmemory.accounts.authentication import caller_in
from convmemory.conversations.schemas import ONE_ARCHIVE
from convmemory.retention import rules, trash
from convmemory.retention.models import RetentionLimit, RetentionRule
from convmemory.retention.schemas import Emptied, FoundByRule, RuleIn, RuleList, RuleOut, TrashPage
from convmemory.retention.tasks import enqueue_deletion

router = Router(tags=["trash"])
Kind = Literal["conversation", "document"]
Space = QueryEx[str, P(description=ONE_ARCHIVE)]


@router.get("/trash", response=TrashPage, summary="What is in your trash, the latest first")
def list_trash(
    request: HttpRequest,
    limit: QueryEx[int, P(ge=1, le=100)] = 20,
    start: QueryEx[int, P(ge=0, le=10_000)] = 0,
    space: Space = "",
) -> dict[str, Any]:
    rows, following = trash.page_of_trash(caller=caller_in(request, space), limit=limit, start=start)
    return {"results": rows, "next_start": following}


@router.delete("/trash", response={202: Emptied}, summary="Empty your trash: delete all of it for good")
def empty_trash(request: HttpRequest, space: Space = "") -> Status[dict[str, Any]]:
    caller = caller_in(request, space)
    count = trash.empty(caller=caller)
    enqueue_deletion(caller.archive_id)
    return Status(202, {"deleted": count})


@router.post("/trash/{kind}/{int:object_id}/restore", response={204: None}, summary="Put something back")
def restore(request: HttpRequest, kind: Kind, object_id: int, space: Space = "") -> Status[None]:
    """A worker indexes it again, without computing its vectors; until then `GET /index/status` counts it as pending."""
    trash.restore(caller=caller_in(request, space), kind=kind, object_id=object_id)
    return Status(204, None)


@router.delete("/trash/{kind}/{int:object_id}", response={202: None}, summary="Delete something in your trash for good")
def delete_now(request: HttpRequest, kind: Kind, object_id: int, space: Space = "") -> Status[None]:
    caller = caller_in(request, space)
    trash.delete_now(caller=caller, kind=kind, object_id=object_id)
    enqueue_deletion(caller.archive_id)
    return Status(202, None)


@router.get("/retention_rules", response=RuleList, summary="Your retention rules, and the operator's limits")
def list_rules(request: HttpRequest, space: Space = "") -> dict[str, Any]:
    caller = caller_in(request, space)
    return {"results": rules.rules_of(caller=caller), "limits": RetentionLimit.objects.order_by("pk")}


@router.get("/retention_rules/preview", response=FoundByRule, summary="How many conversations a rule would find now")
def preview_rule(request: HttpRequest, rule: Query[RuleIn], space: Space = "") -> dict[str, Any]:
    """They go to the trash within some minutes of storing the rule, or without a trash (TRASH_DAYS=0) for good."""
    caller = caller_in(request, space)
    return {"conversations": rules.found_by(RetentionRule(archive_id=caller.archive_id, **rule.model_dump())).count()}


@router.post("/retention_rules", response={201: RuleOut}, summary="Let old conversations go to the trash")
def add_rule(request: HttpRequest, body: RuleIn, space: Space = "") -> Status[RetentionRule]:
    """The rule applies within some minutes, so preview it first. An equal rule that exists is returned."""
    caller = caller_in(request, space)
    rule = RetentionRule(archive_id=caller.archive_id, **body.model_dump())
    return Status(201, rules.add_rule(rule, caller=caller))


@router.delete("/retention_rules/{int:rule_id}", response={204: None}, summary="Delete a retention rule")
def delete_rule(request: HttpRequest, rule_id: int, space: Space = "") -> Status[None]:
    """Delete the rule; conversations that it has put into the trash stay there."""
    rules.remove_rule(caller=caller_in(request, space), rule_id=rule_id)
    return Status(204, None)
