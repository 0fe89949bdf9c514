"""Addresses of the MCP server's page; the server itself is mounted in `convmemory/asgi.py`."""

from django.urls import path

from convmemory.mcp_server import views

urlpatterns = [
    path("settings/connect", views.connect, name="connect"),
]
