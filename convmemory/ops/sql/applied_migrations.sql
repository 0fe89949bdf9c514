-- The migrations that the database has had, in their order.
SELECT app, name FROM django_migrations ORDER BY id
