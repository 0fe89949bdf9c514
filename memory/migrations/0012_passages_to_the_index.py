"""Passages, their token vectors and their signs are models of the index now; their tables stay."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('memory', '0011_owner_of_token_vectors'),
        ('search', '0006_passages_of_the_index'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel('PassageTokens'),
                migrations.DeleteModel('SignBlock'),
                migrations.DeleteModel('Passage'),
            ],
        ),
    ]
