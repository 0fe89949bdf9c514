"""What every request passes through: middleware, languages, callers and their share of the requests."""
