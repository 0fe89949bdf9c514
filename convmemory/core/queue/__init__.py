"""The queue: one round by person and archive, what is ours of django-q2, and the policy for retrying failed work."""
