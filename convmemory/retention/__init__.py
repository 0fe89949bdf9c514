"""Decides how long things stay: the trash of each person, which a sweep empties, and rules by age."""
