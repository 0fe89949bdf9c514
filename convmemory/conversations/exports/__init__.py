"""Exports conversations as files for people and programs: Markdown, JSON that can be imported again, one HTML page."""
