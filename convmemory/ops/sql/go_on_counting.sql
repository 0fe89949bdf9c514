-- Continue a sequence where another one stands.
SELECT setval({new}, s.last_value, s.is_called) FROM {old} AS s
