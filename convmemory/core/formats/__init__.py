"""Date formats of pages in each language; anything not defined here is as in Django."""
