-- Forget which owners belong to which groups.
DELETE FROM core_ownergroup
