"""Imports: uploads, the queue of their work, the work itself, reports, and Undo."""
