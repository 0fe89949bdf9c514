"""Summaries of conversations, made when asked for."""
