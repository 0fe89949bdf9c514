"""The view of all SCIM addresses."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt


@csrf_exempt
def scim(request: HttpRequest, path: str = "") -> HttpResponse:
    """Answer a directory, which authenticates by a bearer token and never by a cookie."""
    from convmemory.accounts.scim.serving import answer

    return answer(request, path)
