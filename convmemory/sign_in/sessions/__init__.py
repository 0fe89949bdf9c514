"""Sessions that know their person, in the place of Django's app of sessions: with its label, its table and its rows."""
