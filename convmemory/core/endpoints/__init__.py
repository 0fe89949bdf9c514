"""Requests to servers with an OpenAI-compatible API: connections, limits, replies, failures."""
