"""Keeps which identity provider gave an address, and apart from the account's own that of a directory.

Of accounts that exist, those that a provider made are told by their first identity, which was linked within seconds. The
address of an account that a directory has changed but not made can be the directory's: a reset link no longer goes there,
so that staff have to set the address again where the person has a password.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

UPGRADE = """
INSERT INTO accounts_provideraddress (owner_id, issuer, email)
SELECT DISTINCT ON (u.id) u.id, i.issuer, u.email
FROM auth_user AS u
INNER JOIN sign_in_linkedidentity AS i ON i.owner_id = u.id AND i.created_at < u.date_joined + interval '5 seconds'
WHERE u.email <> '' AND NOT EXISTS (SELECT FROM accounts_provisionedaccount AS p WHERE p.owner_id = u.id AND p.was_made)
ORDER BY u.id, i.id;

UPDATE accounts_provisionedaccount AS p SET email = u.email
FROM auth_user AS u
WHERE u.id = p.owner_id AND NOT p.was_made;

UPDATE auth_user AS u SET email = ''
FROM accounts_provisionedaccount AS p
WHERE p.owner_id = u.id AND NOT p.was_made AND u.password NOT LIKE '!%';
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0003_invited_members"),
        ("sign_in", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="provisionedaccount",
            name="email",
            field=models.EmailField(blank=True, db_default="", default="", max_length=254),
        ),
        migrations.AddField(
            model_name="scimtoken",
            name="reaches_staff",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.CreateModel(
            name="ProviderAddress",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("issuer", models.TextField()),
                ("email", models.EmailField(max_length=254)),
                (
                    "person",
                    models.OneToOneField(
                        db_column="owner_id",
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={"default_permissions": ()},
        ),
        migrations.RunSQL(UPGRADE, migrations.RunSQL.noop, hints={"shared": True}),
    ]
