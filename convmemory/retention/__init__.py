"""How long things stay: the trash of each person, which a sweep empties."""
