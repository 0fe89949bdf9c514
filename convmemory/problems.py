"""The only module that converts errors to HTTP codes: one table for the API, the pages, the proxy and the forms.

The API answers with problem JSON (RFC 9457); `problems` renders pages with the same statuses and sentences.
"""

import errno
import logging
import math
import sys
from collections.abc import Awaitable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, get_args

import psycopg
from django.core.exceptions import RequestDataTooBig
from django.db import DatabaseError, DataError, InterfaceError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.translation import gettext
from django.views import defaults
from ninja import NinjaAPI, Router, Schema
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.params.models import BodyModel, ParamModel, QueryModel

from convmemory.core import errors
from convmemory.core.errors import refuse_unknown_names
from convmemory.core.logs import request_id, route_of
from convmemory.core.postgres.failures import is_passing
from convmemory.core.program import COMMAND
from convmemory.core.templatetags.people import for_people
from convmemory.core.web.asgi_types import is_for_programs
from convmemory.core.web.middleware import EitherMiddleware
from convmemory.sign_in.attempts import PasswordsPaused
from convmemory.sign_in.hashing import HashingBusy
from convmemory.sign_in.oidc import ProviderFailed, SignInRefused

logger = logging.getLogger(__name__)

STATUS_OF: dict[type[errors.ConvMemoryError], HTTPStatus] = {
    errors.InvalidInput: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.NotFound: HTTPStatus.NOT_FOUND,
    errors.ConversationBusy: HTTPStatus.CONFLICT,
    errors.InTrash: HTTPStatus.CONFLICT,
    errors.OnLegalHold: HTTPStatus.CONFLICT,
    errors.SwitchedOff: HTTPStatus.FORBIDDEN,
    errors.NotAllowed: HTTPStatus.FORBIDDEN,
    errors.ReadOnlyKey: HTTPStatus.FORBIDDEN,
    errors.QuotaUsedUp: HTTPStatus.TOO_MANY_REQUESTS,
    errors.TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.StorageFull: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,  # no 5xx: clients retry those
    errors.TooManyAtOnce: HTTPStatus.TOO_MANY_REQUESTS,
    errors.EmbeddingError: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.EmbedderUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.NoEndpoint: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.EndpointBusy: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.EndpointError: HTTPStatus.BAD_GATEWAY,
    PasswordsPaused: HTTPStatus.TOO_MANY_REQUESTS,
    SignInRefused: HTTPStatus.FORBIDDEN,
    ProviderFailed: HTTPStatus.BAD_GATEWAY,
    # All other errors concern the state of the server, and say what its operator has to do.
    HashingBusy: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.DatabaseUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.ConvMemoryError: HTTPStatus.SERVICE_UNAVAILABLE,
}

DISK_FULL = (
    "The server's disk is full, and nothing was stored: tell the operator, who can free space or delete what is no "
    "longer needed, then try again."
)
TOO_BIG = (
    "The request is larger than this server accepts (MAX_REQUEST_MB): send the messages in parts, "
    "or upload a file to POST /api/v1/imports."
)
UNSTORABLE = (
    "The request has a value that cannot be stored or compared: a NUL character, half of a surrogate pair, or a number "
    "out of range. Leave it out."
)
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal's status, its reason, which says what to do, and the seconds before a retry, if known."""

    status: HTTPStatus
    detail: str
    retry_after_s: float | None = None


DATABASE_SILENT = Refusal(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "The database does not answer: try again in a moment.",
    errors.DatabaseUnavailable.retry_after_s,
)


def refusal_of(error: Exception) -> Refusal | None:
    """Return the refusal that an error means; None for an unexpected one, an error inside the server."""
    if isinstance(error, errors.DatabaseUnavailable):
        return DATABASE_SILENT  # its message, which has paths and lines of PostgreSQL's log, goes to our log alone
    if isinstance(error, errors.ConvMemoryError):
        return Refusal(status_of(error), str(error), getattr(error, "retry_after_s", None))
    if is_disk_full(error):
        return Refusal(HTTPStatus.INSUFFICIENT_STORAGE, DISK_FULL)
    if isinstance(error, RequestDataTooBig):
        return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, TOO_BIG)
    if isinstance(error, (DataError, UnicodeEncodeError)):
        return Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, UNSTORABLE)
    if is_passing(error):
        return DATABASE_SILENT
    return None


def is_disk_full(error: BaseException) -> bool:
    """Return whether the error means a full disk or quota: this server's own, or PostgreSQL's."""
    if isinstance(error, OSError):
        return error.errno in _NO_SPACE
    return isinstance(error, psycopg.errors.DiskFull) or isinstance(error.__cause__, psycopg.errors.DiskFull)


def problem(status: HTTPStatus, detail: str, **extra: Any) -> JsonResponse:
    """Return a problem document with this status."""
    body = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail, **extra}
    response = JsonResponse(body, status=status, content_type="application/problem+json")
    if status is HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = 'Bearer realm="convmemory"'
    return response


