"""Summaries of conversations, made on request."""
