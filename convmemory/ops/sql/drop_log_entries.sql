-- Delete the admin's log entries about one table's rows of one person.
DELETE FROM django_admin_log
WHERE content_type_id = %(kind)s AND object_id IN (SELECT "{pk}"::text FROM {table} WHERE {condition})
