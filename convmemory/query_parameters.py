"""Refuses unknown query parameters by name: a misspelt filter would change the results.

django-ninja reads the parameters that a route declares and ignores the rest; here the readers of every route check all
of them. This happens after authentication, with the other checks.
"""

from typing import Any

from django.http import HttpRequest
from ninja import Router
from ninja.params.models import ParamModel, QueryModel

from convmemory.core.errors import InvalidInput

SHOWN_CHARS = 60


def refuse_unknown_parameters(router: Router) -> None:
    """Let every reading route of the router refuse query parameters that it does not declare."""
    for view in router.path_operations.values():
        for operation in view.operations:
            models = [_strict(model) if issubclass(model, QueryModel) else model for model in operation.models]
            if "GET" in operation.methods and not any(issubclass(model, QueryModel) for model in models):
                models.append(_NoParameters)
            operation.models = models


def _strict(model: type[QueryModel]) -> type[ParamModel]:
    class Strict(model):  # type: ignore[misc, valid-type]
        @classmethod
        def get_request_data(cls, request: HttpRequest, api: Any, path_params: dict[str, Any]) -> dict[str, Any] | None:
            _require_known(request, cls.__ninja_flatten_map__)
            data: dict[str, Any] | None = super().get_request_data(request, api, path_params)
            return data

    return Strict


class _NoParameters(QueryModel):
    """The query model of a route without parameters."""

    __ninja_param_source__ = "query"  # type: ignore[assignment]
    __ninja_flatten_map__: dict[str, Any] = {}

    @classmethod
    def get_request_data(cls, request: HttpRequest, api: Any, path_params: dict[str, Any]) -> dict[str, Any] | None:
        _require_known(request, {})
        return None


def _require_known(request: HttpRequest, known: dict[str, Any]) -> None:
    """Raise InvalidInput if the request has an unknown query parameter."""
    unknown = sorted(set(request.GET) - set(known))
    if unknown:
        there_are = f"use any of {', '.join(sorted(known))}" if known else "this route takes none"
        raise InvalidInput(f"There is no query parameter {unknown[0][:SHOWN_CHARS]!r} here: {there_are}.")
