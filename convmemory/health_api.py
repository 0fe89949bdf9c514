"""Whether this process lives, and whether it can serve. Neither needs a key nor tells anything else."""

from http import HTTPStatus

from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from ninja import Router

router = Router(tags=["health"], auth=None)


@router.get("/health", summary="The process answers")
def health(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": "ok"})


@router.get("/ready", summary="The database answers, too")
def ready(request: HttpRequest) -> JsonResponse:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        body = {"status": "unavailable", "detail": "The database does not answer."}
        return JsonResponse(body, status=HTTPStatus.SERVICE_UNAVAILABLE)
    return JsonResponse({"status": "ok"})
