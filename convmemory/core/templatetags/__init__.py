"""Template tags of the page's shell."""
