"""Sources with items take the place of conversations with turns; what is stored of them is renamed, not made again.

A conversation's source gets the conversation's number, so that the columns that hold it need no new values.
"""

import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
import pgvector.django.halfvec
from django.conf import settings
from django.db import migrations, models

import search.fields

FILL_SOURCES = """
INSERT INTO search_source
    (id, owner_id, kind, object_id, title, agent, project, origin, archived, created_at, updated_at, item_count,
     element_count, version, spoken_length)
SELECT
    c.id, c.owner_id, 'conversation', c.id, c.title, c.agent, c.project, c.source, c.archived_at IS NOT NULL, c.created_at,
    c.updated_at, c.turn_count, c.message_count, c.turns_version, coalesce(i.spoken_length, 0)
FROM conversations_conversation AS c
LEFT JOIN search_conversationindex AS i ON i.conversation_id = c.id
ON CONFLICT DO NOTHING;
SELECT setval(pg_get_serial_sequence('search_source', 'id'), coalesce(max(id), 1), max(id) IS NOT NULL) FROM search_source;
"""
FILL_STATES = """
INSERT INTO search_sourceindex
    (source_id, owner_id, space_id, indexed_version, noted_version, dirty_from, last_item, passages, refused, attempts,
     error, updated_at)
SELECT
    conversation_id, owner_id, space_id, indexed_version, noted_version, dirty_from, last_embedded_turn_number, passages,
    '{}', attempts, error, updated_at
FROM search_conversationindex
WHERE space_id IS NOT NULL
UNION ALL
SELECT conversation_id, owner_id, space_id, indexed_version, 0, 0, turns - 1, passages, refused, 0, error, updated_at
FROM search_spaceprogress;
"""
FORGET_OLD_KEYS = """
DO $$
DECLARE old record;
BEGIN
    FOR old IN
        SELECT conrelid::regclass AS home, conname FROM pg_constraint
        WHERE contype = 'f'
            AND confrelid IN ('conversations_conversation'::regclass, 'conversations_message'::regclass)
            AND conrelid IN (
                'search_item'::regclass, 'search_itemembedding'::regclass, 'search_passage'::regclass,
                'search_binarycodeblock'::regclass
            )
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', old.home, old.conname);
    END LOOP;
END $$;
"""
RENAME = """
SET CONSTRAINTS ALL IMMEDIATE;
ALTER TABLE search_turndocument RENAME TO search_item;
ALTER INDEX search_turndocument_pkey RENAME TO search_item_pkey;
ALTER SEQUENCE search_turndocument_id_seq RENAME TO search_item_id_seq;
ALTER TABLE search_item RENAME COLUMN conversation_id TO source_id;
ALTER TABLE search_item RENAME COLUMN turn_number TO number;
ALTER TABLE search_item RENAME COLUMN message_id TO opening_id;
ALTER TABLE search_item RENAME COLUMN question TO heading;
ALTER TABLE search_item ALTER COLUMN opening_id DROP NOT NULL;
ALTER TABLE search_item DROP CONSTRAINT turn_document_unique;
ALTER TABLE search_item ADD CONSTRAINT item_unique UNIQUE (source_id, number, owner_id);
ALTER INDEX turn_document_newest RENAME TO item_newest;
ALTER INDEX turn_document_failed RENAME TO item_failed;
ALTER INDEX turn_document_owned_spoken RENAME TO item_owned_spoken;
ALTER INDEX turn_document_owned_unspoken RENAME TO item_owned_unspoken;

ALTER TABLE search_turnembedding RENAME TO search_itemembedding;
ALTER INDEX search_turnembedding_pkey RENAME TO search_itemembedding_pkey;
ALTER SEQUENCE search_turnembedding_id_seq RENAME TO search_itemembedding_id_seq;
ALTER TABLE search_itemembedding RENAME COLUMN conversation_id TO source_id;
ALTER TABLE search_itemembedding RENAME COLUMN turn_number TO item_number;
ALTER TABLE search_itemembedding RENAME COLUMN signs TO code;
ALTER TABLE search_itemembedding RENAME CONSTRAINT turn_embedding_unique TO item_embedding_unique;
ALTER INDEX turn_embedding_owner RENAME TO item_embedding_owner;
ALTER INDEX turn_embedding_newest RENAME TO item_embedding_newest;
ALTER INDEX turn_embedding_content RENAME TO item_embedding_content;

ALTER TABLE memory_passage RENAME TO search_passage;
ALTER INDEX memory_passage_pkey RENAME TO search_passage_pkey;
ALTER SEQUENCE memory_passage_id_seq RENAME TO search_passage_id_seq;
ALTER TABLE search_passage RENAME COLUMN conversation_id TO source_id;
ALTER TABLE search_passage RENAME COLUMN message_id TO element_id;
ALTER TABLE search_passage RENAME COLUMN turn_number TO item_number;
ALTER INDEX passage_turn RENAME TO passage_item;
ALTER INDEX passage_message RENAME TO passage_element;

ALTER TABLE memory_passagetokens RENAME TO search_tokenvectors;
ALTER INDEX memory_passagetokens_pkey RENAME TO search_tokenvectors_pkey;

ALTER TABLE memory_signblock RENAME TO search_binarycodeblock;
ALTER INDEX memory_signblock_pkey RENAME TO search_binarycodeblock_pkey;
ALTER SEQUENCE memory_signblock_id_seq RENAME TO search_binarycodeblock_id_seq;
ALTER TABLE search_binarycodeblock RENAME COLUMN conversation_id TO source_id;
ALTER TABLE search_binarycodeblock RENAME COLUMN places TO entries;
ALTER TABLE search_binarycodeblock RENAME COLUMN signs TO codes;
ALTER TABLE search_binarycodeblock DROP CONSTRAINT sign_block_unique;
ALTER TABLE search_binarycodeblock ADD CONSTRAINT code_block_unique UNIQUE (source_id, space_id, number, owner_id);
ALTER INDEX sign_block_owner RENAME TO code_block_owner;
"""
POINT_AT_SOURCES = "".join(
    f"ALTER TABLE {table} ADD CONSTRAINT {table}_source_fk FOREIGN KEY (source_id) "
    "REFERENCES search_source (id) DEFERRABLE INITIALLY DEFERRED;\n"
    for table in ("search_item", "search_itemembedding", "search_passage", "search_binarycodeblock")
)


