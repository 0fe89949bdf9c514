"""The unique constraint names the owner, too, so that owners can be walled off and spread."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('memory', '0012_passages_to_the_index'),
    ]

    operations = [
        migrations.RemoveConstraint('messageembedding', 'message_embedding_unique'),
        migrations.AddConstraint(
            'messageembedding',
            models.UniqueConstraint(fields=('message', 'space', 'owner'), name='message_embedding_unique'),
        ),
    ]
