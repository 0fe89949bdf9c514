"""Errors as problem JSON (RFC 9457): the only place where domain errors become HTTP codes."""

import logging
import math
from http import HTTPStatus
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.db import DataError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from convmemory.core import errors
from convmemory.core.logs import route_of

logger = logging.getLogger(__name__)

STATUS_OF: dict[type[errors.ConvMemoryError], HTTPStatus] = {
    errors.InvalidInput: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.NotFound: HTTPStatus.NOT_FOUND,
    errors.ConversationBusy: HTTPStatus.CONFLICT,
    errors.SwitchedOff: HTTPStatus.FORBIDDEN,
    errors.ReadOnlyKey: HTTPStatus.FORBIDDEN,
    errors.QuotaUsedUp: HTTPStatus.TOO_MANY_REQUESTS,
    errors.TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.StorageFull: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,  # no 5xx: clients try those again
    errors.TooManyAtOnce: HTTPStatus.TOO_MANY_REQUESTS,
    errors.EmbedderUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.NoEndpoint: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.EndpointBusy: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.EndpointError: HTTPStatus.BAD_GATEWAY,
    errors.DatabaseUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}


def problem(status: HTTPStatus, detail: str, **extra: Any) -> JsonResponse:
    """A problem document with this status."""
    body = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail, **extra}
    response = JsonResponse(body, status=status, content_type="application/problem+json")
    if status is HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = 'Bearer realm="convmemory"'
    return response


def status_of(error: errors.ConvMemoryError) -> HTTPStatus:
    """The HTTP status of a domain error, by its nearest class."""
    for kind in type(error).__mro__:
        if kind in STATUS_OF:
            return STATUS_OF[kind]
    return HTTPStatus.INTERNAL_SERVER_ERROR


def problem_of(error: errors.ConvMemoryError) -> JsonResponse:
    """The problem document for a domain error; it says when to try again if that is known."""
    response = problem(status_of(error), str(error), **error.details)
    if isinstance(error, (errors.EndpointBusy, errors.QuotaUsedUp)) and error.retry_after_s is not None:
        response.headers["Retry-After"] = str(math.ceil(error.retry_after_s))
    return response


def on_domain_error(request: HttpRequest, error: errors.ConvMemoryError) -> HttpResponse:
    return problem_of(error)


def on_validation_error(request: HttpRequest, error: ValidationError) -> HttpResponse:
    found = [{"place": ".".join(map(str, e["loc"])), "message": e["msg"]} for e in error.errors]
    detail = "; ".join(f"{item['place']}: {item['message']}" for item in found)
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, errors=found)


def key_needed() -> HttpResponse:
    """The response to a request without a valid key."""
    return problem(
        HTTPStatus.UNAUTHORIZED,
        "The key is missing, wrong, expired or revoked: send `Authorization: Bearer KEY` with a key made by "
        "`manage.py create_api_key USER` or on the page API keys.",
    )


def on_authentication_error(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    return key_needed()


def on_http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    return problem(HTTPStatus(error.status_code), str(error))


def on_not_found(request: HttpRequest, error: Http404) -> HttpResponse:
    return problem(HTTPStatus.NOT_FOUND, "There is nothing at this address.")


def on_request_too_big(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
    return problem(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "The request is larger than this server accepts (MAX_REQUEST_MB): send the messages in parts, "
        "or upload a file to POST /api/v1/imports.",
    )


def database_silent(route: str, error: Exception) -> HttpResponse:
    """The response if the database failed while a request to `route` was served."""
    logger.error("Database error while answering %s: %s", route, error)
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, "The database does not answer: try again in a moment.")


def on_database_error(request: HttpRequest, error: Exception) -> HttpResponse:
    return database_silent(route_of(request), error)


def on_unstorable_value(request: HttpRequest, error: DataError) -> HttpResponse:
    """A value from the caller that the database cannot store and that was not refused before."""
    logger.warning("A request to %s had a value that the database refuses", route_of(request), exc_info=error)
    detail = "The request has a value that cannot be stored or compared: a NUL character, or a number out of range."
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail)


def register(api: NinjaAPI) -> None:
    """Make every error of `api` a problem document."""
    handlers: list[tuple[type[Exception], Any]] = [
        (errors.ConvMemoryError, on_domain_error),
        (ValidationError, on_validation_error),
        (AuthenticationError, on_authentication_error),
        (HttpError, on_http_error),
        (Http404, on_not_found),
        (RequestDataTooBig, on_request_too_big),
        (DataError, on_unstorable_value),
        (OperationalError, on_database_error),
        (InterfaceError, on_database_error),
    ]
    for kind, handler in handlers:
        api.add_exception_handler(kind, handler)
