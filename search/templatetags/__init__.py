"""Template tags of the search box."""
