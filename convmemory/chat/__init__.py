"""Agents, the streaming loop and the capture proxy."""
