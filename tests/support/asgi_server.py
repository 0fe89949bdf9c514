"""The product's whole ASGI application, with MCP, on a real port and on the test's database."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.asgi_thread import running_application
from tests.support.pooling import pooled_connections


@contextmanager
def serve() -> Iterator[str]:
    """The address of a running server. Without lifespan: at its end that would stop the tests' database."""
    from convmemory.asgi import application

    with pooled_connections(), running_application(application) as address:
        yield address