def status_of(error: errors.ConvMemoryError) -> HTTPStatus:
    """Return the HTTP status of a domain error, by its nearest class."""
    return next(STATUS_OF[kind] for kind in type(error).__mro__ if kind in STATUS_OF)


def problem_of(error: errors.ConvMemoryError) -> JsonResponse:
    """Return the problem document for a domain error; it has Retry-After if the error says so."""
    refusal = Refusal(status_of(error), str(error), getattr(error, "retry_after_s", None))
    return problem_of_refusal(refusal, **error.details)


def problem_of_refusal(refusal: Refusal, **extra: Any) -> JsonResponse:
    """Return the problem document; it has Retry-After if the refusal says so."""
    response = problem(refusal.status, refusal.detail, **extra)
    set_retry_after(response, refusal)
    return response


def set_retry_after(response: HttpResponse, refusal: Refusal) -> None:
    if refusal.retry_after_s is not None:
        response.headers["Retry-After"] = str(math.ceil(refusal.retry_after_s))


def on_error(request: HttpRequest, error: Exception) -> HttpResponse:
    """Return the problem document for any error that has a sentence; raise the others again."""
    refusal = refusal_of(error)
    if refusal is None:
        raise error
    log(route_of(request), error)
    return problem_of_refusal(refusal, **getattr(error, "details", {}))


def log(route: str, error: Exception) -> None:
    """Log an error that is not the caller's; it names the route, because the path may contain private text.

    Other errors that are raised on purpose are not logged.
    """
    if isinstance(error, errors.DatabaseUnavailable):
        logger.error("No database while answering %s: %s", route, error)
    elif isinstance(error, (DataError, UnicodeEncodeError)):
        logger.warning("A request to %s had a value that the database refuses", route, exc_info=error)
    elif is_disk_full(error):
        logger.error("The disk is full while answering %s: %s", route, type(error).__name__)
    elif is_passing(error):
        logger.error("Database error while answering %s", route, exc_info=error)


def on_validation_error(request: HttpRequest, error: ValidationError) -> HttpResponse:
    errors = []
    for each in error.errors:
        source, *path = each["loc"]
        known_to_caller = path[1:] if source == "body" else path  # the first is the name of the route's parameter
        errors.append({"place": ".".join(map(str, (source, *known_to_caller))), "message": each["msg"]})
    detail = "; ".join(f"{item['place']}: {item['message']}" for item in errors)
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, errors=errors)


def key_needed() -> HttpResponse:
    """Return the response to a request without a valid key."""
    return problem(
        HTTPStatus.UNAUTHORIZED,
        "The key is missing, wrong, expired or revoked: send `Authorization: Bearer KEY` with a key made by "
        f"`{COMMAND} create_api_key USER` or on the page API keys.",
    )


