"""What the search page shows: groups of hits, bands, snippets, filter chips, recent searches, the palette."""
