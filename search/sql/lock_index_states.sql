-- Keeps everybody else from changing how far sources are indexed, until the transaction ends.
LOCK TABLE search_sourceindex IN SHARE ROW EXCLUSIVE MODE