def on_authentication_error(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    return key_needed()


def on_http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    detail = str(error)
    if error.status_code == HTTPStatus.BAD_REQUEST and error.__cause__ is not None:
        detail = f"The body cannot be read: {error.__cause__}. Send a JSON object, as /api/v1/docs shows it."
    return problem(HTTPStatus(error.status_code), detail)


def on_not_found(request: HttpRequest, error: Http404) -> HttpResponse:
    return problem(HTTPStatus.NOT_FOUND, "There is nothing at this address.")


def database_silent(route: str, error: Exception) -> HttpResponse:
    """Return the response to a request for `route` during which the database failed."""
    log(route, error)
    return problem_of_refusal(DATABASE_SILENT)


def register(api: NinjaAPI) -> None:
    """Make every error of `api` a problem document."""
    handlers: list[tuple[type[Exception], Any]] = [
        (ValidationError, on_validation_error),
        (AuthenticationError, on_authentication_error),
        (HttpError, on_http_error),
        (Http404, on_not_found),
        *((kind, on_error) for kind in (errors.ConvMemoryError, RequestDataTooBig, DatabaseError, OSError)),
        *((kind, on_error) for kind in (InterfaceError, psycopg.Error, UnicodeEncodeError)),
    ]
    for kind, handler in handlers:
        api.add_exception_handler(kind, handler)


PREFIX = "/api/"
OF_THE_BODY = frozenset({"Content-Type", "Content-Length"})
DETAILS = {
    HTTPStatus.BAD_REQUEST: "The request cannot be read.",
    HTTPStatus.FORBIDDEN: "The request comes from a page without its CSRF token: load the page again, or send a key.",
    HTTPStatus.NOT_FOUND: "There is nothing at this address: /api/v1/docs lists what there is. Ids are numbers.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "An error of the server: its log has the rest under the request's id, %(id)s.",
}


# Errors outside of routes are converted, too: unknown paths, methods, bad ids. Django and django-ninja answer these
# with a page or a line of text; the status and its headers stay unchanged.
class ProblemJsonMiddleware(EitherMiddleware):
    """Converts errors that are not problem documents yet."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        response = self.get_response(request)
        if isinstance(response, HttpResponseBase):
            return as_problem(request, response)

        async def answer() -> HttpResponseBase:
            return as_problem(request, await response)

        return answer()


def as_problem(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Return the response itself, or the problem document that replaces it."""
    is_error = response.status_code >= HTTPStatus.BAD_REQUEST
    if not is_error or not request.path.startswith(PREFIX) or "json" in response.headers.get("Content-Type", ""):
        return response
    status = HTTPStatus(response.status_code)
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(sorted(response.headers.get("Allow", "another method").split(", ")))
        detail = f"{request.method} is not possible here: use {allowed}."
    else:
        detail = DETAILS.get(status, status.description or status.phrase) % {"id": request_id.get()}
    made = problem(HTTPStatus(response.status_code), detail)
    for name, value in response.items():
        if name not in OF_THE_BODY:
            made.headers.setdefault(name, value)
    return made


JSON = "application/json"


# A misspelt filter would change the results. django-ninja reads what a route declares and ignores the rest; here the
# readers of every route check all of it, after authentication, with the other checks.
def refuse_unknown_parameters(router: Router) -> None:
    """Let every route of the router refuse query parameters and fields of its body that it does not declare."""
    for view in router.path_operations.values():
        for operation in view.operations:
            models = [
                _strict(model) if issubclass(model, (QueryModel, BodyModel)) else model for model in operation.models
            ]
            if not any(issubclass(model, QueryModel) for model in models):
                models.append(_NoParameters)
            if "GET" not in operation.methods and not any(issubclass(model, BodyModel) for model in models):
                models.append(_NoFields)
            operation.models = models


def _strict(model: type[ParamModel]) -> type[ParamModel]:
    class Strict(model):  # type: ignore[misc, valid-type]
        @classmethod
        def get_request_data(cls, request: HttpRequest, api: Any, path_params: dict[str, Any]) -> dict[str, Any] | None:
            data: dict[str, Any] | None = super().get_request_data(request, api, path_params)
            if issubclass(cls, QueryModel):
                refuse_unknown_names("query parameter", request.GET, cls.__ninja_flatten_map__)
            elif data is not None:
                [(name, body)] = data.items()
                declared = cls.model_fields[name].annotation
                schemas = [kind for kind in (declared, *get_args(declared)) if isinstance(kind, type(Schema))]
                if schemas and isinstance(body, dict):
                    fields = schemas[0].model_fields.items()
                    refuse_unknown_names("field", body, {field.alias or name for name, field in fields})
            return data

    return Strict


class _NoParameters(QueryModel):
    """The query model of a route without parameters."""

    __ninja_param_source__ = "query"  # type: ignore[assignment]
    __ninja_flatten_map__: dict[str, Any] = {}

    @classmethod
    def get_request_data(cls, request: HttpRequest, api: Any, path_params: dict[str, Any]) -> dict[str, Any] | None:
        refuse_unknown_names("query parameter", request.GET, ())
        return None


class _NoFields(BodyModel):
    """The body model of a route that takes no JSON: an empty object is none."""

    __ninja_param_source__ = "query"  # type: ignore[assignment]  # OpenAPI shows no body

    @classmethod
    def get_request_data(cls, request: HttpRequest, api: Any, path_params: dict[str, Any]) -> dict[str, Any] | None:
        data = super().get_request_data(request, api, path_params) if request.content_type == JSON else None
        refuse_unknown_names("field", data or (), ())
        return None


TEMPLATES = {HTTPStatus.NOT_FOUND: "404.html"}


# The views may be synchronous or not, for a whole page or a part of one. Routes of the API answer with their own
# problem documents before an error arrives here.
class PageErrorMiddleware(EitherMiddleware):
    """Answers a view's error that `refusal_of` knows with a page, or a problem document."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        return response_to(request, error)


def server_error(request: HttpRequest) -> HttpResponse:
    """Return the response to an error that was raised outside of a view, such as a full disk while a form is read."""
    error = sys.exc_info()[1]
    response = response_to(request, error) if isinstance(error, Exception) else None
    return response or defaults.server_error(request)


def response_to(request: HttpRequest, error: Exception) -> HttpResponse | None:
    """Return the page, or for programs the problem document, of a known error; None for an unexpected one."""
    refusal = refusal_of(error)
    if refusal is None:
        return None
    if is_for_programs(request.path):
        return on_error(request, error)
    log(route_of(request), error)
    # To look up the user, or to render with a request, would query the database again.
    reader = None if is_passing(error) else getattr(request, "user", None)
    reason = for_people(refusal.detail, reader)
    response: HttpResponse
    if request.headers.get("HX-Request") and refusal.status is not HTTPStatus.UNPROCESSABLE_ENTITY:
        # For the page's scripts, which show the sentence; htmx puts the page of a 422 in place.
        response = problem(refusal.status, reason)
    elif refusal == DATABASE_SILENT:
        response = render(None, "503.html", status=refusal.status)
    elif refusal.retry_after_s is not None:
        context = {"title": gettext("Not now"), "reason": reason, "again": request.path}
        response = render(None, "refused.html", context, status=refusal.status)
    else:
        template = TEMPLATES.get(refusal.status, "400.html")
        response = render(None, template, {"reason": reason}, status=refusal.status)
    response.headers["Cache-Control"] = "no-store"
    set_retry_after(response, refusal)
    return response
