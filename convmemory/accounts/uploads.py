"""Reads upload forms in separate threads, because that can mean copying half a gigabyte."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest
from django.http.multipartparser import MultiPartParserError

from convmemory.accounts import async_authentication
from convmemory.accounts.callers import Caller
from convmemory.core.errors import InvalidInput, refuse_unknown_names

T = TypeVar("T")
CSRF_FIELD = "csrfmiddlewaretoken"  # of a browser's form

# Threads of their own, because copying an upload can take minutes.
_uploads = ThreadPoolExecutor(4, thread_name_prefix="uploads")


class SessionAuth(async_authentication.SessionAuth):
    """Accepts the browser's session. Its CSRF check needs the form, which a thread has read before."""

    async def __call__(self, request: HttpRequest) -> Caller | None:
        if "Authorization" in request.headers or await async_authentication.caller_of_session(request) is None:
            return None
        await in_upload_thread(lambda: request.POST)
        caller: Caller | None = await super().__call__(request)
        return caller


UPLOAD_AUTHENTICATION: list[Any] = [async_authentication.BearerKey(), SessionAuth()]


async def in_upload_thread(function: Callable[[], T]) -> T:
    """Return the result of `function`, run in one of the few threads that read forms and store files."""
    return await asyncio.get_running_loop().run_in_executor(_uploads, copy_context().run, function)


def uploaded_file(request: HttpRequest, *, others: Sequence[str] = ()) -> "UploadedFile[Any]":
    """Return the form field `file` of a form with no other fields than these. Raises: InvalidInput."""
    try:
        files = request.FILES.getlist("file")
    except MultiPartParserError as error:
        raise InvalidInput(f"The form cannot be read: {error}. Send it as multipart/form-data.") from error
    if not files or not isinstance(files[0], UploadedFile):
        raise InvalidInput("There is no file: send it as multipart/form-data in a field that is called `file`.")
    if len(files) > 1:
        raise InvalidInput(f"There are {len(files)} files: send one in a request.")
    refuse_unknown_names("form field", [*request.FILES, *request.POST], ["file", *others, CSRF_FIELD])
    return files[0]
