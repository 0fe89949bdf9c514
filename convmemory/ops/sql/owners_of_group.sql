-- Ids and names of the owners who belong to a group.
SELECT p.owner_id, u.username
FROM core_ownergroup AS p
INNER JOIN auth_user AS u ON u.id = p.owner_id
WHERE p.number = %s
ORDER BY p.owner_id
