"""The queue: one round by owner, its transport, and what may be stored in it."""