def owner(*, db_index: bool = False) -> models.ForeignKey:
    return models.ForeignKey(
        db_index=db_index, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL
    )


def space() -> models.ForeignKey:
    return models.ForeignKey(
        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='embeddings.embeddingspace'
    )


def source(related_name: str) -> models.ForeignKey:
    return models.ForeignKey(
        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name=related_name, to='search.source'
    )


def number() -> models.BigAutoField:
    return models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')


class Migration(migrations.Migration):

    dependencies = [
        ('conversations', '0003_owner_of_messages'),
        ('embeddings', '0003_vector_uses'),
        ('memory', '0012_passages_to_the_index'),
        ('search', '0006_passages_of_the_index'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Source',
            fields=[
                ('id', number()),
                ('kind', models.CharField(max_length=20)),
                ('object_id', models.BigIntegerField()),
                ('title', models.CharField(blank=True, default='', max_length=300)),
                ('agent', models.CharField(blank=True, default='', max_length=100)),
                ('project', models.CharField(blank=True, default='', max_length=300)),
                ('origin', models.CharField(blank=True, default='', max_length=50)),
                ('archived', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField()),
                ('updated_at', models.DateTimeField()),
                ('item_count', models.PositiveIntegerField(default=0)),
                ('element_count', models.PositiveIntegerField(default=0)),
                ('version', models.PositiveBigIntegerField(default=0)),
                ('spoken_length', models.PositiveIntegerField(default=0, help_text='Sum of the lengths of its items.')),
                ('owner', owner()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('owner', 'kind', 'object_id'), name='source_unique')],
            },
        ),
        migrations.CreateModel(
            name='SourceIndex',
            fields=[
                ('id', number()),
                ('indexed_version', models.PositiveBigIntegerField(default=0)),
                ('noted_version', models.PositiveBigIntegerField(default=0)),
                ('dirty_from', models.PositiveIntegerField(blank=True, null=True)),
                ('last_item', models.IntegerField(default=-1, help_text='The last item that was done.')),
                ('passages', models.PositiveIntegerField(default=0)),
                ('refused', models.JSONField(default=dict, help_text="Why the model took an item's text not, by item number.")),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('error', models.TextField(blank=True, default='')),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('owner', owner()),
                ('source', source('index')),
                ('space', space()),
            ],
            options={
                'verbose_name': 'index state',
                'indexes': [models.Index(fields=['owner'], name='source_index_owner')],
                'constraints': [models.UniqueConstraint(fields=('source', 'space'), name='source_index_unique')],
            },
        ),
        migrations.RunSQL(FILL_SOURCES),
        migrations.RunSQL(FILL_STATES),
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(RENAME),
                migrations.RunSQL(FORGET_OLD_KEYS),
                migrations.RunSQL(POINT_AT_SOURCES),
            ],
            state_operations=[
                migrations.DeleteModel('PassageTokens'),
                migrations.DeleteModel('SignBlock'),
                migrations.DeleteModel('Passage'),
                migrations.DeleteModel('TurnDocument'),
                migrations.DeleteModel('TurnEmbedding'),
                migrations.CreateModel(
                    name='Item',
                    fields=[
                        ('id', number()),
                        ('number', models.PositiveIntegerField()),
                        ('opening_id', models.BigIntegerField(help_text='The element that opens the item.', null=True)),
                        ('heading', models.CharField(max_length=300)),
                        ('created_at', models.DateTimeField()),
                        ('content_hash', models.BinaryField(max_length=32)),
                        ('length', models.PositiveIntegerField(help_text='Words of `spoken`, as full text search counts them.')),
                        ('spoken', django.contrib.postgres.search.SearchVectorField()),
                        ('unspoken', django.contrib.postgres.search.SearchVectorField()),
                        ('error', models.TextField(blank=True, default='', help_text='Why the item could not be embedded.')),
                        ('owner', owner()),
                        ('source', source('items')),
                    ],
                    options={
                        'indexes': [
                            models.Index(fields=['owner', 'id'], name='item_newest'),
                            models.Index(condition=models.Q(('error', ''), _negated=True), fields=['id'], name='item_failed'),
                            django.contrib.postgres.indexes.GinIndex(search.fields.OwnedWords('spoken'), fastupdate=False, name='item_owned_spoken'),
                            django.contrib.postgres.indexes.GinIndex(search.fields.OwnedWords('unspoken'), fastupdate=False, name='item_owned_unspoken'),
                        ],
                        'constraints': [models.UniqueConstraint(fields=('source', 'number', 'owner'), name='item_unique')],
                    },
                ),
                migrations.CreateModel(
                    name='ItemEmbedding',
                    fields=[
                        ('id', number()),
                        ('item_number', models.PositiveIntegerField()),
                        ('chunk_number', models.PositiveIntegerField(default=0)),
                        ('content_hash', models.BinaryField(help_text='Of the whole item, not of the chunk.', max_length=32)),
                        ('token_count', models.PositiveIntegerField()),
                        ('embedding', pgvector.django.halfvec.HalfVectorField()),
                        ('code', models.GeneratedField(db_persist=True, expression=models.Func(models.F('embedding'), function='binary_quantize', output_field=search.fields.BitsField(), template='%(function)s(%(expressions)s)::bit varying'), output_field=search.fields.BitsField())),
                        ('created_at', models.DateTimeField(auto_now_add=True)),
                        ('owner', owner()),
                        ('source', source('item_embeddings')),
                        ('space', space()),
                    ],
                    options={
                        'indexes': [
                            models.Index(fields=['owner', 'space'], include=('source', 'item_number', 'id', 'code'), name='item_embedding_owner'),
                            models.Index(fields=['owner', 'id'], name='item_embedding_newest'),
                            models.Index(fields=['content_hash'], name='item_embedding_content'),
                        ],
                        'constraints': [models.UniqueConstraint(fields=('source', 'space', 'item_number', 'chunk_number'), name='item_embedding_unique')],
                    },
                ),
                migrations.CreateModel(
                    name='Passage',
                    fields=[
                        ('id', number()),
                        ('element_id', models.BigIntegerField(help_text="The message, or the like, whose number the source's kind gives.")),
                        ('content_hash', models.UUIDField()),
                        ('item_number', models.PositiveIntegerField()),
                        ('start', models.PositiveIntegerField()),
                        ('end', models.PositiveIntegerField()),
                        ('part_index', models.PositiveSmallIntegerField()),
                        ('kind', models.PositiveSmallIntegerField(choices=[(0, 'User'), (1, 'Assistant'), (2, 'Thinking'), (3, 'Tool'), (4, 'Tool call'), (5, 'Document')])),
                        ('token_count', models.PositiveSmallIntegerField()),
                        ('embedding', pgvector.django.halfvec.HalfVectorField()),
                        ('owner', owner()),
                        ('source', source('passages')),
                        ('space', space()),
                    ],
                    options={
                        'indexes': [
                            models.Index(fields=['owner', 'space', 'kind'], name='passage_owner'),
                            models.Index(fields=['source', 'item_number'], name='passage_item'),
                            models.Index(fields=['element_id'], name='passage_element'),
                            models.Index(fields=['content_hash', 'owner'], name='passage_content_owner'),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name='TokenVectors',
                    fields=[
                        ('passage', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='tokens', serialize=False, to='search.passage')),
                        ('vectors', models.BinaryField(help_text='one bit a dimension, token after token')),
                        ('owner', owner(db_index=True)),
                    ],
                    options={'verbose_name_plural': 'token vectors'},
                ),
                migrations.CreateModel(
                    name='BinaryCodeBlock',
                    fields=[
                        ('id', number()),
                        ('number', models.PositiveIntegerField()),
                        ('entries', models.BinaryField()),
                        ('codes', models.BinaryField()),
                        ('owner', owner()),
                        ('source', source('+')),
                        ('space', space()),
                    ],
                    options={
                        'indexes': [models.Index(fields=['owner', 'space'], include=('id',), name='code_block_owner')],
                        'constraints': [models.UniqueConstraint(fields=('source', 'space', 'number', 'owner'), name='code_block_unique')],
                    },
                ),
            ],
        ),
        migrations.DeleteModel('ConversationIndex'),
        migrations.DeleteModel('SpaceProgress'),
    ]
