"""Unique constraints name the owner, too, so that owners can be walled off and spread."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('search', '0008_vector_indexes_are_of_codes'),
    ]

    operations = [
        migrations.RemoveConstraint('itemembedding', 'item_embedding_unique'),
        migrations.AddConstraint(
            'itemembedding',
            models.UniqueConstraint(fields=('source', 'space', 'item_number', 'chunk_number', 'owner'), name='item_embedding_unique'),
        ),
        migrations.RemoveConstraint('sourceindex', 'source_index_unique'),
        migrations.AddConstraint(
            'sourceindex',
            models.UniqueConstraint(fields=('source', 'space', 'owner'), name='source_index_unique'),
        ),
    ]
