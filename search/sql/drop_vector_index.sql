-- Drops the index of a space, valid or not, while others read and write.
DROP INDEX CONCURRENTLY IF EXISTS {name}
