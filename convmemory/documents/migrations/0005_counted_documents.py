"""Counts the documents of each owner, also those in the trash."""

from django.db import migrations

COUNT_DOCUMENTS = """
UPDATE conversations_storeduse AS u
SET documents = (SELECT count(*) FROM documents_document AS d WHERE d.owner_id = u.owner_id)
"""


class Migration(migrations.Migration):
    dependencies = [("conversations", "0011_counted_turns"), ("documents", "0004_trash")]

    operations = [migrations.RunSQL(COUNT_DOCUMENTS, migrations.RunSQL.noop)]
