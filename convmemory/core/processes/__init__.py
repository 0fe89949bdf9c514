"""Child processes for work on foreign data: their limits, their confinement, their supervision."""
