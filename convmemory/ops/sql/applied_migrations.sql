-- The migrations applied to the database, in order.
SELECT app, name FROM django_migrations ORDER BY id
