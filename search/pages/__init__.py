"""The parts of the search page: groups of hits, bands, snippets, filter chips, recent searches, the palette."""
