"""The product's whole ASGI application, with MCP, on a real port and on the test's database."""

from contextlib import AbstractContextManager

from tests.support.asgi_thread import running_application


def serve() -> AbstractContextManager[str]:
    """The address of a running server. Without lifespan: at its end that would stop the tests' database."""
    from convmemory.asgi import application

    return running_application(application)
