"""Postings of an item's words in blocks, in place of the full text indexes, and passages that say whether they ask.

Both are derived from rows that are there: workers make them, source by source, and searches are right meanwhile.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('search', '0010_system_prompts'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            'source',
            'layout',
            models.PositiveSmallIntegerField(
                default=0, db_default=0, help_text="The version of what is derived from its items' rows; an old one is brought up to the newest."
            ),
        ),
        migrations.AlterField(
            'source',
            'layout',
            models.PositiveSmallIntegerField(
                default=1, db_default=1, help_text="The version of what is derived from its items' rows; an old one is brought up to the newest."
            ),
        ),
        migrations.AddIndex(
            'source', models.Index(condition=models.Q(('layout__lt', 1)), fields=['owner'], name='source_old_layout')
        ),
        migrations.AddField(
            'passage',
            'asks',
            models.BooleanField(
                db_default=False, default=False, help_text='Whether it is a question.'
            ),
        ),
        migrations.CreateModel(
            'PostingBlock',
            [
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('home', models.PositiveSmallIntegerField(choices=[(0, 'Spoken'), (1, 'Unspoken')])),
                ('items', models.BinaryField()),
                ('words', models.BinaryField()),
                ('sizes', models.BinaryField()),
                ('postings', models.BinaryField()),
                (
                    'owner',
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+',
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    'source',
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+',
                        to='search.source',
                    ),
                ),
            ],
            options={
                'indexes': [models.Index(fields=['owner', 'home'], include=('id',), name='posting_block_owner')],
                'constraints': [
                    models.UniqueConstraint(
                        fields=('source', 'number', 'home', 'owner'), name='posting_block_unique'
                    )
                ],
            },
        ),
        migrations.RemoveIndex('item', 'item_owned_spoken'),
        migrations.RemoveIndex('item', 'item_owned_unspoken'),
    ]
